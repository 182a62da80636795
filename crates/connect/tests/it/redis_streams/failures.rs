//! Servers that end, stop and return.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lookaside_stream::{End, Identity, Messages, Partition, Receipt};
use lookaside_testing::{RedisServer, wait_until};

use super::{Running, add_numbers, payloads, pending, start, unique};

fn distinct(server: &RedisServer, stream: &str) -> usize {
    payloads(server, stream)
        .into_iter()
        .collect::<HashSet<_>>()
        .len()
}

#[test]
fn a_server_that_is_killed_costs_no_event() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    let address = server.address();
    let running = start(
        &format!("redis://{address}/in?group=g&consumer=c"),
        &format!("redis://{address}/out"),
        None,
        Identity,
    );
    for round in 0..3 {
        add_numbers(&server, "in", round * 5000, 5000);
        running.wait_for_events(round as u64 * 5000 + 500);
        server.kill();
        server.restart();
    }
    wait_until("everything is written", || {
        distinct(&server, "out") == 15_000
    });
    wait_until("all are acknowledged", || {
        pending(&server, "in", "g").is_empty()
    });
    assert_eq!(running.stop().end, End::Stopped);
}

/// A run with a sink that is stopped while entries are under way.
struct Blocked {
    running: Running,
    away: RedisServer,
    input: String,
    output: String,
}

const LIMITS: &str = "claim_idle_ms=1000&pending_max=600";

fn start_and_block(server: &RedisServer) -> Option<Blocked> {
    let mut away = RedisServer::start(&[])?;
    let (input, output) = (unique("in"), unique("out"));
    let running = start(
        &format!(
            "redis://{}/{input}?group=g&consumer=a&{LIMITS}",
            server.address()
        ),
        &format!("redis://{}/{output}", away.address()),
        None,
        Identity,
    );
    add_numbers(server, &input, 0, 100);
    running.wait_for_events(100);
    wait_until("they are acknowledged", || {
        pending(server, &input, "g").is_empty()
    });
    away.stop();
    add_numbers(server, &input, 100, 1000);
    wait_until("entries are under way", || {
        pending(server, &input, "g").len() == 600
    });
    assert_eq!(running.lag(), 1000, "with what was not read");
    Some(Blocked {
        running,
        away,
        input,
        output,
    })
}

#[test]
fn a_sink_that_is_away_longer_than_the_idle_limit_causes_no_redelivery() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let Some(mut blocked) = start_and_block(server) else {
        return;
    };
    // Another consumer, which would claim what is idle.
    let (input, other) = (blocked.input.clone(), unique("out"));
    let claimer = start(
        &format!(
            "redis://{}/{input}?group=g&consumer=b&{LIMITS}",
            server.address()
        ),
        &format!("redis://{}/{other}", server.address()),
        None,
        Identity,
    );
    claimer.wait_for_events(400);
    let begun = Instant::now();
    wait_until("several times the limit", || {
        begun.elapsed() > Duration::from_secs(4)
    });
    let left = pending(server, &input, "g");
    assert_eq!(left.len(), 600);
    let is_untouched = |(consumer, count): &(String, u64)| (&**consumer, *count) == ("a", 1);
    assert!(left.iter().all(is_untouched), "{left:?}");
    blocked.away.resume();
    blocked.running.wait_for_events(700);
    wait_until("all are acknowledged", || {
        pending(server, &input, "g").is_empty()
    });
    blocked.running.stop();
    assert_eq!(claimer.stop().events_out, 400);
    let mut found = payloads(&blocked.away, &blocked.output);
    found.extend(payloads(server, &other));
    assert_eq!(found.len(), 1100, "no event is written twice");
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), 1100);
}

#[test]
fn a_run_that_gives_up_loses_nothing() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let Some(mut blocked) = start_and_block(server) else {
        return;
    };
    let running = blocked.running;
    running.stop.raise();
    running.give_up.raise();
    let begun = Instant::now();
    let summary = running.thread.join().unwrap().unwrap();
    assert_eq!(summary.end, End::Stopped);
    // Less than the time that a reply may take.
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(pending(server, &blocked.input, "g").len(), 600);
    blocked.away.restart();
    let running = start(
        &format!(
            "redis://{}/{}?group=g&consumer=a",
            server.address(),
            blocked.input
        ),
        &format!("redis://{}/{}", blocked.away.address(), blocked.output),
        None,
        Identity,
    );
    running.wait_for_events(1000);
    running.stop();
    assert_eq!(pending(server, &blocked.input, "g"), []);
    assert_eq!(distinct(&blocked.away, &blocked.output), 1100);
}

#[test]
fn a_sink_that_is_dropped_while_its_server_is_away_ends() {
    let Some(mut server) = RedisServer::start(&[]) else {
        return;
    };
    let url = format!("redis://{}/out", server.address());
    let opened = lookaside_connect::open_sink(&url.parse().unwrap()).unwrap();
    let mut sink = opened.sink;
    server.kill();
    let mut messages = Messages::new();
    messages.push(&Partition::new("in", 0), 0, Some(b"{}"), None);
    let receipt = Receipt::of(&messages);
    receipt.add(0, 1);
    sink.write(&messages, &receipt).unwrap();
    drop(sink);
    assert_eq!(receipt.partition(0).acknowledged(), None);
}

#[test]
fn a_server_without_memory_is_waited_for() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let Some(input) = RedisServer::shared() else {
        return;
    };
    let stream = unique("in");
    add_numbers(input, &stream, 0, 200);
    let mut connection = super::connect(&server);
    let mut limit = |size: &str| {
        let mut command = redis::cmd("CONFIG");
        let command = command.arg("SET").arg("maxmemory").arg(size);
        command.exec(&mut connection).unwrap();
    };
    limit("1kb");
    let running = start(
        &format!("redis://{}/{stream}?group=g&consumer=c", input.address()),
        &format!("redis://{}/out", server.address()),
        None,
        Identity,
    );
    wait_until("it is read", || pending(input, &stream, "g").len() == 200);
    limit("0");
    wait_until("it is written", || pending(input, &stream, "g").is_empty());
    running.stop();
    assert_eq!(payloads(&server, "out"), payloads(input, &stream));
}
