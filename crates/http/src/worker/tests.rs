//! Runs the loop on the thread of the test, so that its allocations can be counted.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;
use crate::mailbox::Mailbox;
use crate::peer::Peer;
use crate::{Options, Router, Ticket};

/// Longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(240);

/// An I/O thread's loop that runs on the thread of the test.
fn worker() -> (Worker<Router<Vec<Ticket>>>, Batch) {
    let mailboxes = Arc::new([Arc::new(Mailbox::new().unwrap())]);
    // A turn without an event waits for the first of them.
    let options = Arc::new(Options {
        header_timeout: TIMEOUT,
        body_timeout: TIMEOUT,
        idle_timeout: TIMEOUT,
        write_timeout: TIMEOUT,
        ..Options::default()
    });
    let io = Io::new(
        0,
        options,
        Vec::new(),
        Arc::new([None]),
        mailboxes,
        Arc::default(),
    )
    .unwrap();
    let mut router = Router::new(Vec::with_capacity(64));
    router
        .get("/hello", |_, _, reply| reply.text("hello"))
        .get("/sum/{a}/{b}", |_, request, reply| {
            let number = |name| request.param(name).unwrap().parse::<u64>().unwrap();
            let sum = number("a") + number("b");
            reply.send_with("text/plain", |out| write!(out, "{sum}").unwrap());
        })
        .post("/body", |_, request, reply| reply.body(request.body()))
        .get("/later", |parked, _, reply| parked.push(reply.defer()))
        .on_batch_end(|parked, io| {
            for ticket in parked.drain(..) {
                if let Some(reply) = io.reply(ticket) {
                    reply.text("later");
                }
            }
        });
    let service = router;
    (Worker { io, service }, Batch::new())
}

fn connect(worker: &mut Worker<Router<Vec<Ticket>>>) -> UnixStream {
    let (client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    worker.adopt(server.into(), Peer::Unix, 0);
    client
}

const REQUESTS: &str = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /sum/13/42 HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n\
    POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n20\
    GET /later HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_request_allocates_nothing_once_it_is_warm() {
    let (mut worker, mut batch) = worker();
    let mut client = connect(&mut worker);
    let mut bytes = vec![0; 4096];
    let mut exchange = |worker: &mut Worker<_>, batch: &mut Batch| {
        client.write_all(REQUESTS.as_bytes()).unwrap();
        worker.turn(batch).unwrap();
        client.read(&mut bytes).unwrap()
    };
    for _ in 0..4 {
        exchange(&mut worker, &mut batch);
    }
    let mut size = 0;
    let counted = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            size = exchange(&mut worker, &mut batch);
        }
    });
    assert_eq!(worker.io.counters.requests, 5 * 1_004);
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert!(
        bytes[..size].ends_with(b"hello"),
        "all are answered by one send"
    );
}

#[test]
fn a_connection_that_waits_is_small() {
    const COUNT: u64 = 100;
    let (mut worker, mut batch) = worker();
    let mut clients = Vec::new();
    let counted = allocation_counter::measure(|| {
        for _ in 0..COUNT {
            let mut client = connect(&mut worker);
            client.write_all(REQUESTS.as_bytes()).unwrap();
            worker.turn(&mut batch).unwrap();
            client.read_exact(&mut [0; 500]).unwrap();
            clients.push(client);
        }
    });
    let each = counted.bytes_current / COUNT as i64;
    // The table of connections doubles, and the buffers of the thread are in it.
    assert!(each < 3 << 10, "{each} bytes each");
}

#[test]
fn a_connection_that_always_asks_lets_others_in_between() {
    let (mut worker, mut batch) = worker();
    let mut client = connect(&mut worker);
    client.set_nonblocking(true).unwrap();
    let request = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
    let bytes = request.repeat(10_000);
    let sent = client.write(bytes.as_bytes()).unwrap();
    assert!(sent > 100_000, "{sent} bytes are more than one read");
    worker.turn(&mut batch).unwrap();
    let count = worker.io.counters.requests;
    assert!(
        count > 0 && count as usize <= (16 << 10) / request.len(),
        "{count}"
    );
}

#[test]
fn nothing_that_came_before_an_edge_is_forgotten() {
    const COUNT: usize = 10_000;
    const ANSWER: &[u8] = b"\r\n\r\nhello";
    let (mut worker, mut batch) = worker();
    let mut client = connect(&mut worker);
    client.set_nonblocking(true).unwrap();
    let bytes = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n".repeat(COUNT);
    let (mut sent, mut received) = (0, Vec::new());
    let mut buffer = [0; 4096];
    // More than one read arrives with one edge, and the end with the last bytes.
    while worker.io.connections.len() > 0 {
        if sent < bytes.len() {
            sent += client.write(&bytes.as_bytes()[sent..]).unwrap_or(0);
            if sent == bytes.len() {
                client.shutdown(std::net::Shutdown::Write).unwrap();
            }
        }
        // Nothing is due before `TIMEOUT`: a turn without an event would wait that long.
        let begun = std::time::Instant::now();
        worker.turn(&mut batch).unwrap();
        assert!(begun.elapsed() < TIMEOUT / 2, "an edge was lost");
        while let Ok(size @ 1..) = client.read(&mut buffer) {
            received.extend_from_slice(&buffer[..size]);
        }
    }
    client.set_nonblocking(false).unwrap();
    client.read_to_end(&mut received).unwrap();
    let answers = received.windows(ANSWER.len()).filter(|end| end == &ANSWER);
    assert_eq!(answers.count(), COUNT);
    assert_eq!(worker.io.counters.requests as usize, COUNT);
}

#[test]
fn a_connection_that_asked_for_much_at_once_is_small_again() {
    const COUNT: u64 = 100;
    let (mut worker, mut batch) = worker();
    let requests = "GET /later HTTP/1.1\r\nHost: h\r\n\r\n".repeat(60);
    let mut clients = Vec::new();
    let counted = allocation_counter::measure(|| {
        for _ in 0..COUNT {
            let mut client = connect(&mut worker);
            client.write_all(requests.as_bytes()).unwrap();
            worker.turn(&mut batch).unwrap();
            client.read_exact(&mut [0; 6_000]).unwrap();
            clients.push(client);
        }
    });
    assert_eq!(worker.io.counters.replies_2xx, 60 * COUNT);
    let each = counted.bytes_current / COUNT as i64;
    assert!(each < 3 << 10, "{each} bytes each");
}

/// The parser only has the bytes of its connection: its panic affects only that connection.
#[test]
fn a_panic_of_the_parser_costs_one_connection() {
    let (mut worker, mut batch) = worker();
    let mut other = connect(&mut worker);
    let chunked = "POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (count, cut, request) in [
        (
            1,
            0,
            "GET /panic in the parser HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
        ),
        (
            2,
            chunked.len(),
            format!("{chunked}13\r\npanic in the parser\r\n0\r\n\r\n"),
        ),
    ] {
        let mut client = connect(&mut worker);
        let hello = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
        for piece in [hello, &request[..cut], &request[cut..]] {
            client.write_all(piece.as_bytes()).unwrap();
            if !piece.is_empty() {
                worker.turn(&mut batch).unwrap();
            }
        }
        drop(client.shutdown(std::net::Shutdown::Write));
        worker.turn(&mut batch).unwrap();
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("hello") && text.contains(" 500 "), "{text}");
        assert_eq!(worker.io.counters.panics, count);
        other.write_all(hello.as_bytes()).unwrap();
        worker.turn(&mut batch).unwrap();
        let mut bytes = [0; 1024];
        let size = other.read(&mut bytes).unwrap();
        assert!(bytes[..size].ends_with(b"hello"));
    }
    assert_eq!(worker.io.connections.len(), 1);
}
