//! Outputs with conditions, with the program itself.

use crate::program::Project;

const EVENTS: &str = r#"{"id":1,"status":503}
{"id":2,"status":404}
{"id":3,"status":200}
{"id":4,"status":500,"req":{"path":"/quiet"}}
{"id":5,"status":404,"to":"audit"}
{"id":6}
{"id":7,"status":204,"to":"audit"}
{"id":8,"status":503,"to":""}
"#;

const MODEL: &str = "name : web
---
__hidden = digit(1) ;
@meta/output = read(to) | skip_empty ;
id = take(id) ;
* = take() ;
";

const OUTPUTS: &str = r#"
[[enrich.output]]
name = 'server'
target = 'server.json'
when = """read(status) in (digit(500), digit(599))
  and not read(req/path) = chars(/quiet)"""

[[enrich.output]]
name = 'client'
target = 'client.csv'
options = { columns = ['id', 'status'], extra = 'ignore' }
when = 'read(status) in (digit(400), digit(599))'

[[enrich.output]]
name = 'audit'
target = 'audit.json'
"#;

fn project(enrich: &str) -> Project {
    let config = format!(
        "version = 2\n[enrich]\nmodel = 'web'\nformat = 'json'\ninput = 'events.json'\n{enrich}"
    );
    Project::with(&[
        ("knowdb.toml", &config),
        ("models/web.oml", MODEL),
        ("events.json", EVENTS),
    ])
}

#[test]
fn the_first_condition_that_holds_selects_the_output() {
    let project = project(OUTPUTS);
    let said = project
        .run(&[
            "enrich", ".", "--output", "out.json", "--reject", "bad.json",
        ])
        .ended(0);
    // An ignored value is not set.
    assert_eq!(
        project.read("server.json"),
        "{\"id\":1,\"status\":503}\n{\"id\":8,\"status\":503,\"to\":\"\"}\n"
    );
    assert_eq!(project.read("client.csv"), "id,status\n2,404\n4,500\n");
    // What the model sets comes first.
    assert_eq!(
        project.read("audit.json"),
        "{\"id\":5,\"status\":404,\"to\":\"audit\"}\n{\"id\":7,\"status\":204,\"to\":\"audit\"}\n"
    );
    assert_eq!(project.read("out.json"), "");
    assert_eq!(
        project.read("bad.json"),
        "{\"id\":3,\"status\":200}\n{\"id\":6}\n"
    );
    said.err_has(&[
        "of these, 2 events to server",
        "of these, 2 events to client",
        "of these, 2 events to audit",
        "unmatched: 2 events that no output has a condition for, rejected",
        "rejects: 2",
        "events.json:3: no output has a condition that holds: {\"id\":3",
    ]);
    project.run(&["check", "."]).ended(0).out_has(&[
        "output server: read(status) in (digit(500), digit(599)) and not read(req/path) = chars(/quiet)\n\
         output client: read(status) in (digit(400), digit(599))\nunmatched events: reject\n",
    ]);
    let said = project.run(&["enrich", ".", "--strict"]).ended(1);
    said.err_has(&["no output has a condition that holds"]);
}

#[test]
fn unmatched_events_are_passed_or_written_to_an_output() {
    let rest = "{\"id\":3,\"status\":200}\n{\"id\":6}\n{\"id\":7,\"status\":204}\n";
    for (unmatched, out, audit, said) in [
        (
            "pass",
            rest,
            "",
            "unmatched: 3 events that no output has a condition for, passed",
        ),
        (
            "default",
            rest,
            "",
            "unmatched: 3 events that no output has a condition for, to default",
        ),
        (
            "audit",
            "",
            rest,
            "unmatched: 3 events that no output has a condition for, to audit",
        ),
        (
            "none",
            "",
            "",
            "unmatched: 3 events that no output has a condition for, to none",
        ),
    ] {
        let project = project(&format!("unmatched = '{unmatched}'\n{OUTPUTS}"));
        let events = EVENTS.replace(",\"to\":\"audit\"", "");
        project.write("events.json", &events);
        let run = project.run(&["enrich", "."]).ended(0);
        assert_eq!(
            (&*run.out, &*project.read("audit.json")),
            (out, audit),
            "{unmatched}"
        );
        run.err_has(&[said, "rejects: 0"]);
    }
}

/// A flag changes where the events go, not which ones.
#[test]
fn a_flag_keeps_the_condition_of_its_output() {
    let project = project(OUTPUTS);
    let arguments = ["--named-output", "server=-", "--output", "out.json"];
    let said = project
        .run(&[&["enrich", "."], &arguments[..]].concat())
        .ended(0);
    assert!(
        said.out.starts_with("{\"id\":1,\"status\":503}\n"),
        "{}",
        said.out
    );
    assert!(!project.file("server.json").exists());
}

/// A field of the input cannot choose an output, and an event without fields is not written.
#[test]
fn the_input_does_not_choose_and_nothing_is_not_written() {
    let with_routes = project(&format!("unmatched = 'pass'\n{OUTPUTS}"));
    with_routes.write("models/web.oml", "name : web\n---\n* = take() ;\n");
    with_routes.write(
        "events.json",
        "{\"@meta/output\":\"audit\",\"id\":1}\n{}\n{\"@meta/output\":\"audit\"}\n",
    );
    let said = with_routes.run(&["enrich", "."]).ended(0);
    assert_eq!(said.out, "{\"id\":1}\n");
    assert_eq!(with_routes.read("audit.json"), "");
    said.err_has(&["rejects: 2", "events.json:2: the result has no fields"]);
    // Without conditions, the model decides alone.
    let without = project("");
    without.write("events.json", "{}\n");
    assert_eq!(without.run(&["enrich", "."]).ended(0).out, "{}\n");
}

/// An event whose lookup is rejected is not unmatched as well.
#[test]
fn a_rejected_lookup_has_its_own_reason() {
    let project = project(&format!("on_lookup_failure = 'reject'\n{OUTPUTS}"));
    project.write(
        "models/web.oml",
        "name : web\n---\nid = read(id) ;\nx = select abs(read(big)) as x ;\n",
    );
    project.write(
        "events.json",
        "{\"id\":1,\"big\":-9223372036854775808}\n{\"id\":2,\"big\":1}\n",
    );
    let said = project.run(&["enrich", "."]).ended(0);
    let said = said.err_has(&[
        "unmatched: 1 event that no output has a condition for, rejected",
        "rejects: 2",
        "web.oml:4:1: ",
    ]);
    assert!(!said.err.contains("hint: all of the input"), "{}", said.err);
}

#[test]
fn mistakes_in_conditions_have_their_place() {
    let output = |name: &str, target: &str, when: &str| {
        format!("[[enrich.output]]\nname = '{name}'\ntarget = '{target}'\nwhen = {when}\n")
    };
    let twice = output("a", "x.json", "'read(s) in (digit(400), digit(599))'")
        + &output("b", "y.json", "'read(s) = digit(404) and read(t) gt(1)'");
    for (enrich, expected) in [
        (
            output("a", "kafka://u:secret@h/t", "'read(a) > digit(1)'"),
            &[
                "knowdb.toml:9:17",
                "expected a condition after the field, found `>`",
                "write `gt(499)`",
            ][..],
        ),
        (
            output("a", "x.json", "'''read(a) = digit(1)\n  or read(b)'''"),
            &["knowdb.toml:10:13", "expected a condition after the field"],
        ),
        // The text has another form in the file.
        (
            output("a", "x.json", r#""read(\u0061) == digit(1)""#),
            &["knowdb.toml:9:9", "values are compared with one `=`"],
        ),
        (
            "unmatched = 'audt'\n".to_owned() + &output("audit", "x.json", "'@a = digit(1)'"),
            &[
                "knowdb.toml:6: `unmatched` is \"audt\", which is not an output; did you mean \"audit\"?",
                "it is pass, reject, or one of audit, default, none",
            ],
        ),
        (
            "unmatched = 'pass'\n[[enrich.output]]\nname = 'audit'\ntarget = 'x.json'".to_owned(),
            &[
                "knowdb.toml:6: `unmatched` has no effect, because no output has `when`, and `rule_key` is not set",
            ],
        ),
        (
            twice,
            &[
                "knowdb.toml:13: the output `b` gets no events, because `a` before it gets all that its `when` selects",
            ],
        ),
    ] {
        let project = project(&enrich);
        for command in ["check", "enrich"] {
            let said = project.run(&[command, "."]).ended(1);
            for expected in expected {
                assert!(
                    said.err.contains(expected),
                    "{command} {enrich}: {}",
                    said.err
                );
            }
            assert!(!said.err.contains("secret"), "{}", said.err);
        }
    }
}

#[test]
fn tests_of_models_expect_outputs() {
    let project = project(OUTPUTS);
    let tests = |lines: &[(&str, &str)]| {
        let lines = lines
            .iter()
            .map(|(event, to)| format!("{{\"input\":{event},\"output\":{event},\"to\":{to}}}\n"));
        project.write("models/web.test.jsonl", &lines.collect::<String>());
        project.run(&["test", "."])
    };
    let said = tests(&[
        (r#"{"id":1,"status":503}"#, r#""server""#),
        (r#"{"id":1,"status":404}"#, r#"["client"]"#),
        (r#"{"id":1}"#, r#""reject""#),
        (r#"{"id":1,"to":"audit"}"#, r#""audit""#),
        (
            r#"{"id":1,"to":["audit","server"]}"#,
            r#"["server","audit"]"#,
        ),
        (r#"{"id":1,"to":"none"}"#, r#""none""#),
        (r#"{"id":1,"status":503,"to":["none"]}"#, r#""none""#),
        (r#"{"id":1,"to":"default"}"#, r#""default""#),
    ]);
    said.ended(0).out_has(&["8 passed, 0 failed"]);
    let said = tests(&[(r#"{"id":1,"status":404}"#, r#"["server","default"]"#)]);
    said.ended(1)
        .out_has(&["  - written to default, server\n  + written to client\n"]);
}
