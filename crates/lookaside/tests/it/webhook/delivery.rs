//! Requests are answered when their events are delivered.

use std::net::{Shutdown, TcpStream};

use lookaside_testing::wait_until;

use super::{NDJSON, Pipe, Run, lines, numbers, project};
use crate::program::Project;

/// As many events as a pipe and the buffers of a run cannot hold.
const COUNT: usize = 300;

/// The size of each.
const SIZE: usize = 1000;

#[test]
fn events_that_are_not_delivered_in_time_are_not_answered_as_delivered() {
    let project = project("");
    let pipe = Pipe::new(&project);
    let run = Run::start(&project, "timeout_ms=50", &["--output", pipe.path()]);
    let body = lines(0, COUNT, SIZE);
    let mut client = run.client();
    let answer = client.ask("POST", "/events", &[NDJSON], body.as_bytes());
    let answer = answer.is(503);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("may still be delivered"), "{detail}");
    assert!(detail.contains("50 ms"), "{detail}");
    assert!(answer.header("Retry-After").is_some());
    // They are, and the connection goes on.
    let found = pipe.read(COUNT + 1);
    wait_until("the pipe has room again", || {
        client.ask("POST", "/events", &[], b"{\"n\":300}").status == 200
    });
    let found = found.join().unwrap().join("\n");
    assert_eq!(numbers(&found), (0..=COUNT).collect::<Vec<_>>());
}

#[test]
fn the_events_of_a_client_that_disconnects_are_delivered() {
    let project = project("");
    let pipe = Pipe::new(&project);
    let run = Run::start(&project, "", &["--output", pipe.path()]);
    let address = run.address();
    let body = lines(0, COUNT, SIZE);
    for _ in 0..2 {
        let mut client = run.client();
        client.send("POST", "/events", &[NDJSON], body.as_bytes());
        // The request is answered by nothing, as the pipe is full.
        drop(client);
    }
    // A client that sends a part of its body and disconnects has sent nothing.
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = "POST /events HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{\"n\":9999}\n";
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stream, &mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 400"), "{rest}");
    let found = pipe.read(2 * COUNT).join().unwrap().join("\n");
    let once: Vec<_> = (0..COUNT).collect();
    assert_eq!(numbers(&found), [once.clone(), once].concat());
    run.terminate();
}

#[test]
fn requests_of_a_connection_are_answered_in_their_order() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut client = run.client();
    for n in 0..40 {
        let body = format!("{{\"n\":{n}}}\n").repeat(n);
        client.send("POST", "/events", &[NDJSON], body.as_bytes());
    }
    for n in 0..40 {
        let answer = client.receive("POST").is(200);
        assert_eq!(answer.text(), format!("{{\"events\":{n}}}\n"));
    }
    let expected: Vec<_> = (0..40).flat_map(|n| vec![n; n]).collect();
    assert_eq!(numbers(&project.read("out.json")), expected);
}

#[cfg(feature = "http")]
#[test]
fn the_sink_of_another_run_is_answered_and_waits_at_the_limit() {
    let project = project("");
    let pipe = Pipe::new(&project);
    // A batch of the sender is a fifth of a body at most.
    let options = "body_max=50000&buffer_max=60000&timeout_ms=600000&token=hidden";
    let run = Run::start(&project, options, &["--output", pipe.path()]);
    let expected: Vec<_> = (0..2 * COUNT).collect();
    project.write("in.json", &lines(0, expected.len(), SIZE - 1));
    let output = format!(
        "http://{}/events?batch_bytes=10000&header.Authorization=Bearer%20hidden",
        run.address()
    );
    let found = pipe.read(expected.len());
    let arguments = [
        "enrich", ".", "in.json", "--format", "json", "--output", &output,
    ];
    project.run(&arguments).ended(0);
    assert_eq!(numbers(&found.join().unwrap().join("\n")), expected);
}

#[test]
fn a_limit_of_the_run_answers_only_what_is_delivered() {
    let project = project("");
    let flags = ["--output", "out.json", "--limit", "5"];
    let run = Run::start(&project, "", &flags);
    let mut client = run.client();
    let body = lines(0, 3, 50);
    client
        .ask("POST", "/events", &[NDJSON], body.as_bytes())
        .is(200);
    let body = lines(3, 3, 50);
    let answer = client.ask("POST", "/events", &[NDJSON], body.as_bytes());
    assert!(answer.is(503).text().contains("the run ended before"));
    let (code, log) = run.ended();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(numbers(&project.read("out.json")), [0, 1, 2, 3, 4]);
}

/// A header selects the model, and a request is answered whatever becomes of its events.
#[test]
fn events_that_are_dropped_or_rejected_are_answered() {
    let config = "version = 2\n[enrich]\nrule_key = '@meta/headers/x-kind'\n";
    let project = Project::with(&[
        ("knowdb.toml", config),
        (
            "models/web.oml",
            "name : web\nrule : web\n---\ndrop when read(n) = digit(0) ;\nweb = read(n) ;\n",
        ),
        (
            "models/fw.oml",
            "name : fw\nrule : fw\n---\nfw = read(n) ;\n* = take() ;\n",
        ),
    ]);
    let run = Run::start(
        &project,
        "headers=X-Kind",
        &["--output", "out.json", "--reject", "bad.json"],
    );
    let mut client = run.client();
    for (kind, events) in [
        ("web", "{\"n\":0}\n"),
        ("web", "{\"n\":0}\n{\"n\":1}\n"),
        ("other", "{\"n\":2}\n"),
        ("fw", "{\"n\":3}\n"),
    ] {
        let headers = [NDJSON, ("X-Kind", kind)];
        client
            .ask("POST", "/events", &headers, events.as_bytes())
            .is(200);
    }
    assert_eq!(
        project.read("out.json"),
        "{\"web\":1}\n{\"fw\":3,\"n\":3}\n"
    );
    assert_eq!(project.read("bad.json"), "{\"n\":2}\n");
}
