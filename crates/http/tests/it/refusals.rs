//! Smuggling, slow clients and oversized input: a status, a closed connection, and a server that
//! keeps working.

use std::time::{Duration, Instant};

use lookaside_http::Options;
use lookaside_testing::wait_until;

use crate::client::{Client, TIMEOUT};
use crate::service::{hasty, single, start};

/// Sends bytes after a valid request, and expects a status and the end after its reply.
fn check(server: &lookaside_http::Server, bytes: impl AsRef<[u8]>, status: u16) {
    let bytes = bytes.as_ref();
    let shown = bytes[..bytes.len().min(200)].escape_ascii();
    let mut client = Client::connect(server);
    let mut all = b"GET /echo/first HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
    all.extend_from_slice(bytes);
    all.extend_from_slice(b"GET /echo/smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
    client.try_send(&all);
    assert_eq!(client.receive().text(), "first", "{shown}");
    let reply = client.receive();
    let connection = reply.header("connection").map(str::to_owned);
    assert_eq!(
        (reply.status, connection.as_deref()),
        (status, Some("close")),
        "{shown}"
    );
    // One format of errors, with a hint (RFC 9457).
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{shown}"
    );
    let text = reply.text();
    assert!(
        text.starts_with(r#"{"type":"about:blank","title":""#),
        "{text}"
    );
    assert!(
        text.contains(&format!(r#"","status":{status},"detail":""#)),
        "{text}"
    );
    assert!(client.is_closed(), "{shown}");
}

#[test]
fn what_is_no_request_is_refused_and_nothing_behind_it_is_read() {
    let server = start(single());
    let host = "Host: h\r\n";
    let head = |rest: &str| format!("POST /body HTTP/1.1\r\n{host}{rest}\r\n");
    let cases = [
        // Two lengths, or a length and chunks.
        (
            head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            400,
        ),
        (
            head("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            400,
        ),
        (head("Content-Length: 5\r\nContent-Length: 6\r\n"), 400),
        (head("Content-Length: 5\r\nContent-Length: 5\r\n"), 400),
        (head("Content-Length: 5,5\r\n"), 400),
        (head("Content-Length: +5\r\n"), 400),
        (head("Content-Length: 5 \u{b}\r\n"), 400),
        (head("Content-Length : 5\r\n"), 400),
        (head("Content-Length: 99999999999999999999999\r\n"), 400),
        // Malformed chunks.
        (head("Transfer-Encoding: chunked\r\n") + "x\r\n", 400),
        (head("Transfer-Encoding: chunked\r\n") + "1\nx\n0\n\n", 400),
        (
            head("Transfer-Encoding: chunked\r\n") + "1 \r\nx\r\n0\r\n\r\n",
            400,
        ),
        (
            head("Transfer-Encoding: chunked\r\n") + "fffffffffffffffff\r\n",
            400,
        ),
        (head("Transfer-Encoding: chunked\r\n") + "5\r\nhelloX", 400),
        (head("Transfer-Encoding: chunked\r\n") + "-5\r\nhello", 400),
        (
            head("Transfer-Encoding: chunked\r\n") + &format!("1;{}\r\n", "a".repeat(300)),
            400,
        ),
        (
            head("Transfer-Encoding: chunked\r\n") + "1000000\r\n" + &"x".repeat(2 << 20),
            413,
        ),
        (head("Transfer-Encoding: gzip, chunked\r\n"), 501),
        (head("Transfer-Encoding: chunked, identity\r\n"), 400),
        // Wrong line endings and beginnings.
        ("GET / HTTP/1.1\nHost: h\n\n".into(), 400),
        (head("A: b\r\n c\r\n"), 400),
        (head("A: b\rC: d\r\n"), 400),
        (head("A\0: b\r\n"), 400),
        (head("A: \0\r\n"), 400),
        // No host, or two.
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        (head("Host: i\r\n"), 400),
        // Other versions and protocols.
        ("GET / HTTP/2.0\r\nHost: h\r\n\r\n".into(), 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), 505),
        ("GET / HTTP/0.9\r\nHost: h\r\n\r\n".into(), 505),
        ("GET / HTTP/3\r\nHost: h\r\n\r\n".into(), 505),
        ("GET / HTTP/1.10\r\nHost: h\r\n\r\n".into(), 400),
        ("GET /\r\n\r\n".into(), 400),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".into(), 400),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n".into(), 501),
        // Exceeded limits.
        (head("Content-Length: 1048577\r\n"), 413),
        (
            head("Content-Length: 1048577\r\nExpect: 100-continue\r\n"),
            413,
        ),
        (head("Expect: 101-upgrade\r\n"), 417),
        (
            format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(20 << 10)),
            414,
        ),
        (format!("GET /{}", "x".repeat(70 << 10)), 414),
        (head(&format!("A: {}\r\n", "x".repeat(64 << 10))), 431),
        (head(&"A: b\r\n".repeat(300)), 431),
        (
            format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(300 << 10)),
            431,
        ),
        ("\r\n".repeat(40_000), 431),
    ];
    for (bytes, status) in &cases {
        check(&server, bytes, *status);
    }
    let mut client = Client::connect(&server);
    assert_eq!(client.get("/hello").text(), "hello", "the server is well");
    wait_until("all others have ended", || server.counters().open() == 1);
    let counters = server.counters();
    assert_eq!((counters.refused, counters.panics), (cases.len() as u64, 0));
}

#[test]
fn limits_are_those_of_the_options() {
    let server = start(Options {
        head_size_max: 300,
        header_count_max: 3,
        target_size_max: 20,
        body_size_max: 4,
        ..single()
    });
    check(
        &server,
        format!(
            "GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n",
            "x".repeat(300)
        ),
        431,
    );
    check(
        &server,
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nA: b\r\nA: b\r\n\r\n",
        431,
    );
    check(
        &server,
        "GET /0123456789/123456789 HTTP/1.1\r\nHost: h\r\n\r\n",
        414,
    );
    check(
        &server,
        "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n",
        413,
    );
}

#[test]
fn errors_wait_for_the_replies_before_them() {
    let server = start(single());
    let mut client = Client::connect(&server);
    client.send("GET /park/a HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/9.9\r\n\r\n");
    let mut waker = Client::connect(&server);
    while waker.get("/wake/a").text() == "0" {}
    assert_eq!(client.receive().text(), "a");
    assert_eq!(client.receive().status, 505);
    assert!(client.is_closed());
}

#[test]
fn clients_that_loiter_are_told_and_sent_away() {
    let server = start(hasty());
    let post = "POST /body HTTP/1.1\r\nHost: h\r\n";
    let mut waiting: Vec<(Client, &str, bool)> = [
        ("", false),
        ("GET /hel", true),
        ("GET /hello HTTP/1.1\r\nHost: h\r\n", true),
        (&format!("{post}Content-Length: 5\r\n\r\nab"), true),
        (
            &format!("{post}Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
            true,
        ),
        (
            "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab",
            true,
        ),
        ("POST /shout HTTP/1.0\r\nContent-Length: 5\r\n\r\n", false),
    ]
    .map(|(bytes, is_told)| {
        let mut client = Client::connect(&server);
        client.send(bytes);
        (client, "", is_told)
    })
    .into();
    // A client that has sent a request before, and then waits too long.
    let mut idle = Client::connect(&server);
    assert_eq!(idle.get("/hello").status, 200);
    waiting.push((idle, "idle", false));
    // A client that waits for the server is not limited.
    let mut parked = Client::connect(&server);
    parked.send("GET /park/a HTTP/1.1\r\nHost: h\r\n\r\n");
    for (index, (client, _, is_told)) in waiting.iter_mut().enumerate() {
        if *is_told {
            let reply = client.receive();
            let kind = reply.header("content-type");
            assert_eq!(
                (reply.status, kind),
                (408, Some("application/problem+json")),
                "{index}"
            );
        } else if index == 6 {
            // Its reply has begun, so only its end can signal the error.
            while client.try_receive(false).is_some() {}
            continue;
        }
        assert!(client.is_closed(), "{index}");
    }
    let mut waker = Client::connect(&server);
    assert_eq!(waker.get("/wake/a").text(), "1");
    assert_eq!(parked.receive().text(), "a");
}

#[test]
fn a_client_that_drips_gets_no_more_time_for_it() {
    let server = start(hasty());
    let mut client = Client::connect(&server);
    client.send("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    let begun = Instant::now();
    while client.try_send("x") {
        assert!(begun.elapsed() < TIMEOUT, "bodies may drip for ever");
        // sleep: the pace of a slow client
        std::thread::sleep(Duration::from_millis(10));
    }
    // The status may be lost, as bytes came after the end.
    let mut client = Client::connect(&server);
    let begun = Instant::now();
    for byte in b"GET /hello HTTP/1.1\r\nHost: h\r\nA: b\r\n".iter().cycle() {
        assert!(begun.elapsed() < TIMEOUT, "headers may drip for ever");
        if !client.try_send([*byte]) {
            break;
        }
        // sleep: the pace of a slow client
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The limit for a slow body differs from that for a client that does not read.
#[test]
fn a_slow_body_behind_a_reply_that_is_not_read_is_answered() {
    let server = start(Options {
        write_timeout: TIMEOUT,
        ..hasty()
    });
    let mut client = Client::connect(&server);
    // More than socket buffers hold.
    let (count, size) = (16, 2_000_000);
    for _ in 0..count {
        client.send(format!("GET /file/0/{size} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    client.send("POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    wait_until("the body is given up", || server.counters().refused == 1);
    for _ in 0..count {
        assert_eq!(client.receive().body.len(), size);
    }
    assert_eq!(client.receive().status, 408);
    assert_eq!(server.counters().write_timeouts, 0);
}

#[test]
fn a_client_that_does_not_read_is_left() {
    let server = start(hasty());
    let mut client = Client::connect(&server);
    client.send("GET /stream/100000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut file = Client::connect(&server);
    for _ in 0..64 {
        file.send("GET /file/0/2000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    wait_until("both are left", || server.counters().write_timeouts == 2);
    let mut other = Client::connect(&server);
    assert_eq!(other.get("/hello").text(), "hello");
}
