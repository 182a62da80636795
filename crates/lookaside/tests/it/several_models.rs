//! Several models in one run, with the program itself.

use std::fmt::Write as _;

use crate::program::Project;

const WEB: &str = "name : web
rule : /nginx/* /apache/*
---
drop when read(path) starts_with('/health') ;
owner = select owner from hosts where host = read(host) ;
path = take(path) ;
";

const FIREWALL: &str = "name : fw
rule : /fw/*
---
action = take(action) ;
* = take() ;
";

const EVENTS: &str = r#"{"wp_event":"/nginx/a","host":"h1","path":"/x"}
{"wp_event":"/fw/1","action":"deny"}
{"wp_event":"/nginx/b","host":"h2","path":"/healthz"}
{"wp_event":"/other","n":1}
{"wp_event":"/apache/c","host":"h9","path":"/y"}
{"n":2}
{"wp_event":"/fw/2","action":"allow"}
"#;

fn project(enrich: &str) -> Project {
    let config = format!(
        "version = 2\n[enrich]\nformat = 'json'\ninput = 'events.json'\n{enrich}\n\
         [[tables]]\nname = 'hosts'\ncolumns = {{ by_header = ['host', 'owner'] }}\n"
    );
    Project::with(&[
        ("knowdb.toml", &config),
        ("hosts/data.csv", "host,owner\nh1,ann\nh2,bob\n"),
        ("models/web.oml", WEB),
        ("models/fw.oml", FIREWALL),
        ("models/no_rule.oml", "name : no_rule\n---\n* = take() ;\n"),
        (
            "models/off.oml",
            "name : off\nenable : false\nrule : /*\n---\n* = take() ;\n",
        ),
        ("events.json", EVENTS),
    ])
}

const TRANSFORMED: [&str; 4] = [
    "{\"owner\":\"ann\",\"path\":\"/x\"}\n",
    "{\"action\":\"deny\",\"wp_event\":\"/fw/1\"}\n",
    "{\"path\":\"/y\"}\n",
    "{\"action\":\"allow\",\"wp_event\":\"/fw/2\"}\n",
];

#[test]
fn the_rule_key_of_each_event_selects_its_model() {
    let project = project("rule_key = 'wp_event'");
    let said = project
        .run(&["enrich", ".", "--reject", "bad.json"])
        .ended(0);
    assert_eq!(said.out, TRANSFORMED.concat());
    assert_eq!(
        project.read("bad.json"),
        "{\"wp_event\":\"/other\",\"n\":1}\n{\"n\":2}\n"
    );
    said.err_has(&[
        "7 events in",
        "2 models",
        "dropped 1 event",
        "model fw: 2 events\n",
        "model web: 3 events, dropped 1\n",
        "unmatched: 2 events that no model has a rule for, rejected",
        "2 lookups, 1 without a row",
        "events.json:4: no model has a rule for `/other`, the `wp_event` of the event",
        "events.json:6: the event has no field `wp_event`, which selects its model",
    ]);
    let said = project.run(&["check", "."]).ended(0);
    said.out_has(&["models: wp_event of each event selects one of fw, web"]);
    // A flag selects one model for all.
    let said = project.run(&["enrich", ".", "--model", "no_rule"]).ended(0);
    assert_eq!(said.out, EVENTS);
}

#[test]
fn events_without_a_model_pass_unchanged_or_go_to_an_output() {
    let other = ["{\"wp_event\":\"/other\",\"n\":1}\n", "{\"n\":2}\n"];
    let [first, second, third, fourth] = TRANSFORMED;
    let all = [first, second, other[0], third, other[1], fourth].concat();
    let rest = other.concat();
    let audit = "[[enrich.output]]\nname = 'audit'\ntarget = 'audit.json'";
    for (unmatched, out, audited) in [
        ("pass", all.as_str(), ""),
        ("default", &all, ""),
        ("audit", &TRANSFORMED.concat(), &rest),
        ("none", &TRANSFORMED.concat(), ""),
    ] {
        let project = project(&format!(
            "rule_key = 'wp_event'\nunmatched = '{unmatched}'\n{audit}"
        ));
        let said = project.run(&["enrich", "."]).ended(0);
        assert_eq!(
            (&*said.out, &*project.read("audit.json")),
            (out, audited),
            "{unmatched}"
        );
        said.err_has(&["unmatched: 2 events that no model has a rule for"]);
    }
}

/// Events that pass are assigned by conditions as others are.
#[test]
fn conditions_apply_to_the_results_of_all_models() {
    let project = project(
        "rule_key = 'wp_event'\nunmatched = 'pass'\n\
         [[enrich.output]]\nname = 'some'\ntarget = 'some.json'\n\
         when = 'read(n) = digit(1) or read(action) = chars(deny)'",
    );
    let said = project.run(&["enrich", "."]).ended(0);
    assert_eq!(
        project.read("some.json"),
        "{\"action\":\"deny\",\"wp_event\":\"/fw/1\"}\n{\"wp_event\":\"/other\",\"n\":1}\n"
    );
    said.err_has(&[
        "unmatched: 2 events that no model has a rule for, passed",
        "unmatched: 4 events that no output has a condition for, passed",
    ]);
}

/// `{}` is not written, and an event cannot set metadata.
#[test]
fn events_without_fields_are_rejected() {
    let project = project("rule_key = 'wp_event'\nunmatched = 'pass'");
    project.write(
        "events.json",
        "{}\n{\"wp_event\":\"/nginx/a\"}\n{\"@meta/key\":\"k\",\"n\":1}\n{\"wp_event\":\"/fw/1\",\"@meta/key\":\"k\"}\n",
    );
    // One model of the run mentions metadata.
    project.write(
        "models/web.oml",
        &WEB.replace("owner =", "@meta/key = read(host) ;\nowner ="),
    );
    let said = project.run(&["enrich", "."]).ended(0);
    assert_eq!(said.out, "{\"n\":1}\n{\"wp_event\":\"/fw/1\"}\n");
    said.err_has(&["rejects: 2", "events.json:1: the result has no fields"]);
}

#[test]
fn models_are_tried_in_the_order_of_the_list() {
    let project = project("rule_key = 'meta/kind'\nmodel = ['web', 'all']");
    project.write(
        "models/all.oml",
        "name : all\nrule : *\n---\nall = read(meta) ;\n",
    );
    project.write(
        "events.json",
        "{\"meta\":{\"kind\":\"/fw/1\"}}\n{\"meta\":{\"kind\":\"/nginx/1\"},\"path\":\"/\"}\n\
         {\"meta\":{\"kind\":7},\"meta/kind\":null}\n{\"meta/kind\":\"/nginx/2\",\"path\":\"/2\"}\n",
    );
    let said = project.run(&["enrich", ".", "--workers", "1"]).ended(0);
    assert_eq!(
        said.out,
        "{\"all\":{\"kind\":\"/fw/1\"}}\n{\"path\":\"/\"}\n{\"path\":\"/2\"}\n"
    );
    said.err_has(&["model web: 2 events", "model all: 1 event\n"]);
    let said = project.run(&["enrich", ".", "--rule-key", "path"]).ended(0);
    // The second event has none of the fields of the model.
    assert_eq!(said.out, "{\"all\":{\"kind\":\"/nginx/1\"}}\n");
    said.err_has(&["rejects: 3", "events.json:4: the result has no fields"]);
}

/// The order of the input, compared with a plain model, for events that random models and drops
/// select.
#[test]
fn the_order_of_the_input_is_kept() {
    let seed = match std::env::var("LOOKASIDE_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => u64::from(std::process::id()) << 20 | 12_345,
    };
    let mut state = seed | 1;
    let mut below = |count: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % count
    };
    let project = project("rule_key = 'k'\nunmatched = 'pass'\nsplit = 'parts'");
    for (name, limit) in [("a", 3), ("b", 7), ("c", -1)] {
        let model = format!(
            "name : {name}\nrule : /{name}/*\n---\ndrop when read(parts) lt({limit}) ;\n\
             by = chars({name}) ; n = read(n) ; part = read(parts) ;\n"
        );
        project.write(&format!("models/{name}.oml"), &model);
    }
    let (mut events, mut expected) = (String::new(), String::new());
    for n in 0..20_000 {
        let kind = ["a", "b", "c", "none"][below(4) as usize];
        // More keys than are remembered.
        let key = format!("/{kind}/{}", below(3000));
        let parts: Vec<u64> = (0..1 + below(3)).map(|_| below(10)).collect();
        writeln!(events, "{{\"k\":\"{key}\",\"n\":{n},\"parts\":{parts:?}}}").unwrap();
        for part in parts {
            match kind {
                "a" if part < 3 => {}
                "b" if part < 7 => {}
                "none" => {
                    writeln!(expected, "{{\"k\":\"{key}\",\"n\":{n},\"parts\":{part}}}").unwrap();
                }
                kind => {
                    writeln!(expected, "{{\"by\":\"{kind}\",\"n\":{n},\"part\":{part}}}").unwrap();
                }
            }
        }
    }
    project.write("events.json", &events);
    let said = project.run(&["enrich", ".", "--workers", "3"]);
    assert_eq!(said.code, 0, "LOOKASIDE_SEED={seed}: {}", said.err);
    let first_difference = said.out.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert_eq!(first_difference, None, "LOOKASIDE_SEED={seed}");
    assert_eq!(said.out.len(), expected.len(), "LOOKASIDE_SEED={seed}");
}

#[test]
fn mistakes_name_the_model() {
    for (enrich, expected) in [
        (
            "model = ['web', 'fw']",
            "knowdb.toml:5: enrich.model names several models, and `rule_key` is not set",
        ),
        (
            "rule_key = 'a'\nmodel = ['web', 'fww']",
            "there is no model fww; did you mean \"fw\"?",
        ),
        (
            "rule_key = 'a'\nmodel = ['web', 'no_rule']",
            "the model no_rule has no rule, so no event selects it",
        ),
        ("rule_key = 'a'\nmodel = 'off'", "the model off is disabled"),
        (
            "rule_key = 'a'\nmodel = ['web', 'sub']",
            "no event selects the model sub: the models before it have rules for all of its keys",
        ),
        (
            "rule_key = 'a'\nmodel = ['web', 'web']",
            "no event selects the model web",
        ),
        (
            "rule_key = 'a'\nunmatched = 'defautl'",
            "knowdb.toml:6: `unmatched` is \"defautl\", which is not an output; did you mean \"default\"?",
        ),
    ] {
        let project = project(enrich);
        project.write(
            "models/sub.oml",
            "name : sub\nrule : /nginx/a* /apache/*\n---\n* = take() ;\n",
        );
        for command in ["check", "enrich"] {
            let said = project.run(&[command, "."]).ended(1);
            assert!(
                said.err.contains(expected),
                "{command} {enrich}: {}",
                said.err
            );
        }
    }
}
