//! Several outputs of `enrich`, dropped events and split ones, with the program itself.

use crate::program::Project;

const EVENTS: &str = r#"{"id":1,"level":"error","items":[{"sku":"a"},{"sku":"b"}]}
{"id":2,"level":"debug","items":[{"sku":"a"}]}
{"id":3,"level":"info","items":[]}
{"id":4,"level":"fatal","items":[{"sku":"z"}]}
"#;

const MODEL: &str = "name : route
---
id = read(id) ;
sku = read(items/sku) ;
price = select price from prices where sku = read(items/sku) ;
@meta/output = match read(level) {
    chars(error) => chars(alerts) ;
    chars(debug) => chars(none) ;
    chars(fatal) => chars(pager) ;
    _ => chars(default) ;
} ;
";

fn project(enrich: &str) -> Project {
    let config = format!(
        "version = 2\n[enrich]\nmodel = 'route'\nformat = 'json'\n{enrich}\n\
         [[tables]]\nname = 'prices'\ncolumns = {{ by_header = ['sku', 'price'] }}\n"
    );
    Project::with(&[
        ("knowdb.toml", &config),
        ("prices/data.csv", "sku,price\na,5\nb,7\n"),
        ("models/route.oml", MODEL),
        ("events.json", EVENTS),
    ])
}

#[test]
fn models_choose_outputs_and_elements_are_looked_up() {
    let project = project(
        "split = 'items'\n\
         [[enrich.output]]\nname = 'alerts'\ntarget = 'alerts.out'\nformat = 'csv'\n\
         options = { columns = ['id', 'sku', 'price'] }\n\
         [[enrich.output]]\nname = 'unused'\ntarget = 'unused.json.gz'",
    );
    let said = project
        .run(&["enrich", ".", "events.json", "--output", "out.json"])
        .ended(0);
    assert_eq!(project.read("out.json"), "");
    assert_eq!(project.read("alerts.out"), "id,sku,price\n1,a,5\n1,b,7\n");
    said.err_has(&[
        "4 events in",
        "wrote 25 bytes in 2 events, dropped 2 events",
        "of these, 2 events to alerts",
        "of these, 0 events to unused",
        "rejects: 1",
        "no output is named `pager`; the outputs are default, alerts, unused",
    ]);

    // A flag replaces the output of its name, and adds others.
    let said = project
        .run(&[
            "enrich",
            ".",
            "events.json",
            "--named-output",
            "alerts=alerts.json",
            "--named-output",
            "pager=-",
            "--output",
            "out.json",
        ])
        .ended(0);
    assert_eq!(
        project.read("alerts.json"),
        "{\"id\":1,\"sku\":\"a\",\"price\":5}\n{\"id\":1,\"sku\":\"b\",\"price\":7}\n"
    );
    assert_eq!(said.out, "{\"id\":4,\"sku\":\"z\"}\n");
    said.err_has(&["of these, 1 event to pager", "rejects: 0"]);

    let found = project.run(&["check", "."]).ended(0);
    assert!(!found.err.contains("error"), "{}", found.err);
}

#[test]
fn an_event_without_the_array_is_kept() {
    let project = project("split = 'items'");
    project.write("events.json", "{\"id\":7,\"level\":\"info\"}\n");
    let said = project.run(&["enrich", ".", "events.json"]).ended(0);
    assert_eq!(said.out, "{\"id\":7}\n");
    // The flag takes the place of the setting.
    project.write("events.json", EVENTS);
    let said = project
        .run(&["enrich", ".", "events.json", "--split", "level/x"])
        .ended(0);
    assert_eq!(said.out, "{\"id\":3}\n");
}

#[test]
fn mistakes_name_the_output() {
    for (enrich, expected) in [
        (
            "output = ['x']",
            "knowdb.toml:5: enrich.output.0 must be a table, not a string",
        ),
        (
            "[[enrich.output]]\nname = 'a'\ntagret = 'x'",
            "knowdb.toml:7: unknown key enrich.output.0.tagret; did you mean \"target\"?",
        ),
        (
            "[[enrich.output]]\nname = 'none'\ntarget = 'x.json'",
            "an output cannot be named `none`",
        ),
        (
            "[[enrich.output]]\nname = 'a'\ntarget = 'x.csv'",
            "the columns of csv output `",
        ),
        (
            "[[enrich.output]]\nname = 'default'\ntarget = 'x.json'\n\
             [[enrich.output]]\nname = 'a'\ntarget = './x.json'",
            "are the same file",
        ),
        (
            "[[enrich.output]]\nname = 'a'\ntarget = 'events.parquet'",
            "parquet",
        ),
        (
            "[[enrich.output]]\nname = 'a'\ntarget = 'prices/data.csv'\noptions = { columns = ['a'] }",
            "is a file of the project",
        ),
    ] {
        let project = project(enrich);
        let said = project.run(&["enrich", ".", "events.json"]);
        assert_ne!(said.code, 0, "{enrich}");
        assert!(said.err.contains(expected), "{enrich}: {}", said.err);
    }
    let project = project("[[enrich.output]]\nname = 'a'\ntarget = 'x'\nformat = 'xml'");
    let said = project.run(&["check", "."]).ended(1);
    let text = said.out + &said.err;
    assert!(text.contains("knowdb.toml:5: "), "{text}");
    assert!(text.contains("xml"), "{text}");
}

/// `check` and a run refuse the same, with the same text.
#[test]
fn check_refuses_what_a_run_refuses() {
    let output = |name: &str, target: &str| {
        format!("[[enrich.output]]\nname = '{name}'\ntarget = '{target}'\n")
    };
    let many = (0..64).map(|n| output(&format!("a{n}"), &format!("{n}.json")));
    let many: String = many.collect();
    let long = output("a", &format!("{}.json", "x".repeat(300)));
    for (enrich, expected) in [
        (
            &*output("none", "x.json"),
            "an output cannot be named `none`",
        ),
        (&*output("", "x.json"), "an output cannot be named ``"),
        (&*many, "a run has at most 64 outputs"),
        (&*long, "File name too long"),
        (
            &*output("a", "x.csv"),
            "the columns of csv output `a` are not known",
        ),
        (&*output("a", "missing/x.json"), "the folder does not exist"),
        (&*output("a", "models"), "is a directory"),
        (
            &*(output("a", "x.json") + &output("b", "./x.json")),
            "are the same file",
        ),
        (
            &*(output("default", "x.json") + &output("a", "x.json")),
            "are the same file",
        ),
        (
            &*format!("reject = 'x.json'\n{}", output("a", "x.json")),
            "are the same file",
        ),
        (
            &*output("a", "events.json"),
            "events.json` is also the input",
        ),
        (
            &*(output("a", "prices/data.csv") + "options = { columns = 'a' }"),
            "is a file of the project",
        ),
        ("split = ''", "the path `` to split has an empty part"),
        (
            "split = 'a//b'",
            "the path `a//b` to split has an empty part",
        ),
        ("split = '/a'", "the path `/a` to split has an empty part"),
    ] {
        let project = project(&format!("input = 'events.json'\n{enrich}"));
        for command in ["check", "enrich"] {
            let said = project.run(&[command, "."]).ended(1);
            assert!(
                said.err.contains(expected),
                "{command} {enrich}: {}",
                said.err
            );
        }
        assert_eq!(project.read("events.json"), EVENTS);
        assert!(!project.file("x.json").exists(), "{enrich}");
    }
}

/// Outputs can be added by flags, so that this is only a warning.
#[test]
fn check_warns_of_names_that_no_output_has() {
    let project = project("[[enrich.output]]\nname = 'alerts'\ntarget = 'x.json'");
    let said = project.run(&["check", "."]).ended(0);
    said.out_has(&["no output is named `pager`", "route.oml:9:"]);
    let said = project.run(&["check", ".", "--strict"]).ended(1);
    said.err_has(&["1 name of an output that is not set"]);
}

/// Hints name what applies to the output, and rejects the output that refused the event.
#[test]
fn hints_and_rejects_name_the_output() {
    for (flag, expected) in [
        (
            "alerts=x.csv",
            "output = [{ name = \"alerts\", target = \"x.csv\", options = { columns = ",
        ),
        (
            "alerts=x.tsv",
            "output = [{ name = \"alerts\", target = \"x.tsv\", format = \"csv\", ",
        ),
        (
            "alerts=x.yaml",
            "output = [{ name = \"alerts\", target = \"x.yaml\", format = \"json\" }]",
        ),
    ] {
        let project = project("");
        let said = project.run(&["enrich", ".", "events.json", "--named-output", flag]);
        let said = said.ended(2);
        assert!(said.err.contains(expected), "{flag}: {}", said.err);
        assert!(!said.err.contains("--output-"), "{flag}: {}", said.err);
    }
    let project = project(
        "[[enrich.output]]\nname = 'alerts'\ntarget = 'x.csv'\noptions = { columns = 'id' }\n\
         [[enrich.output]]\nname = 'pager'\ntarget = 'pager.json'",
    );
    project.write(
        "events.json",
        "{\"id\":1,\"level\":\"error\",\"items\":{\"sku\":\"a\"}}\n",
    );
    let said = project.run(&["enrich", ".", "events.json"]).ended(0);
    let said = said.err_has(&["output `alerts`: no CSV column for `sku`"]);
    assert!(!said.err.contains("--output-option"), "{}", said.err);
}

/// Several rejects of an event are not as many events.
#[test]
fn rejected_elements_are_not_all_of_the_input() {
    let project = project("split = 'items'");
    let events =
        "{\"id\":1,\"level\":\"fatal\",\"items\":[1,2,3]}\n{\"id\":2,\"level\":\"info\"}\n";
    project.write("events.json", events);
    let said = project.run(&["enrich", ".", "events.json"]).ended(0);
    assert!(said.err.contains("rejects: 3"), "{}", said.err);
    assert!(!said.err.contains("all of the input"), "{}", said.err);
}

/// Metadata is not part of an event; a test compares it if it names it.
#[test]
fn tests_of_models_compare_metadata_that_they_name() {
    let project = project("");
    let input = r#"{"id":1,"level":"error","items":{"sku":"a"}}"#;
    let tests = |outputs: &[&str]| {
        let lines = outputs
            .iter()
            .map(|output| format!("{{\"input\":{input},\"output\":{output}}}\n"));
        project.write("models/route.test.jsonl", &lines.collect::<String>());
        project.run(&["test", "."])
    };
    let event = r#""id":1,"sku":"a","price":5"#;
    let said = tests(&[
        &format!("{{{event}}}"),
        &format!("{{{event},\"@meta/output\":\"alerts\"}}"),
    ]);
    said.ended(0).out_has(&["2 passed, 0 failed"]);
    let said = tests(&[&format!("{{{event},\"@meta/output\":\"pager\"}}")]);
    said.ended(1).out_has(&["+ \"@meta/output\": \"alerts\""]);
}
