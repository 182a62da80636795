//! Input values: non-finite numbers, null and booleans.

use serde_json::json;

use super::{project, serve};
use crate::program::{Project, run_with_input};

/// Non-finite numbers, as people and programs write them.
const NOT_FINITE: [&str; 8] = [
    "NaN",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
];

/// docs/TYPES.md, "Numbers that are not finite".
#[test]
fn issue_13_what_is_not_finite_is_treated_alike() {
    let project = project(
        "[lookups.float]\nsql = 'select name from hosts where rack <= :n'\nparams.n = 'float'\n\
         [lookups.decimal]\nsql = 'select name from hosts where rack <= :n'\nparams.n = 'decimal'\n\
         [lookups.text]\nsql = 'select :n as n'\n",
    );
    let running = serve(&project, &[]);
    let mut client = running.client();
    for text in NOT_FINITE {
        for lookup in ["float", "decimal"] {
            let path = format!("/v1/lookup/{lookup}");
            client.get(&format!("{path}?n={text}")).is(400);
            client.post(&path, format!("[{text:?}]")).is(400);
            client.post(&path, format!("[{text}]")).is(400);
        }
        // Text is returned unchanged.
        let answer = client.get(&format!("/v1/lookup/text?n={text}")).is(200);
        assert_eq!(answer.json(), json!({"n": text}));
        // None of them is JSON.
        client.post("/v1/lookup/text", format!("[{text}]")).is(400);
    }
    client.get("/v1/lookup/float?n=1e300").is(200);
}

#[test]
fn issue_13_what_is_not_finite_is_no_number_in_events_and_tables() {
    let mut rows = "name,n\n".to_owned();
    rows.extend((0..20).map(|row| format!("number {row},{row}.5\n")));
    rows.extend(NOT_FINITE.iter().map(|text| format!("{text},{text}\n")));
    let project = Project::with(&[
        ("numbers/data.csv", rows.as_str()),
        ("knowdb.toml", "version = 2\n[[tables]]\nname = 'numbers'\n"),
        (
            "models/m.oml",
            "name : m\nrule : /*\n---\nn : float = take(n) ;\n\
             d = select n from numbers where name = 'inf' ;\n",
        ),
    ]);
    // A column that holds one is text, and a warning names the first of them.
    project
        .run(&["check", "."])
        .ended(0)
        .err_has(&["column \"n\" is text: line 22 is not a number"]);
    let folder = project.path().to_str().unwrap();
    for text in NOT_FINITE {
        // As a text of an event it is not converted to a float.
        let event = json!({"n": text}).to_string();
        let said = run_with_input(["enrich", folder, "-", "--format", "json"], &event).ended(0);
        let expected = json!({"n": text, "d": "inf"});
        assert_eq!(said.out.parse::<serde_json::Value>().unwrap(), expected);
        // It is not a valid JSON number.
        let event = format!("{{\"n\":{text}}}\n");
        let said = run_with_input(["enrich", folder, "-", "--format", "json"], &event).ended(0);
        assert_eq!(said.out, "", "{text}");
        said.err_has(&["rejects: 1"]);
    }
}

#[test]
fn issue_13_null_is_refused_before_a_database_is_asked() {
    // Nothing listens there, so that queries fail.
    let project = Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[[tables]]\nname = 't'\n[lookups.int]\nsql = 'select a from t where a + 0 = :a'\n\
         params.a = 'int'\n[lookups.any]\nsql = 'select :a as a'\n",
        ),
        ("t/data.csv", "a\n1\n"),
    ]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    for body in ["[null]", "[1, null]", "[{\"a\":null}]"] {
        let answer = client.post("/v1/lookup/int", body).is(400).json();
        let problem = &answer["parameters"][0]["problem"];
        assert_eq!(
            *problem, "must be a whole number within 64 bits, not null",
            "{body}"
        );
    }
    let answer = client.post("/v1/lookup/any", "[null]").is(200);
    assert_eq!(answer.text(), "[{\"a\":null}]");
}

#[test]
fn issue_13_booleans_find_the_words_of_derived_columns() {
    let project = Project::with(&[
        ("lower/data.csv", "name,up\na,true\nb,false\nc,\n"),
        ("title/data.csv", "name,up\na,True\nb,False\n"),
        ("upper/data.csv", "name,up\na,TRUE\nb,FALSE\n"),
        ("number/data.csv", "name,up\na,1\nb,0\n"),
        (
            "knowdb.toml",
            "version = 2\n[[tables]]\nname = 'lower'\n[[tables]]\nname = 'title'\n\
             [[tables]]\nname = 'upper'\n[[tables]]\nname = 'number'\n\
             [lookups.lower]\nsql = 'select name from lower where up = :up'\nparams.up = 'bool'\n\
             [lookups.title]\nsql = 'select name from title where up = :up'\nparams.up = 'bool'\n\
             [lookups.upper]\nsql = 'select name from upper where up = :up'\nparams.up = 'bool'\n\
             [lookups.number]\nsql = 'select name from number where up = :up'\nparams.up = 'bool'\n\
             [lookups.sqlite]\nsql = 'select name from title where :up in (up) limit 1 offset 0'\nparams.up = 'bool'\n\
             [lookups.any]\nsql = 'select name from lower where up = :up'\n",
        ),
        (
            "models/m.oml",
            "name : m\nrule : /*\n---\nname = select name from title where up = read(up) ;\n",
        ),
    ]);
    project
        .run(&["check", "."])
        .ended(0)
        .out_has(&["TEXT BOOLEAN"]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    for lookup in ["lower", "title", "upper", "number", "sqlite", "any"] {
        let path = format!("/v1/lookup/{lookup}");
        for (bool, name) in [("true", "a"), ("false", "b")] {
            let answer = client.get(&format!("{path}?up={bool}")).is(200);
            assert_eq!(answer.json()["name"], name, "{lookup}");
            let answer = client.post(&path, format!("[{bool}]")).is(200);
            assert_eq!(answer.json()[0]["name"], name, "{lookup}");
        }
    }
    let answer = client
        .post("/v1/enrich/m", "{\"up\":true}\n{\"up\":false}\n")
        .is(200);
    assert_eq!(answer.text(), "{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
}
