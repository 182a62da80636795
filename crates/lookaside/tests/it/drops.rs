//! `drop when` in models, with the program itself.

use crate::program::Project;

const MODEL: &str = "name : web
rule : /json/*
---
drop when read(path) starts_with('/health') ;
drop when not read(sku) = chars(a) | chars(b) ;
price = select price from prices where sku = read(sku) ;
* = take() ;
";

const EVENTS: &str = r#"{"path":"/health","sku":"a"}
{"path":"/x","sku":"a"}
{"path":"/y","sku":"z"}
{"path":"/z","sku":"b"}
"#;

fn project() -> Project {
    Project::with(&[
        (
            "knowdb.toml",
            "version = 2\n[enrich]\nmodel = 'web'\nformat = 'json'\n\
             [[tables]]\nname = 'prices'\ncolumns = { by_header = ['sku', 'price'] }\n",
        ),
        ("prices/data.csv", "sku,price\na,5\nb,7\n"),
        ("models/web.oml", MODEL),
        ("events.json", EVENTS),
    ])
}

#[test]
fn dropped_events_are_counted_and_cost_no_lookups() {
    let project = project();
    let said = project.run(&["enrich", ".", "events.json"]).ended(0);
    assert_eq!(
        said.out,
        "{\"price\":5,\"path\":\"/x\",\"sku\":\"a\"}\n{\"price\":7,\"path\":\"/z\",\"sku\":\"b\"}\n"
    );
    said.err_has(&[
        "4 events in",
        "in 2 events, dropped 2 events",
        "2 lookups, 0 without a row",
    ]);
}

#[test]
fn a_test_of_a_model_expects_that_an_event_is_dropped() {
    let project = project();
    let tests = |lines: &str| {
        project.write("models/web.test.jsonl", lines);
        project.run(&["test", "."])
    };
    let said = tests(
        "{\"input\":{\"path\":\"/health\"},\"output\":null}\n\
         {\"input\":{\"sku\":\"a\"},\"output\":{\"price\":5,\"sku\":\"a\"}}\n",
    );
    said.ended(0).out_has(&["2 passed, 0 failed"]);
    let said = tests("{\"input\":{\"sku\":\"a\"},\"output\":null}\n");
    said.ended(1)
        .out_has(&["the model does not drop the event"]);
    let said = tests("{\"input\":{\"sku\":\"z\"},\"output\":{\"sku\":\"z\"}}\n");
    said.ended(1).out_has(&["the model drops the event"]);
}
