//! The types of fields: `[enrich.types]` and `--type`.

use crate::program::{Project, run_with_input};

/// A project of CSV events with these types, whose model uses them.
fn project(types: &str) -> Project {
    let config = format!(
        "version = 2\n[enrich]\ninput = 'events.csv'\nformat = 'csv'\ntimezone = 'Asia/Tokyo'\n\
         [enrich.types]\n{types}"
    );
    Project::with(&[
        ("knowdb.toml", &config),
        (
            "models/e.oml",
            "name : e\nrule : /*\n---\nepoch = read(ts) | Time::to_ts ;\n\
             sum = calc(@bytes + 1) ;\nwhere = read(ip) | intranet_ip ;\n* = take() ;\n",
        ),
        (
            "events.csv",
            "ts,ip,bytes\n01/Jan/2026:08:00:00,10.0.0.1,5\n01/Jan/2026:08:00:00,10.0.0.1,x\n\
             ,10.0.0.1,\n",
        ),
    ])
}

const TYPES: &str = "ts = { type = 'time', format = '%d/%b/%Y:%H:%M:%S' }\nip = 'ip'\n\
                     bytes = 'digit'\n";

#[test]
fn fields_have_their_types_in_models() {
    let project = project(TYPES);
    let said = project
        .run(&["enrich", ".", "--reject", "bad.csv"])
        .ended(0);
    assert_eq!(
        said.out,
        "{\"epoch\":1767222000,\"sum\":6,\"where\":\"LAN\",\"ts\":\"2026-01-01 08:00:00\",\
         \"ip\":\"10.0.0.1\",\"bytes\":5}\n{\"where\":\"LAN\",\"ip\":\"10.0.0.1\"}\n"
    );
    said.err_has(&[
        "rejects: 1",
        "field `bytes` is not an integer of 64 bits: `x`",
    ]);
    assert_eq!(project.read("bad.csv"), "01/Jan/2026:08:00:00,10.0.0.1,x\n");
    project.run(&["enrich", ".", "--strict"]).ended(1);
    project.run(&["check", "."]).ended(0);
}

#[test]
fn a_flag_replaces_the_type_of_its_field() {
    let project = project("bytes = 'ip'\nts = { type = 'chars', required = true }\n");
    let path = project.path().to_str().unwrap();
    let line = "ts,bytes\n1767225600,5\n";
    let arguments = ["enrich", path, "-", "-q", "--rule", "/csv/x"];
    let flags = ["--type", "bytes=digit", "--type", "ts=time"];
    let said = run_with_input([&arguments[..], &flags].concat(), line).ended(0);
    assert_eq!(
        said.out,
        "{\"epoch\":1767225600,\"sum\":6,\"ts\":\"2026-01-01 09:00:00\",\"bytes\":5}\n"
    );
    let said = run_with_input(arguments, "ts,bytes\n,\n").ended(0);
    assert_eq!(said.out, "");
    let unknown = ["--type", "bytes=digits"];
    run_with_input([&arguments[..], &unknown].concat(), line)
        .ended(2)
        .err_has(&["write FIELD=TYPE with one of chars, digit, float, bool, ip, time"]);
}

#[test]
fn tests_of_models_see_typed_fields() {
    let project = project(TYPES);
    let output = "{\"epoch\":1767222000,\"sum\":6,\"ts\":\"2026-01-01 08:00:00\",\"bytes\":5}";
    let tests = format!(
        "{{\"input\":{{\"ts\":\"01/Jan/2026:08:00:00\",\"bytes\":\"5\"}},\"output\":{output}}}\n\
         {{\"input\":\"ts,bytes\\n01/Jan/2026:08:00:00,5\",\"output\":{output}}}\n\
         {{\"input\":{{\"bytes\":\"x\"}},\"output\":{{}}}}\n"
    );
    project.write("models/e.test.jsonl", &tests);
    project.run(&["test", "."]).ended(1).out_has(&[
        "the input cannot be parsed: field `bytes` is not an integer of 64 bits: `x`",
        "2 passed, 1 failed",
    ]);
}

#[test]
fn mistakes_in_types_are_found_by_check() {
    for (types, expected) in [
        (
            "ts = 'tme'\n",
            "./knowdb.toml:7: unknown type tme; did you mean \"time\"?",
        ),
        (
            "ts = { type = 'time', format = '%Q' }\n",
            "./knowdb.toml:7: enrich.types.ts.format is \"%Q\", which is not a format of times",
        ),
    ] {
        let project = project(types);
        project.run(&["check", "."]).ended(1).err_has(&[expected]);
        project.run(&["enrich", "."]).ended(1).err_has(&[expected]);
    }
}
