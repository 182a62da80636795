//! Replies that come later, and in another order.

use crate::client::Client;
use crate::service::{single, start};

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
            // A tag says whose request it is, so that a reply to another one would be seen.
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
        // Whoever wakes a tag has to come behind its request.
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
fn a_ticket_names_nobody_once_its_client_has_gone() {
    let server = start(single());
    for round in 0..20 {
        let mut client = Client::connect(&server);
        client.send(
            "GET /park/gone HTTP/1.1\r\nHost: h\r\n\r\nGET /echo/x HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        // The server has seen it when the request behind it is counted.
        while server.counters().requests < 2 + round * 5 {
            std::thread::yield_now();
        }
        drop(client);
        // Those that come after it get its place, and must not get its reply.
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
    // The first one's body is begun and broken off by the one behind it.
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
