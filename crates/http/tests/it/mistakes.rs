//! Errors of handlers: they never affect another request or another client.

use std::io::Read;
use std::net::Shutdown;

use lookaside_http::Server;
use lookaside_testing::wait_until;

use crate::awkward::{get, start};
use crate::client::Client;
use crate::service::single;

fn check_texts(server: &Server, requests: &[&str], texts: &[&str]) -> Client {
    let mut client = Client::connect(server);
    let all: String = requests.iter().map(|target| get(target)).collect();
    client.send(all);
    for text in texts {
        assert_eq!(client.receive().text(), *text, "{requests:?}");
    }
    client
}

#[test]
fn a_handler_may_answer_what_came_before_on_its_own_connection() {
    let server = start(single());
    let mut client = check_texts(
        &server,
        &["/park", "/park", "/hello", "/release", "/hello"],
        &["parked", "parked", "hello", "released", "hello"],
    );
    assert_eq!(client.get("/hello").text(), "hello");
    check_texts(
        &server,
        &["/park", "/release-and-park", "/hello", "/release"],
        &["parked", "parked", "hello", "released"],
    );
    check_texts(
        &server,
        &["/park", "/park", "/nest", "/hello"],
        &["first", "second", "third", "hello"],
    );
    // There is no reply after one that closes the connection.
    let mut client = check_texts(
        &server,
        &["/park", "/park", "/nest-close", "/hello"],
        &["first"],
    );
    assert!(client.is_closed());
    assert_eq!(server.counters().panics, 0);
}

#[test]
fn nothing_is_called_behind_a_reply_that_will_close() {
    let server = start(single());
    let mut client = Client::connect(&server);
    client.send([get("/park"), get("/close"), get("/hello"), get("/hello")].concat());
    let mut other = Client::connect(&server);
    wait_until("it is parked", || server.counters().requests >= 2);
    assert_eq!(other.get("/release").text(), "released");
    assert_eq!(client.receive().text(), "parked");
    assert_eq!(client.receive().text(), "closing");
    assert!(client.is_closed());
    wait_until("all are counted", || server.counters().requests >= 3);
    assert_eq!(server.counters().requests, 3);
}

#[test]
fn a_service_that_writes_all_the_time_starves_nobody() {
    let server = start(single());
    let mut quiet = Client::connect(&server);
    quiet.send(get("/quiet"));
    let mut endless = Client::connect(&server);
    endless.send(get("/endless"));
    let mut timer = Client::connect(&server);
    assert_eq!(timer.get("/timer").status, 200);
    let mut stream = endless.stream().try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        while stream.read(&mut bytes).is_ok_and(|size| size > 0) {}
    });
    let mut other = Client::connect(&server);
    for _ in 0..200 {
        assert_eq!(other.get("/hello").text(), "hello");
    }
    endless.stream().shutdown(Shutdown::Both).unwrap();
    reader.join().unwrap();
}

#[test]
fn headers_that_change_what_follows_never_go_out() {
    let server = start(single());
    for target in [
        "/file-split",
        "/stream-split",
        "/framing",
        "/prepared-framing",
    ] {
        let mut client = check_texts(&server, &["/hello", target], &["hello"]);
        let reply = client.receive();
        assert_eq!((reply.status, reply.header("y")), (500, None), "{target}");
        // A [`Response`] has become a 500 before it arrives here.
        let is_made_here = target != "/prepared-framing";
        assert!(!is_made_here || client.is_closed(), "{target}");
    }
}

#[test]
fn a_panic_while_a_piece_is_written_takes_no_other_reply_along() {
    let server = start(single());
    let mut client = Client::connect(&server);
    client.send([get("/hello"), get("/quiet"), get("/stream-panics")].concat());
    let mut bytes = Vec::new();
    let _ = client.stream().read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\r\n\r\nhello"), "{text}");
    assert!(
        text.ends_with("Transfer-Encoding: chunked\r\n\r\n"),
        "{text}"
    );
    assert_eq!(Client::connect(&server).get("/hello").text(), "hello");
}

#[test]
fn who_overwrites_replies_ends_the_connection() {
    let server = start(single());
    let mut client = Client::connect(&server);
    assert_eq!(client.get("/overwrite/0").status, 500);
    for requests in [
        [get("/hello"), get("/hello"), get("/overwrite/0")],
        [get("/hello"), get("/hello"), get("/overwrite/10000")],
        [get("/hello"), get("/quiet"), get("/stream-overwrites")],
        // A part of the lost output was sent.
        [
            get("/large").repeat(20),
            get("/large").repeat(20),
            get("/overwrite/9"),
        ],
    ] {
        let mut client = Client::connect(&server);
        client.send(requests.concat());
        let mut bytes = Vec::new();
        // Reset or not, it ends.
        let _ = client.stream().read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("yyyy"), "{}", requests[2]);
    }
    assert_eq!(Client::connect(&server).get("/hello").text(), "hello");
    assert_eq!(server.counters().panics, 0);
}
