//! Servers that end, stop and return.

use std::time::{Duration, Instant};

use lookaside_stream::{End, Identity, Messages, Partition, Receipt};
use lookaside_testing::{NatsServer, wait_until};

use super::{Client, Running, start};

#[test]
fn a_server_that_is_killed_costs_no_event() {
    let Some(mut server) = NatsServer::start(&[]) else {
        return;
    };
    let (input, output) = {
        let client = Client::new(&server);
        (client.create_stream(), client.create_stream())
    };
    let address = server.address();
    let running = start(
        &format!("nats://{address}/{input}?durable=d&ack_wait_ms=1000"),
        &format!("nats://{address}/{output}.x"),
        None,
        Identity,
    );
    for round in 0..3 {
        Client::new(&server).publish_numbers(&format!("{input}.a"), round * 5000, 5000);
        running.wait_for_events(round as u64 * 5000 + 500);
        server.kill();
        server.restart();
    }
    let client = Client::new(&server);
    wait_until("everything is written", || {
        client.counts(&output).len() == 15_000
    });
    wait_until("all are acknowledged", || {
        client.pending(&input, "d").0 == 0
    });
    assert_eq!(running.stop().end, End::Stopped);
}

/// A run with a sink that is stopped while messages are under way.
struct Blocked {
    running: Running,
    away: NatsServer,
    input: String,
    output: String,
}

fn start_and_block(server: &NatsServer, client: &Client, ack_wait_ms: u64) -> Option<Blocked> {
    let mut away = NatsServer::start(&[])?;
    let (input, output) = (client.create_stream(), Client::new(&away).create_stream());
    let running = start(
        &format!(
            "nats://{}/{input}?durable=d&ack_wait_ms={ack_wait_ms}&pending_max=600",
            server.address()
        ),
        &format!("nats://{}/{output}.x", away.address()),
        None,
        Identity,
    );
    let subject = format!("{input}.a");
    client.publish_numbers(&subject, 0, 100);
    running.wait_for_events(100);
    wait_until("they are acknowledged", || {
        client.pending(&input, "d").0 == 0
    });
    away.stop();
    client.publish_numbers(&subject, 100, 1000);
    wait_until("messages are under way", || {
        client.pending(&input, "d").0 == 600
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
fn a_sink_that_is_away_longer_than_ack_wait_causes_no_redelivery() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let Some(mut blocked) = start_and_block(server, &client, 1000) else {
        return;
    };
    // Also longer than an acknowledgement may take, so that messages are published again.
    let begun = Instant::now();
    wait_until("several times the limit", || {
        assert_eq!(client.pending(&blocked.input, "d"), (600, 0));
        begun.elapsed() > Duration::from_secs(7)
    });
    blocked.away.resume();
    wait_until("all are acknowledged", || {
        let info = client.consumer_info(&blocked.input, "d");
        info.ack_floor.stream_sequence == 1100
    });
    blocked.running.stop();
    let found = Client::new(&blocked.away).payloads(&blocked.output);
    let expected: Vec<_> = (0..1100).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(found, expected, "in order, and each once");
}

#[test]
fn a_run_that_gives_up_loses_nothing() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    // Far longer than the test takes: what is not delivered is returned at once.
    let Some(mut blocked) = start_and_block(server, &client, 600_000) else {
        return;
    };
    let running = blocked.running;
    running.stop.raise();
    running.give_up.raise();
    let begun = Instant::now();
    let summary = running.thread.join().unwrap().unwrap();
    assert_eq!(summary.end, End::Stopped);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    blocked.away.restart();
    let running = start(
        &format!("nats://{}/{}?durable=d", server.address(), blocked.input),
        &format!("nats://{}/{}.x", blocked.away.address(), blocked.output),
        None,
        Identity,
    );
    wait_until("all are acknowledged", || {
        let info = client.consumer_info(&blocked.input, "d");
        info.ack_floor.stream_sequence == 1100
    });
    running.stop();
    assert_eq!(
        Client::new(&blocked.away).counts(&blocked.output).len(),
        1100
    );
}

#[test]
fn a_sink_that_is_dropped_while_its_server_is_away_ends() {
    let Some(mut server) = NatsServer::start(&[]) else {
        return;
    };
    let output = Client::new(&server).create_stream();
    let url = format!("nats://{}/{output}.x", server.address());
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
