//! `delivery=exactly-once`: results and positions in one transaction.

use std::thread;
use std::time::Duration;

use lookaside_stream::Identity;
use lookaside_testing::{KafkaBroker, wait_until};

use super::messages::Grows;
use super::{Running, consume, count_committed, create_topic, produce, start, unique};

fn send(broker: &KafkaBroker, topic: &str, first: usize, count: usize) {
    let messages: Vec<_> = (first..first + count)
        .map(|n| (format!("k{}", n % 50), format!("{{\"n\":{n}}}")))
        .collect();
    let messages = messages.iter();
    produce(
        broker,
        topic,
        messages.map(|(key, payload)| (&**key, Some(&**payload))),
    );
}

fn member(broker: &KafkaBroker, input: &str, output: &str, group: &str) -> Running {
    let address = broker.address();
    start(
        &format!("kafka://{address}/{input}?group={group}&session.timeout.ms=6000"),
        &format!("kafka://{address}/{output}?delivery=exactly-once"),
        None,
        Identity,
    )
}

/// Waits until as many results are committed, and checks that none is twice.
fn check(broker: &KafkaBroker, topic: &str, count: usize) {
    let mut counts = count_committed(broker, topic);
    wait_until("all results are committed", || {
        counts = count_committed(broker, topic);
        counts.len() >= count
    });
    assert_eq!(counts.len(), count);
    let twice = counts.iter().filter(|(_, count)| **count > 1).count();
    assert_eq!(twice, 0, "no result is there twice");
}

#[test]
fn rebalances_repeat_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 6, &[]), create_topic(broker, 2, &[]));
    let group = unique("group");
    let mut members: Vec<Running> = Vec::new();
    for step in 0..6 {
        // The next change comes while events are under way.
        let written = |members: &[Running]| -> u64 {
            let figures = members.iter().map(|member| member.progress.figures());
            figures.map(|figures| figures.events_out).sum()
        };
        if step == 3 {
            members.remove(0).stop();
        }
        let before = written(&members);
        send(broker, &input, step * 2000, 2000);
        if step < 3 {
            members.push(member(broker, &input, &output, &group));
        }
        wait_until("some events are written", || written(&members) > before);
    }
    check(broker, &output, 12_000);
    members.into_iter().for_each(|member| _ = member.stop());
    check(broker, &output, 12_000);
}

#[test]
fn a_killed_broker_repeats_nothing() {
    let Some(mut broker) = KafkaBroker::start(&[]) else {
        return;
    };
    let (input, output) = (create_topic(&broker, 2, &[]), create_topic(&broker, 2, &[]));
    let running = member(&broker, &input, &output, "g");
    for round in 0..3 {
        send(&broker, &input, round * 2000, 2000);
        running.wait_for_events(round as u64 * 2000 + 300);
        broker.kill();
        broker.restart();
    }
    check(&broker, &output, 6000);
    running.stop();
    check(&broker, &output, 6000);
}

#[test]
fn a_refused_result_aborts_once_and_becomes_a_dead_letter() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let input = create_topic(broker, 1, &[]);
    let output = create_topic(broker, 1, &[("max.message.bytes", "2000")]);
    let dead = create_topic(broker, 1, &[]);
    let messages = [
        ("1", Some("{\"n\":1}")),
        ("2", Some("{\"large\":1}")),
        ("3", Some("{\"n\":3}")),
        ("4", Some("{")),
        ("5", Some("{\"n\":5}")),
    ];
    produce(broker, &input, messages);
    let address = broker.address();
    let group = unique("group");
    let running = start(
        &format!("kafka://{address}/{input}?group={group}"),
        &format!("kafka://{address}/{output}?delivery=exactly-once&batch.num.messages=1"),
        Some(&format!("kafka://{address}/{dead}")),
        Grows,
    );
    check(broker, &output, 3);
    running.stop();
    check(broker, &output, 3);
    let mut letters: Vec<_> = consume(broker, &dead)
        .into_iter()
        .map(|letter| letter.key.unwrap())
        .collect();
    letters.sort();
    letters.dedup();
    assert_eq!(letters, ["2", "4"]);
}

#[test]
fn no_result_is_committed_before_the_dead_letters_of_messages_before_it_are_delivered() {
    let (Some(broker), Some(mut other)) = (KafkaBroker::shared(), KafkaBroker::start(&[])) else {
        return;
    };
    let (input, output) = (create_topic(broker, 1, &[]), create_topic(broker, 1, &[]));
    let dead = create_topic(&other, 1, &[]);
    let (address, group) = (broker.address(), unique("group"));
    let running = start(
        &format!("kafka://{address}/{input}?group={group}&commit_interval_ms=20"),
        &format!("kafka://{address}/{output}?delivery=exactly-once"),
        Some(&format!("kafka://{}/{dead}", other.address())),
        Identity,
    );
    send(broker, &input, 0, 10);
    check(broker, &output, 10);
    other.stop();
    produce(broker, &input, [("bad", Some("{"))]);
    wait_until("it is read", || running.progress.figures().rejects == 1);
    // Another block, which has no dead letter of its own.
    send(broker, &input, 10, 10);
    wait_until("they are read", || {
        running.progress.figures().events_out == 20
    });
    // sleep: several intervals between commits
    thread::sleep(Duration::from_millis(500));
    assert_eq!(count_committed(broker, &output).len(), 10);
    other.resume();
    check(broker, &output, 20);
    running.stop();
    assert_eq!(consume(&other, &dead).len(), 1);
}
