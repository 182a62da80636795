//! Bodies in pieces, in both directions.

use std::io::Write;
use std::time::{Duration, Instant};

use lookaside_http::Options;
use lookaside_testing::wait_until;

use crate::client::Client;
use crate::service::{file, hasty, single, start};

const POST: &str = "HTTP/1.1\r\nHost: h\r\n";

#[test]
fn a_body_of_which_no_more_is_wanted_is_answered_at_once() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let head = format!("POST /enough {POST}Transfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{head}5\r\nabcde\r\n0\r\n\r\n"));
    assert_eq!(client.receive().text(), "5");
    client.send(format!("{head}5\r\nabcde\r\n"));
    client.send("6\r\nabcdef\r\n");
    let answer = client.receive();
    assert_eq!((answer.status, answer.text()), (413, "11"));
    assert_eq!(answer.header("Connection"), Some("close"));
}

#[test]
fn uploads_are_counted_however_they_are_cut() {
    let server = start(single());
    let mut client = Client::connect(&server);
    for size in [0, 1, 65_536, 3_000_000] {
        client.send(format!("POST /upload {POST}Content-Length: {size}\r\n\r\n"));
        client.send("x".repeat(size));
        assert_eq!(client.receive().text(), size.to_string());
        let body = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
        let body = if size == 0 { String::new() } else { body };
        client.send(format!(
            "POST /upload {POST}Transfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"
        ));
        assert_eq!(client.receive().text(), size.to_string());
    }
    let request = format!("POST /upload {POST}Content-Length: 5\r\n\r\nhello");
    for at in 0..request.len() {
        client.send(&request[..at]);
        std::thread::yield_now();
        client.send(&request[at..]);
        assert_eq!(client.receive().text(), "5");
    }
    client.send(format!(
        "POST /upload {POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    ));
    assert_eq!(client.receive().status, 100);
    client.send("ab");
    assert_eq!(client.receive().text(), "2");
    // After a deferred request, the `100 Continue` waits, too.
    client.send(format!(
        "GET /park/a HTTP/1.1\r\nHost: h\r\n\r\n\
         POST /upload {POST}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    ));
    let mut waker = Client::connect(&server);
    while waker.get("/wake/a").text() == "0" {}
    assert_eq!(client.receive().text(), "a");
    assert_eq!(client.receive().status, 100);
    client.send("ab");
    assert_eq!(client.receive().text(), "2");
}

#[test]
fn bodies_that_are_too_long_or_malformed_are_refused_in_their_middle() {
    let server = start(single());
    for (request, status) in [
        ("POST /limited {}Content-Length: 11\r\n\r\n", 413),
        (
            "POST /limited {}Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\nabcde\r\n",
            413,
        ),
        (
            "POST /upload {}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            400,
        ),
        (
            "POST /body {}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            400,
        ),
        ("POST /sink-panics {}Content-Length: 5\r\n\r\nab", 500),
    ] {
        let mut client = Client::connect(&server);
        client.send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
        client.send(request.replace("{}", POST));
        assert_eq!(client.receive().status, 200);
        let reply = client.receive();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (status, Some("close")),
            "{request}"
        );
        assert!(client.is_closed(), "{request}");
    }
    // A body of exactly the limit is accepted.
    let mut client = Client::connect(&server);
    client.send(format!(
        "POST /limited {POST}Content-Length: 10\r\n\r\n0123456789"
    ));
    assert_eq!(client.receive().text(), "10");
}

#[test]
fn a_body_that_nobody_wants_ends_the_connection_unless_it_is_short() {
    let server = start(single());
    let mut client = Client::connect(&server);
    client.send(format!(
        "POST /unwanted {POST}Content-Length: 5\r\n\r\nhello"
    ));
    let reply = client.receive();
    assert_eq!((reply.status, reply.header("connection")), (403, None));
    assert_eq!(client.get("/hello").text(), "hello");
    for request in [
        "POST /unwanted {}Content-Length: 70000\r\n\r\n",
        "POST /unwanted {}Transfer-Encoding: chunked\r\n\r\n",
        "POST /unwanted {}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    ] {
        let mut client = Client::connect(&server);
        client.send(request.replace("{}", POST));
        let reply = client.receive();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (403, Some("close")),
            "{request}"
        );
        assert!(client.is_closed());
    }
}

#[test]
fn large_bodies_wait_for_slow_readers() {
    let server = start(single());
    let size = 20_000_000;
    let mut client = Client::connect(&server);
    let mut other = Client::connect(&server);
    client.send(format!(
        "GET /stream/{size} HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n"
    ));
    assert_eq!(
        other.get("/hello").text(),
        "hello",
        "others are served meanwhile"
    );
    assert_eq!(client.receive().body.len(), size);
    assert_eq!(client.receive().text(), "hello");
    client.send("GET /stream/9000000 HTTP/1.0\r\n\r\n");
    let reply = client.receive();
    assert_eq!(
        (reply.body.len(), reply.header("connection")),
        (9_000_000, Some("close"))
    );
}

#[test]
fn bodies_go_through_other_threads_both_ways() {
    let server = start(single());
    let mut client = Client::connect(&server);
    for size in [0, 5, 5_000_000] {
        let mut writer = client.stream().try_clone().unwrap();
        let thread = std::thread::spawn(move || {
            write!(writer, "POST /shout {POST}Content-Length: {size}\r\n\r\n").unwrap();
            writer.write_all("x".repeat(size).as_bytes()).unwrap();
        });
        let reply = client.receive();
        assert_eq!(reply.body.len(), size);
        assert!(reply.body.iter().all(|&byte| byte == b'X'));
        thread.join().unwrap();
    }
    assert_eq!(client.get("/hello").text(), "hello");
    // A malformed body reaches a thread as an error, and the client as an aborted connection.
    client.send(format!(
        "POST /shout {POST}Transfer-Encoding: chunked\r\n\r\n2\r\nabc"
    ));
    while client
        .try_receive(false)
        .is_some_and(|reply| reply.status == 400)
    {}
}

#[test]
fn files_are_sent_in_part_or_as_a_whole() {
    let server = start(single());
    let bytes = std::fs::read(file()).unwrap();
    let size = bytes.len();
    let mut client = Client::connect(&server);
    for (from, to) in [
        (0, 0),
        (0, 10),
        (3, 32_771),
        (7, 32_776),
        (1, 2_000_001),
        (0, size),
    ] {
        client.send(format!(
            "GET /file/{from}/{to} HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\nHost: h\r\n\r\n"
        ));
        let reply = client.receive();
        assert_eq!(
            reply.header("content-length"),
            Some(&*(to - from).to_string())
        );
        assert!(reply.body == bytes[from..to], "{from} to {to}");
        assert_eq!(client.receive().text(), "hello");
    }
    client.send("HEAD /file/0/1000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(
        client.receive_head().header("content-length"),
        Some("1000000")
    );
    assert_eq!(client.get("/hello").text(), "hello");
    let beyond = size + 100_000;
    client.send(format!("GET /file/0/{beyond} HTTP/1.1\r\nHost: h\r\n\r\n"));
    let cut = std::panic::catch_unwind(move || client.receive());
    assert!(cut.is_err(), "a file that ends early cannot look whole");
}

/// Sends a live stream of one chunk after another, each of which is waited for, as long as `goes_on`.
fn live(options: Options, mut goes_on: impl FnMut(Instant) -> bool) -> bool {
    let server = start(options);
    let mut client = Client::connect(&server);
    client.send(format!(
        "POST /live {POST}Transfer-Encoding: chunked\r\n\r\n"
    ));
    let begun = Instant::now();
    while goes_on(begun) {
        if !client.try_send("2\r\na\n\r\n") || !client.try_receive_some() {
            return false;
        }
        // sleep: the pace of a slow stream
        std::thread::sleep(Duration::from_millis(10));
    }
    client.send("0\r\n\r\n");
    while client.try_receive_some() {}
    true
}

/// A live stream may be slower than other bodies, and last longer.
#[test]
fn issue_12_a_live_stream_lasts() {
    let options = Options {
        stream_idle_timeout: Duration::from_secs(600),
        idle_timeout: Duration::from_secs(1),
        ..hasty()
    };
    let lasts = 4 * options.body_timeout;
    assert!(live(options, |begun| begun.elapsed() < lasts), "it was cut");
}

#[test]
fn a_live_stream_has_limits_of_its_own() {
    // A stream that pauses.
    let server = start(Options {
        stream_idle_timeout: Duration::from_millis(100),
        ..single()
    });
    let mut client = Client::connect(&server);
    client.send(format!(
        "POST /live {POST}Transfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n"
    ));
    while client.try_receive_some() {}
    wait_until("it is counted", || server.counters().refused == 1);
    // A stream below a required rate.
    let options = Options {
        stream_idle_timeout: Duration::from_millis(100),
        stream_rate_min: 1 << 20,
        ..single()
    };
    let a_minute = Duration::from_secs(60);
    assert!(!live(options, |begun| begun.elapsed() < a_minute));
}
