//! Requests that are refused.

use super::{JSON, NDJSON, Run, chunked, gzip, project};

/// The parts of a problem that clients rely on.
#[track_caller]
fn assert_problem(answer: &crate::serve::client::Answer, status: u16, detail: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(
        answer.header("Content-Type"),
        Some("application/problem+json")
    );
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    assert_eq!(problem["type"], "about:blank");
    let found = problem["detail"].as_str().unwrap_or_default();
    assert!(found.contains(detail), "{problem}");
}

#[test]
fn paths_and_methods_are_exact() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut client = run.client();
    for path in [
        "/",
        "/event",
        "/events/",
        "/Events",
        "/v1/events",
        "//events",
    ] {
        let answer = client.ask("POST", path, &[NDJSON], b"{}\n");
        assert_problem(&answer, 404, "sent to /events");
    }
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = client.ask(method, "/events", &[], b"");
        assert_problem(&answer, 405, "by POST");
        assert_eq!(answer.header("Allow"), Some("POST"));
    }
    client.ask("POST", "/events", &[], b"{}").is(200);
    assert_eq!(project.read("out.json"), "{}\n");
}

#[test]
fn a_token_is_needed_and_not_shown() {
    let project = project("");
    let options = "token=hidden%20word&headers=x-a";
    let run = Run::start(&project, options, &["--output", "out.json"]);
    let mut client = run.client();
    let wrong = [
        None,
        Some("Bearer hidden"),
        Some("Bearer hidden word2"),
        Some("Basic hidden word"),
        Some("hidden word"),
        Some("Bearer "),
    ];
    for value in wrong {
        let value = value.map(|value| ("Authorization", value));
        let answer = client.ask("POST", "/events", value.as_slice(), b"{}");
        assert_problem(&answer, 401, "Authorization: Bearer");
        assert_eq!(answer.header("WWW-Authenticate"), Some("Bearer"));
        assert!(!answer.text().contains("hidden"));
    }
    // As keys of `lookaside serve`, which another header can have.
    let other = ("X-API-Key", "hidden word");
    assert_eq!(client.ask("POST", "/events", &[other], b"{}").status, 401);
    let right = ("Authorization", "bearer hidden word");
    client
        .ask("POST", "/events", &[right], b"{\"n\":1}")
        .is(200);
    assert_eq!(project.read("out.json"), "{\"n\":1}\n");
    let log = run.terminate();
    assert!(!log.contains("hidden"), "{log}");
}

#[test]
fn what_cannot_be_cut_into_events_is_refused_as_a_whole() {
    let project = project("");
    let run = Run::start(&project, "", &["--output", "out.json"]);
    let mut client = run.client();
    for (headers, body, place) in [
        (
            &[NDJSON][..],
            &b"[{\"n\":1},\n{\"n\":2},]"[..],
            "line 2 column 9",
        ),
        (&[JSON], b"{\"n\":1}\n{\"n\":2}\n", "line 2 column 1"),
        (&[JSON], b"[\"\xff\"]", "line 1 column 3"),
        (&[], b"[1] x", "line 1 column 5"),
    ] {
        let answer = client.ask("POST", "/events", headers, body);
        assert_problem(&answer, 400, place);
    }
    let coding = ("Content-Encoding", "gzip");
    let answer = client.ask("POST", "/events", &[coding], b"not gzip");
    assert_problem(&answer, 400, "not valid gzip");
    let cut = &gzip(b"{\"n\":1}\n")[..20];
    let answer = client.ask("POST", "/events", &[coding], cut);
    assert_problem(&answer, 400, "not valid gzip");
    for coding in ["br", "zstd", "deflate", "gzip, gzip"] {
        let coding = ("Content-Encoding", coding);
        let answer = client.ask("POST", "/events", &[coding], b"x");
        assert_problem(&answer, 415, "gzip");
        assert_eq!(answer.header("Accept-Encoding"), Some("gzip"));
    }
    assert_eq!(project.read("out.json"), "");
}

#[test]
fn bodies_have_a_limit_also_decompressed() {
    let project = project("");
    let options = "body_max=1000";
    let run = Run::start(&project, options, &["--output", "out.json"]);
    let body = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8)).into_bytes();
    let coding = ("Content-Encoding", "gzip");
    let mut client = run.client();
    client.ask("POST", "/events", &[], &body(1000)).is(200);
    let packed = gzip(&body(1000));
    client.ask("POST", "/events", &[coding], &packed).is(200);
    let packed = gzip(&body(1001));
    let answer = client.ask("POST", "/events", &[coding], &packed);
    assert_problem(&answer, 413, "1000");
    // A bomb is decompressed up to the limit only.
    let bomb = gzip(&vec![b' '; 200 << 10]);
    assert!(bomb.len() < 1000);
    let answer = client.ask("POST", "/events", &[coding], &bomb);
    assert_problem(&answer, 413, "1000");
    // The connection closes after these, since the rest of the body is not read.
    let answer = client.ask("POST", "/events", &[], &body(1001));
    assert_problem(&answer, 413, "1000");
    let mut client = run.client();
    client.split().1.raw(&chunked("", &body(1001)));
    assert_problem(&client.receive("POST"), 413, "too long");
    assert_eq!(project.read("out.json").lines().count(), 2);
}

/// The rest of a body is not waited for, nor read, when a limit is passed.
#[test]
fn a_body_beyond_a_limit_is_refused_before_its_end() {
    let project = project("");
    let options = "body_max=100000&buffer_max=100000";
    let flags = ["--output", "out.json", "--metrics", "0"];
    let run = Run::start(&project, options, &flags);
    let body = chunked("", &vec![b' '; 101_000]);
    for (size, status) in [(100_500, 503), (body.len() - 5, 413)] {
        // Without the end of the body.
        let mut client = run.client();
        client.split().1.raw(&body[..size]);
        let answer = client.receive("POST").is(status);
        assert_eq!(answer.header("Connection"), Some("close"));
    }
    let mut client = run.client();
    client.ask("GET", "/events", &[], b"").is(405);
    client.split().1.raw(b"no HTTP\r\n\r\n");
    client.receive("POST").is(400);
    let metrics = run.address_of("serves metrics");
    let text = crate::serve::client::Client::tcp(&metrics).get("/metrics");
    let text = String::from_utf8(text.is(200).body).unwrap();
    for status in [400, 405, 413, 503] {
        let line = format!("lookaside_requests_refused_total{{status=\"{status}\"}} 1\n");
        assert!(text.contains(&line), "{status}: {text}");
    }
}
