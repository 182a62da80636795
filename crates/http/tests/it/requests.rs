//! Valid requests, however they are split.

use crate::client::Client;
use crate::service::{single, start};

#[test]
fn replies_say_what_they_have_to() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let hello = client.get("/hello");
    assert_eq!((hello.status, hello.text()), (200, "hello"));
    assert_eq!(
        hello.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(hello.header("content-length"), Some("5"));
    let date = hello.header("date").unwrap();
    assert!(date.ends_with(" GMT") && date.len() == 29, "{date}");
    assert_eq!(hello.header("connection"), None);
    assert_eq!(client.get("/none").header("content-length"), None);
    assert_eq!(client.get("/echo/a%20b").text(), "a%20b");
    assert_eq!(client.get("/rest/a/b%2Fc/").text(), "a/b/c/");
    assert_eq!(client.get("/rest/").text(), "");
    assert_eq!(client.get("/query?a=b&q=%C3%A9+x").text(), "é x");
    assert_eq!(client.get("http://other/query?q=1").text(), "1");
    for size in [0, 9, 10, 10_000_000, 99, 9_999, 7] {
        let reply = client.get(&format!("/with/{size}"));
        assert_eq!(reply.header("content-length"), Some(&*size.to_string()));
    }
    for target in ["/", "/hello/", "/hell", "/echo/", "/echo/a/b", "/rest"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    client.send("POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    let reply = client.receive();
    assert_eq!(
        (reply.status, reply.header("allow")),
        (405, Some("GET, HEAD, PUT"))
    );
    assert_eq!(
        reply.text(),
        r#"{"type":"about:blank","title":"Method Not Allowed","status":405}"#
    );
    client.send("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\nHEAD /with/7 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.receive_head().header("content-length"), Some("5"));
    assert_eq!(client.receive_head().header("content-length"), Some("7"));
    assert_eq!(client.get("/hello").text(), "hello");
    assert_eq!(server.counters().replies_4xx, 7);
}

#[test]
fn a_later_minor_version_is_served_as_ours() {
    let server = start(single());
    let mut client = Client::connect(&server);
    for minor in 1..=9 {
        let line = format!("GET /hello HTTP/1.{minor}");
        client.send(format!(
            "{line}\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ));
        // The client reads `HTTP/1.1` only.
        let reply = client.receive();
        assert_eq!((reply.status, reply.text()), (200, "hello"), "{line}");
        assert_eq!(reply.header("connection"), None, "{line}");
        client.send(format!(
            "POST /body HTTP/1.{minor}\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(client.receive().status, 100, "{line}");
        client.send("x");
        assert_eq!(client.receive().text(), "x", "{line}");
    }
}

#[test]
fn connections_last_as_long_as_the_client_wants() {
    let server = start(single());
    for (request, connection) in [
        (
            "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            Some("close"),
        ),
        ("GET /hello HTTP/1.0\r\n\r\n", Some("close")),
        (
            "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            Some("keep-alive"),
        ),
        ("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n", None),
    ] {
        let mut client = Client::connect(&server);
        client.send(request);
        let reply = client.receive();
        assert_eq!(
            (reply.text(), reply.header("connection")),
            ("hello", connection)
        );
        match connection {
            Some("close") => assert!(client.is_closed()),
            _ => assert_eq!(client.get("/hello").text(), "hello"),
        }
    }
}

#[test]
fn bodies_come_as_a_whole_however_they_are_framed_and_cut() {
    let server = start(single());
    let head = "POST /body HTTP/1.1\r\nHost: h\r\n";
    let bodies = [
        format!("{head}Content-Length: 11\r\n\r\nhello world"),
        format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5;x=y\r\nworld\r\n0\r\nA: b\r\n\r\n"
        ),
    ];
    let get = "GET /echo/next HTTP/1.1\r\nHost: h\r\n\r\n";
    for body in bodies {
        let bytes = format!("{body}{get}");
        for at in 0..bytes.len() {
            let mut client = Client::connect(&server);
            client.send(&bytes[..at]);
            // The two pieces usually arrive separately; the result must be the same either way.
            std::thread::yield_now();
            client.send(&bytes[at..]);
            assert_eq!(client.receive().text(), "hello world", "cut at {at}");
            assert_eq!(client.receive().text(), "next", "cut at {at}");
        }
        let mut client = Client::connect(&server);
        for byte in bytes.as_bytes() {
            client.send([*byte]);
        }
        assert_eq!(client.receive().text(), "hello world");
        assert_eq!(client.receive().text(), "next");
    }
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let head = "POST /body HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n";
    client.send(format!("{head}Content-Length: 3\r\n\r\n"));
    assert_eq!(client.receive().status, 100);
    client.send("abc");
    assert_eq!(client.receive().text(), "abc");
    // A request whose body has arrived needs no `100 Continue`.
    client.send(format!("{head}Content-Length: 3\r\n\r\nabc"));
    assert_eq!(client.receive().text(), "abc");
    client.send(format!("{head}Content-Length: 9000000\r\n\r\n"));
    assert_eq!(client.receive().status, 413);
    assert!(client.is_closed());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let count = 5_000;
    let requests: String = (0..count)
        .map(|tag| format!("GET /echo/{tag} HTTP/1.1\r\nHost: h\r\n\r\n"))
        .collect();
    let mut writer = client.stream().try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, requests.as_bytes()).unwrap();
    });
    for tag in 0..count {
        assert_eq!(client.receive().text(), tag.to_string());
    }
    thread.join().unwrap();
}

#[test]
fn mistakes_of_handlers_are_500_and_take_nobody_along() {
    let server = start(single());
    let mut other = Client::connect(&server);
    assert_eq!(other.get("/hello").status, 200);
    for target in ["/panic", "/forgotten", "/split", "/late"] {
        let mut client = Client::connect(&server);
        client.send(format!(
            "GET /hello HTTP/1.1\r\nHost: h\r\n\r\nGET {target} HTTP/1.1\r\nHost: h\r\n\r\n"
        ));
        assert_eq!(client.receive().status, 200);
        let reply = client.receive();
        assert_eq!(
            (reply.status, reply.header("connection")),
            (500, Some("close")),
            "{target}"
        );
        assert_eq!(
            reply.text(),
            r#"{"type":"about:blank","title":"Internal Server Error","status":500}"#
        );
        assert!(client.is_closed(), "{target}");
    }
    assert_eq!(other.get("/hello").status, 200);
    assert_eq!(server.counters().panics, 1);
}
