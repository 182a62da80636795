//! Deferred replies, and replies out of order.

use std::io::Read as _;

use lookaside_http::{Io, Listen, Options, Reply, Request, Server, Service, Ticket};
use lookaside_testing::wait_until;

use crate::client::Client;
use crate::service::{hasty, single, start};

#[test]
fn replies_keep_the_order_of_the_requests_whatever_is_ready_first() {
    let server = start(single());
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&server)).collect();
        let mut waker = Client::connect(&server);
        let mut expected: Vec<Vec<String>> = vec![Vec::new(); clients.len()];
        let mut tags = Vec::new();
        for number in 0..60 {
            let index = random.usize(..clients.len());
            // A tag identifies the request, so that a reply to another one would be noticed.
            let tag = format!("c{index}-{number}");
            let target = match random.u8(..5) {
                0 | 1 => {
                    tags.push(tag.clone());
                    format!("/park/{tag}")
                }
                2 => format!("/remote/{tag}"),
                3 => "/stream/30000".into(),
                _ => format!("/echo/{tag}"),
            };
            let body = match &*target {
                "/stream/30000" => "x".repeat(30_000),
                _ => tag,
            };
            clients[index].send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            expected[index].push(body);
        }
        // A tag must be woken after its request has arrived.
        let mut parked = tags.len();
        while parked > 0 {
            random.shuffle(&mut tags);
            tags.retain(|tag| {
                let woken: usize = waker.get(&format!("/wake/{tag}")).text().parse().unwrap();
                parked -= woken;
                woken == 0
            });
        }
        for (client, expected) in clients.iter_mut().zip(expected) {
            for body in expected {
                assert_eq!(client.receive().text(), body, "seed {seed}");
            }
        }
    }
}

#[test]
fn too_many_requests_that_wait_are_left_unread_until_they_are_answered() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let count = 500;
    for number in 0..count {
        client.send(format!(
            "GET /park/{} HTTP/1.1\r\nHost: h\r\n\r\n",
            number % 7
        ));
    }
    let mut waker = Client::connect(&server);
    let mut woken = 0;
    while woken < count {
        for tag in 0..7 {
            let batch: usize = waker.get(&format!("/wake/{tag}")).text().parse().unwrap();
            assert!(
                batch <= 10,
                "64 of 7 kinds wait at most, {batch} of {tag} were woken"
            );
            woken += batch;
        }
    }
    for number in 0..count {
        assert_eq!(client.receive().text(), (number % 7).to_string());
    }
}

#[test]
fn issue_12_few_requests_that_are_put_off_are_begun_before_those_before_them_are_answered() {
    let server = start(Options {
        deferred_count_max: 4,
        ..single()
    });
    let mut client = Client::connect(&server);
    let count = 64;
    client.send("GET /park/a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(count));
    let mut waker = Client::connect(&server);
    let mut woken = 0;
    while woken < count {
        let batch: usize = waker.get("/wake/a").text().parse().unwrap();
        assert!(batch <= 4, "{batch} were begun");
        woken += batch;
    }
    for _ in 0..count {
        assert_eq!(client.receive().text(), "a");
    }
    // Requests that are answered at once are still begun.
    client.send("GET /echo/b HTTP/1.1\r\nHost: h\r\n\r\n".repeat(count));
    for _ in 0..count {
        assert_eq!(client.receive().text(), "b");
    }
}

#[test]
fn issue_12_a_client_that_reads_no_deferred_answers_holds_few_and_is_left() {
    const SIZE: usize = 32 << 20;
    let server = start(Options {
        deferred_count_max: 4,
        ..hasty()
    });
    let mut client = Client::connect(&server);
    let request = format!("GET /remote-with/{SIZE} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send(request.repeat(64));
    let monitor = server.monitor();
    let mut unsent_max = 0;
    wait_until("it is left", || {
        unsent_max = unsent_max.max(monitor.unsent_size());
        server.counters().write_timeouts == 1
    });
    // The socket buffers hold less than one of them.
    assert_eq!(server.counters().requests, 4);
    let size = SIZE as u64;
    assert!(
        (3 * size..5 * size).contains(&unsent_max),
        "{unsent_max} bytes were not sent"
    );
    wait_until("all are dropped", || monitor.unsent_size() == 0);
    let mut other = Client::connect(&server);
    assert_eq!(other.get("/hello").text(), "hello");
    assert_eq!(monitor.unsent_size(), 0);
}

#[test]
fn a_ticket_names_nobody_once_its_client_has_gone() {
    let server = start(single());
    for round in 0..20 {
        let mut client = Client::connect(&server);
        client.send(
            "GET /park/gone HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/x HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        // The server has processed it when the request after it is counted.
        while server.counters().requests < 2 + round * 5 {
            std::thread::yield_now();
        }
        drop(client);
        // Later connections get its slot, and must not get its reply.
        let mut next = Client::connect(&server);
        assert_eq!(next.get("/hello").text(), "hello");
        assert!(["0", "1"].contains(&next.get("/wake/gone").text()));
        assert_eq!(next.get("/hello").text(), "hello");
    }
}

#[test]
fn a_request_may_answer_those_before_it_on_its_own_connection() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.send(
        get("/park/a") + &get("/echo/b") + &get("/park/a") + &get("/wake/a") + &get("/echo/c"),
    );
    for expected in ["a", "b", "a", "2", "c"] {
        assert_eq!(client.receive().text(), expected);
    }
    // The body of the first one is begun, and cut off by the next one.
    client.send(get("/stream/100000000") + &get("/break-off"));
    while client.try_receive_some() {}
    let mut next = Client::connect(&server);
    assert_eq!(next.get("/hello").text(), "hello");
    assert_eq!(server.counters().panics, 0);
}

#[test]
fn other_threads_answer() {
    let server = start(single());
    let mut client = Client::connect(&server);
    let reply = client.get("/remote/a");
    assert_eq!(
        (reply.status, reply.header("x-tag"), reply.text()),
        (202, Some("a"), "a")
    );
    assert_eq!(client.get("/remote/forgotten").status, 500);
    client.send("GET /remote-cut HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(
        std::panic::catch_unwind(move || client.receive()).is_err(),
        "the body was cut"
    );
}

#[test]
fn trailers_stand_behind_the_last_chunk() {
    let server = start(single());
    let received = |request: &str| {
        let mut client = Client::connect(&server);
        client.send(request);
        let mut received = String::new();
        client.stream().read_to_string(&mut received).unwrap();
        received
    };
    let of = |target: &str, version: &str| {
        received(&format!(
            "GET {target} HTTP/{version}\r\nHost: h\r\nConnection: close\r\n\r\n"
        ))
    };
    let answer = of("/trailers/a", "1.1");
    assert!(
        answer.contains("\r\nTrailer: X-Count, X-Note\r\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("4\r\nbody\r\n0\r\nX-Count: 4\r\nX-Note: a\r\n\r\n"),
        "{answer}"
    );
    // Only chunked bodies have trailers.
    let answer = of("/trailers/a", "1.0");
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");
    // A line feed would begin another header: the body is cut off instead.
    let answer = of("/trailers/a_X-More:%201", "1.1");
    assert!(!answer.contains("X-More"), "{answer}");
    assert!(!answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    // The connection continues after them.
    let mut client = Client::connect(&server);
    client
        .send("GET /trailers/a HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/x HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut rest = [0; 4096];
    let mut seen = String::new();
    while !seen.ends_with("\r\n\r\nx") {
        let size = client.stream().read(&mut rest).unwrap();
        assert!(size > 0, "{seen}");
        seen.push_str(std::str::from_utf8(&rest[..size]).unwrap());
    }
}

/// Answers requests at the end of the batch of events that they came with, as a service does that
/// sends queries in one piece.
#[derive(Default)]
struct AtBatchEnd(Vec<Ticket>);

impl Service for AtBatchEnd {
    fn call(&mut self, _: &Request<'_>, reply: Reply<'_>) {
        self.0.push(reply.defer());
    }

    fn batch_end(&mut self, io: &mut Io) {
        for ticket in self.0.drain(..) {
            let reply = io.reply(ticket).expect("its client is there");
            reply.send("text/plain", b"answered");
        }
    }
}

#[test]
fn issue_14_requests_of_the_last_round_of_a_batch_are_answered_without_another_event() {
    let options = Options {
        deferred_count_max: 1,
        ..single()
    };
    let listen = Listen::tcp(([127, 0, 0, 1], 0).into());
    let server = Server::start(options, vec![listen], |_| AtBatchEnd::default()).unwrap();
    let mut client = Client::connect(&server);
    // Each round answers one of them and begins the next. A batch has fewer rounds.
    let count = 100;
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(count));
    for _ in 0..count {
        assert_eq!(client.receive().text(), "answered");
    }
}
