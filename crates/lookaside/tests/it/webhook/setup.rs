//! How the source is named, checked and listed.

use std::fs::File;
use std::net::TcpListener;

use lookaside_testing::wait_until;

use super::{Run, make_pipe, project};
use crate::program::run;
use crate::serve::client::Client;

#[test]
fn mistakes_in_the_url_are_named_before_tables_are_loaded() {
    let project = project("");
    project.write(
        "knowdb.toml",
        "version = 2\n[[tables]]\nname = 't'\ncolumns = { by_header = ['a'] }\n",
    );
    for (input, expected) in [
        ("https://127.0.0.1:1/e?token=hidden", "a proxy in front"),
        ("HTTPS://127.0.0.1:1/e?token=hidden", "a proxy in front"),
        ("http://u:hidden@127.0.0.1:1/e", "the option `token`"),
        ("http://127.0.0.1/e?token=hidden", "a port to listen on"),
        ("http://127.0.0.1:1/e?tokn=hidden", "did you mean `token`?"),
        (
            "http://127.0.0.1:1/e?body_max=1k",
            "`1k` is not a number of bytes",
        ),
        ("http://127.0.0.1:1/e?framing=all", "one of: lines, message"),
        (
            "http://127.0.0.1:1/e?token=hidden&token=hidden2",
            "the option `token` is given twice",
        ),
        (
            "http://127.0.0.1:1/e?headers=",
            "`` is not the name of a header",
        ),
    ] {
        let said = project.run(&["enrich", "--input", input]).ended(2);
        let err = said.err.replace("\n  ", " ");
        assert!(err.contains(expected), "{input}: {err}");
        assert!(!err.contains("hidden"), "{err}");
    }
    for arguments in [
        [
            "enrich",
            "--follow",
            "--input",
            "http://127.0.0.1:0/?token=hidden",
        ],
        [
            "enrich",
            ".",
            "http://127.0.0.1:0/?token=hidden",
            "other.json",
        ],
    ] {
        let said = project.run(&arguments).ended(2);
        assert!(!said.err.contains("hidden"), "{}", said.err);
        assert!(!said.err.contains("topic"), "{}", said.err);
    }
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let project = project("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let input = format!("http://{address}/events?token=hidden");
    for input in [
        &*input,
        "http://192.0.2.1:80/events",
        "http://nowhere.invalid:80/",
    ] {
        let flags = ["-o", "out.json", "--reject", "bad.json"];
        let said = project.run(&[&["enrich", "--input", input][..], &flags].concat());
        let said = said.ended(1).err_has(&["curl -sS URL |"]);
        // Nothing is left of a run that has not begun.
        for name in ["out.json", "bad.json"] {
            assert!(!project.file(name).exists(), "{name}");
        }
        assert!(!said.err.contains("hidden"), "{}", said.err);
    }
    let name = format!("http://{address}/events");
    let config = format!("version = 2\n[enrich]\nmodel = 'copy'\ninput = '{input}'\n");
    project.write("knowdb.toml", &config);
    let said = project.run(&["check", "."]).ended(1);
    let said = said.err_has(&[&name, "cannot listen", "knowdb.toml:4"]);
    assert!(!said.err.contains("hidden"), "{}", said.err);
    drop(taken);
    let said = project.run(&["check", "."]).ended(0);
    let expected = format!("input: {name}: the address can be bound");
    assert!(!said.out_has(&[&expected]).out.contains("hidden"));
}

#[test]
fn the_source_is_listed_and_its_path_chooses_the_model() {
    run(["sources"])
        .ended(0)
        .out_has(&["http://0.0.0.0:8080/events\n", "HTTP requests (POST)"]);
    run(["help", "sources"])
        .ended(0)
        .out_has(&["http://0.0.0.0:8080/events\n"]);
    let project = project("");
    project.write(
        "knowdb.toml",
        "version = 2\n[enrich]\ninput = 'http://127.0.0.1:0/events'\n",
    );
    project.write(
        "models/copy.oml",
        "name : copy\nrule : /json/events\n---\n* = take() ;\n",
    );
    project
        .run(&["check", "."])
        .ended(0)
        .out_has(&["copy.oml runs for /json/events"]);
}

#[test]
fn a_process_is_ready_when_it_listens() {
    let project = project("");
    // Opening a pipe waits for its reader, and the output is opened before the input.
    let path = make_pipe(&project);
    let flags = ["--metrics", "0", "--output", path.to_str().unwrap()];
    let run = Run::start(&project, "", &flags);
    let metrics = run.address_of("serves metrics");
    let ready = || Client::tcp(&metrics).get("/readyz");
    assert!(ready().is(503).text().contains("being opened"));
    let _reader = File::open(&path).unwrap();
    let address = run.address();
    wait_until("it is ready", || ready().status == 200);
    Client::tcp(&address).post("/events", "{}").is(200);
    // A request is answered before its batch is counted.
    wait_until("it is counted", || {
        let text = Client::tcp(&metrics).get("/metrics").is(200).body;
        let text = String::from_utf8(text).unwrap();
        text.contains("lookaside_events_in_total 1\n")
    });
}
