//! Consumer groups: positions that are stored, and rebalances while runs go on.

use std::collections::HashMap;

use lookaside_stream::Identity;
use lookaside_testing::{KafkaBroker, wait_until};

use super::{Running, committed, consume, create_topic, produce, start, unique};

fn numbered(first: usize, count: usize) -> Vec<(String, String)> {
    (first..first + count)
        .map(|n| (format!("k{}", n % 50), format!("{{\"n\":{n}}}")))
        .collect()
}

fn send(broker: &KafkaBroker, topic: &str, messages: &[(String, String)]) {
    let messages = messages.iter();
    produce(
        broker,
        topic,
        messages.map(|(key, payload)| (&**key, Some(&**payload))),
    );
}

/// How often each payload is in a topic.
fn counts(broker: &KafkaBroker, topic: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for found in consume(broker, topic) {
        *counts.entry(found.payload.unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn the_next_run_continues_where_the_last_one_ended() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 3, &[]), create_topic(broker, 1, &[]));
    let group = unique("group");
    let (source, sink) = (
        format!("kafka://{}/{input}?group={group}", broker.address()),
        format!("kafka://{}/{output}", broker.address()),
    );
    for round in 0..3 {
        send(broker, &input, &numbered(round * 500, 500));
        let running = start(&source, &sink, None, Identity);
        running.wait_for_events(500);
        assert_eq!(running.stop().events_out, 500);
        let stored = committed(broker, &group, &input, 3);
        let sum: i64 = stored.into_iter().flatten().sum();
        assert_eq!(sum, (round as i64 + 1) * 500);
    }
    let counts = counts(broker, &output);
    assert_eq!(counts.len(), 1500);
    assert!(counts.values().all(|count| *count == 1));
}

#[test]
fn members_that_join_and_leave_lose_nothing_and_repeat_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 6, &[]), create_topic(broker, 1, &[]));
    let group = unique("group");
    let (source, sink) = (
        format!(
            "kafka://{}/{input}?group={group}&session.timeout.ms=6000&commit_interval_ms=100",
            broker.address()
        ),
        format!("kafka://{}/{output}", broker.address()),
    );
    let mut members = vec![start(&source, &sink, None, Identity)];
    let mut sent = 0;
    let mut written = 0;
    for step in 0..4 {
        send(broker, &input, &numbered(sent, 3000));
        sent += 3000;
        match step {
            0 | 1 => {
                let member = start(&source, &sink, None, Identity);
                // It takes part once it has a partition.
                members.push(member);
                send(broker, &input, &numbered(sent, 1000));
                sent += 1000;
                let newest = members.last().unwrap();
                let mut more = sent;
                wait_until("the new member gets events", || {
                    let count = newest.progress.figures().events_out;
                    if count == 0 {
                        send(broker, &input, &numbered(more, 50));
                        more += 50;
                    }
                    count > 0
                });
                sent = more;
            }
            _ => written += members.remove(0).stop().events_out,
        }
    }
    wait_until("everything is written", || {
        let running = members
            .iter()
            .map(|member| member.progress.figures().events_out);
        written + running.sum::<u64>() >= sent as u64
    });
    written += members
        .into_iter()
        .map(|member| member.stop().events_out)
        .sum::<u64>();
    let counts = counts(broker, &output);
    assert_eq!(counts.len(), sent, "no event is lost");
    assert_eq!(written, sent as u64, "no event is written twice");
    let stored = committed(broker, &group, &input, 6);
    assert_eq!(stored.into_iter().flatten().sum::<i64>(), sent as i64);
}

/// A run that copies a topic to a new one, with a new group that begins at `start_at`; also the new
/// topic.
fn copy_from(broker: &KafkaBroker, topic: &str, start_at: &str) -> (Running, String) {
    let output = create_topic(broker, 1, &[]);
    let (address, group) = (broker.address(), unique("group"));
    let source = format!("kafka://{address}/{topic}?group={group}&start={start_at}");
    let sink = format!("kafka://{address}/{output}");
    (start(&source, &sink, None, Identity), output)
}

#[test]
fn a_new_group_begins_at_a_time_or_an_offset() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let input = create_topic(broker, 1, &[]);
    // Otherwise, the broker deletes messages of these times.
    let timed = create_topic(broker, 1, &[("retention.ms", "-1")]);
    let events: Vec<_> = (0..10)
        .map(|n| {
            (
                "k".to_owned(),
                format!("{{\"n\":{n},\"t\":{}}}", 1000 * (n + 1)),
            )
        })
        .collect();
    send(broker, &input, &events);
    let address = broker.address();
    let running = start(
        &format!("kafka://{address}/{input}?group={}", unique("group")),
        &format!("kafka://{address}/{timed}?timestamp=t&header.n=n&header.from='here'&key='all'"),
        None,
        Identity,
    );
    running.wait_for_events(10);
    running.stop();
    let found = consume(broker, &timed);
    assert_eq!(found[7].key.as_deref(), Some("all"));
    assert_eq!(
        (&*found[7].headers["n"], &*found[7].headers["from"]),
        ("7", "here")
    );
    let last = |count: usize| -> Vec<String> {
        let last = events.iter().skip(events.len() - count);
        last.map(|(_, payload)| payload.clone()).collect()
    };
    for (start_at, count) in [
        ("1970-01-01T00:00:07.500Z", 3),
        ("1970-01-01T00:00:08Z", 3),
        ("8", 2),
        ("0", 10),
    ] {
        let (running, output) = copy_from(broker, &timed, start_at);
        running.wait_for_events(count);
        assert_eq!(running.stop().events_out, count, "{start_at}");
        let found = consume(broker, &output).into_iter();
        let found: Vec<_> = found.map(|found| found.payload.unwrap()).collect();
        assert_eq!(found, last(count as usize), "{start_at}");
    }
    // Behind the end, what is written later is read.
    for start_at in ["100000", "2100-01-01T00:00:00Z"] {
        let (running, output) = copy_from(broker, &timed, start_at);
        wait_until("the group has its partition", || {
            running.lag() == 0 && {
                send(broker, &timed, &[("k".to_owned(), "{\"n\":10}".to_owned())]);
                running.progress.figures().events_out > 0
            }
        });
        running.stop();
        let first = consume(broker, &output).remove(0).payload.unwrap();
        assert_eq!(first, "{\"n\":10}");
    }
}

#[test]
fn a_group_with_positions_does_not_begin_at_the_start() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 1, &[]), create_topic(broker, 1, &[]));
    let address = broker.address();
    let source = format!(
        "kafka://{address}/{input}?group={}&start=3",
        unique("group")
    );
    for (first, count) in [(0, 7), (10, 10)] {
        send(broker, &input, &numbered(first, 10));
        let running = start(
            &source,
            &format!("kafka://{address}/{output}"),
            None,
            Identity,
        );
        running.wait_for_events(count);
        assert_eq!(running.stop().events_out, count);
    }
}
