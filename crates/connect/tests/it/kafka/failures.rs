//! Brokers that end, stop and return.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lookaside_stream::{End, Identity};
use lookaside_testing::{KafkaBroker, wait_until};

use super::{Running, committed, consume, create_topic, produce, start, unique};

fn send(broker: &KafkaBroker, topic: &str, first: usize, count: usize) {
    let payloads: Vec<_> = (first..first + count)
        .map(|n| format!("{{\"n\":{n}}}"))
        .collect();
    produce(
        broker,
        topic,
        payloads.iter().map(|payload| ("key", Some(&**payload))),
    );
}

fn payloads(broker: &KafkaBroker, topic: &str) -> Vec<String> {
    let found = consume(broker, topic).into_iter();
    found.map(|found| found.payload.unwrap()).collect()
}

#[test]
fn a_broker_that_is_killed_costs_no_event() {
    let Some(mut broker) = KafkaBroker::start(&[]) else {
        return;
    };
    let (input, output) = (create_topic(&broker, 2, &[]), create_topic(&broker, 2, &[]));
    let address = broker.address();
    let running = start(
        &format!("kafka://{address}/{input}?group=g&session.timeout.ms=6000"),
        &format!("kafka://{address}/{output}"),
        None,
        Identity,
    );
    for round in 0..2 {
        send(&broker, &input, round * 2000, 2000);
        running.wait_for_events(round as u64 * 2000 + 500);
        broker.kill();
        broker.restart();
    }
    running.wait_for_events(4000);
    let summary = running.stop();
    assert_eq!(summary.end, End::Stopped);
    let found: HashSet<_> = payloads(&broker, &output).into_iter().collect();
    assert_eq!(found.len(), 4000);
}

/// Waits until a run writes nothing any more, since its sink is blocked.
fn wait_until_blocked(running: &Running) {
    let (mut last, mut since) = (0, Instant::now());
    wait_until("the sink is blocked", || {
        let count = running.progress.figures().events_out;
        if count != last {
            (last, since) = (count, Instant::now());
        }
        count > 0 && since.elapsed() > Duration::from_secs(2)
    });
}

#[test]
fn a_sink_that_is_away_longer_than_each_time_limit_causes_no_rebalance() {
    let (Some(broker), Some(mut away)) = (KafkaBroker::shared(), KafkaBroker::start(&[])) else {
        return;
    };
    let (input, output) = (create_topic(broker, 1, &[]), create_topic(&away, 1, &[]));
    let count = 60_000;
    let group = unique("group");
    let running = start(
        &format!(
            "kafka://{}/{input}?group={group}&session.timeout.ms=6000&max.poll.interval.ms=6000",
            broker.address()
        ),
        // A queue that is full long before the input ends.
        &format!(
            "kafka://{}/{output}?queue.buffering.max.messages=500",
            away.address()
        ),
        None,
        Identity,
    );
    send(broker, &input, 0, 1000);
    wait_until("they are delivered", || {
        running.progress.figures().events_out == 1000 && running.lag() == 0
    });
    away.stop();
    send(broker, &input, 1000, count - 1000);
    wait_until_blocked(&running);
    let blocked = Instant::now();
    wait_until("longer than max.poll.interval.ms", || {
        blocked.elapsed() > Duration::from_secs(8)
    });
    let before = running.progress.figures().events_out;
    assert!(before < count as u64 / 2, "{before} events are in buffers");
    // Partitions are paused, so the end is not known from what is read.
    assert_eq!(running.lag(), count as u64 - 1000);
    away.resume();
    running.wait_for_events(count as u64);
    wait_until("all are delivered", || running.lag() == 0);
    running.stop();
    // Had the member been excluded, its successor would have read again.
    assert_eq!(payloads(&away, &output).len(), count);
    assert_eq!(committed(broker, &group, &input, 1), [Some(count as i64)]);
}

#[test]
fn a_run_that_gives_up_loses_nothing() {
    let (Some(broker), Some(mut away)) = (KafkaBroker::shared(), KafkaBroker::start(&[])) else {
        return;
    };
    let (input, output) = (create_topic(broker, 1, &[]), create_topic(&away, 1, &[]));
    let (source, sink) = (
        format!(
            "kafka://{}/{input}?group={}",
            broker.address(),
            unique("group")
        ),
        format!("kafka://{}/{output}", away.address()),
    );
    let running = start(&source, &sink, None, Identity);
    send(broker, &input, 0, 1000);
    running.wait_for_events(1000);
    away.kill();
    send(broker, &input, 1000, 1000);
    running.wait_for_events(2000);
    running.stop.raise();
    running.give_up.raise();
    let summary = running.thread.join().unwrap().unwrap();
    assert_eq!(summary.end, End::Stopped);
    away.restart();
    let running = start(&source, &sink, None, Identity);
    wait_until("the other events are written", || {
        running.progress.figures().events_out >= 1000
    });
    running.stop();
    let found: HashSet<_> = payloads(&away, &output).into_iter().collect();
    assert_eq!(found.len(), 2000);
}
