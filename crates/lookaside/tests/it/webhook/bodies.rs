//! What the events of a body are, and their metadata.

use super::{JSON, NDJSON, Run, chunked, gzip, numbers, project};
use crate::program::Project;

#[test]
fn bodies_are_lines_arrays_and_documents() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut client = run.client();
    let packed = gzip(b"{\"n\":20}\n{\"n\":21}\n");
    let coding = ("Content-Encoding", "gzip");
    for (headers, body, count) in [
        (
            &[NDJSON][..],
            &b"{\"n\":0}\n\n{\"n\":1}\r\n{\"n\":2}"[..],
            3,
        ),
        (&[], b"{\"n\":3}\n", 1),
        (
            &[("Content-Type", "text/plain")],
            b" \n [{\"n\":4}, {\"n\":5}\n]",
            2,
        ),
        (&[NDJSON], b"[{\"n\":6}]", 1),
        (&[JSON], b"[{\"n\":7,\"a\":[1,{\"b\":\"]\"}]},{\"n\":8}]", 2),
        (&[JSON], b"\n{\n  \"n\": 9\n}\n", 1),
        (
            &[(
                "Content-Type",
                "application/cloudevents+json; charset=utf-8",
            )],
            b"{\n\"n\":10}",
            1,
        ),
        (&[JSON], b"", 0),
        (&[NDJSON], b"", 0),
        (&[], b" \r\n", 0),
        (&[JSON], b"[]", 0),
        (&[NDJSON, coding], &packed, 2),
        (&[coding], b"", 0),
    ] {
        let answer = client.ask("POST", "/events?source=test", headers, body);
        let expected = format!("{{\"events\":{count}}}\n");
        assert_eq!(answer.is(200).text(), expected, "{}", body.escape_ascii());
    }
    let body = b"{\"n\":30}\n{\"n\":31}\n";
    for (head, body) in [
        ("", body.to_vec()),
        ("Content-Encoding: gzip\r\n", gzip(body)),
    ] {
        client.split().1.raw(&chunked(head, &body));
        assert_eq!(client.receive("POST").is(200).text(), "{\"events\":2}\n");
    }
    let expected: Vec<_> = (0..11).chain([20, 21, 30, 31, 30, 31]).collect();
    // Whatever is answered is written.
    assert_eq!(numbers(&project.read("out.json")), expected);
    let log = run.terminate();
    assert!(log.contains("17 events"), "{log}");
}

#[test]
fn what_is_not_an_event_becomes_a_reject_and_is_answered() {
    let project = project("");
    let run = Run::start(
        &project,
        "",
        &["--output", "out.json", "--reject", "rejects.txt"],
    );
    let mut client = run.client();
    let answer = client.ask(
        "POST",
        "/events",
        &[NDJSON],
        b"{\"n\":1}\nno json\n{\"n\":2}\n",
    );
    assert_eq!(answer.is(200).text(), "{\"events\":3}\n");
    let answer = client.ask("POST", "/events", &[JSON], b"[7,{\"n\":3}]");
    assert_eq!(answer.is(200).text(), "{\"events\":2}\n");
    assert_eq!(numbers(&project.read("out.json")), [1, 2, 3]);
    assert_eq!(project.read("rejects.txt"), "no json\n7\n");
    let log = run.terminate();
    assert!(log.contains("/events[0]"), "{log}");
}

/// As at the beginning of a file.
#[test]
fn a_byte_order_mark_before_the_events_is_skipped() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut client = run.client();
    for (header, body, count) in [
        (NDJSON, "\u{feff}{\"n\":1}\n{\"n\":2}\n", 2),
        (JSON, "\u{feff}[{\"n\":3},{\"n\":4}]", 2),
        (JSON, "\u{feff}{\"n\":5}", 1),
    ] {
        let answer = client.ask("POST", "/events", &[header], body.as_bytes());
        let expected = format!("{{\"events\":{count}}}\n");
        assert_eq!(answer.is(200).text(), expected);
    }
    assert_eq!(numbers(&project.read("out.json")), [1, 2, 3, 4, 5]);
}

#[test]
fn other_formats_have_lines_or_one_event() {
    let project = project("");
    let body = b"[a=1\n\nb=2\n";
    for (options, expected) in [
        ("", "{\"raw\":\"[a=1\"}\n{\"raw\":\"b=2\"}\n"),
        ("framing=lines", "{\"raw\":\"[a=1\"}\n{\"raw\":\"b=2\"}\n"),
        ("framing=message", "{\"raw\":\"[a=1\\n\\nb=2\"}\n"),
    ] {
        let flags = ["--format", "raw", "--output", "out.json"];
        let run = Run::start(&project, options, &flags);
        let answer = run.client().ask("POST", "/events", &[JSON], body).is(200);
        let count = expected.lines().count();
        assert_eq!(answer.text(), format!("{{\"events\":{count}}}\n"));
        assert_eq!(project.read("out.json"), expected, "{options}");
        run.terminate();
        std::fs::remove_file(project.file("out.json")).unwrap();
    }
}

#[test]
fn models_read_the_metadata_of_requests() {
    let project = Project::with(&[
        ("knowdb.toml", "version = 2\n[enrich]\nmodel = 'm'\n"),
        (
            "models/m.oml",
            "name : m\n---\nn = read(n) ; topic = @meta/topic ; key = @meta/key ;\n\
             time = @meta/timestamp ; tenant = @meta/headers/x-tenant ;\n\
             agent = @meta/headers/user-agent ; other = @meta/headers/x-other ;\n\
             at = @meta/offset ;\n",
        ),
    ]);
    let options = "headers=X-Tenant,user-agent&key_header=X-Key";
    let run = Run::start(&project, options, &["--output", "out.json"]);
    let headers = [
        NDJSON,
        ("x-tenant", "shop"),
        ("X-Tenant", "second"),
        ("X-KEY", "k 1"),
        ("X-Other", "not listed"),
    ];
    let mut client = run.client();
    let body = b"{\"n\":1}\n{\"n\":2}\n";
    client.ask("POST", "/%65vents", &headers, body).is(200);
    client.ask("POST", "/events", &[], b"{\"n\":3}").is(200);
    let text = project.read("out.json");
    let events: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (event, (n, at, key, tenant)) in events.iter().zip([
        (1, 0, Some("k 1"), Some("shop")),
        (2, 1, Some("k 1"), Some("shop")),
        (3, 0, None, None),
    ]) {
        assert_eq!(event["n"], n);
        assert_eq!(event["at"], at);
        assert_eq!(event["topic"], "/events");
        assert_eq!(event.get("key").and_then(|it| it.as_str()), key, "{text}");
        assert_eq!(event.get("tenant").and_then(|it| it.as_str()), tenant);
        assert_eq!(event.get("agent"), None);
        assert_eq!(event.get("other"), None);
        let time = event["time"].as_str().unwrap();
        assert!(time.starts_with("20"), "{time}");
    }
    assert_eq!(events.len(), 3);
}
