//! Groups: what a run leaves pending is read by the next one, or by another consumer.

use std::collections::HashMap;

use lookaside_stream::Identity;
use lookaside_testing::{RedisServer, wait_until};
use redis::cmd;

use super::{add_numbers, connect, entries, payloads, pending, read_and_die, start, unique};

/// How often each payload is in a stream.
fn counts(server: &RedisServer, stream: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for payload in payloads(server, stream) {
        *counts.entry(payload).or_default() += 1;
    }
    counts
}

#[test]
fn the_next_run_continues_where_the_last_one_ended() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let address = server.address();
    for round in 0..3 {
        add_numbers(server, &input, round * 500, 500);
        let running = start(
            &format!("redis://{address}/{input}?group=g&consumer=c"),
            &format!("redis://{address}/{output}"),
            None,
            Identity,
        );
        running.wait_for_events(500);
        assert_eq!(running.stop().events_out, 500);
        assert_eq!(pending(server, &input, "g"), []);
    }
    let counts = counts(server, &output);
    assert_eq!(counts.len(), 1500);
    assert!(counts.values().all(|count| *count == 1));
}

#[test]
fn a_new_group_begins_where_it_should() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let address = server.address();
    add_numbers(server, &input, 0, 10);
    let running = start(
        &format!("redis://{address}/{input}?group=g&consumer=c&start=latest"),
        &format!("redis://{address}/{output}"),
        None,
        Identity,
    );
    add_numbers(server, &input, 10, 1);
    running.wait_for_events(1);
    assert_eq!(running.stop().events_out, 1);
    assert_eq!(payloads(server, &output), ["{\"n\":10}"]);
}

#[test]
fn a_new_group_begins_at_a_time() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let mut connection = connect(server);
    for n in 1..10 {
        let mut command = cmd("XADD");
        let command = command.arg(&input).arg(format!("{}-0", n * 1000));
        let command = command.arg("payload").arg(format!("{{\"n\":{n}}}"));
        command.exec(&mut connection).unwrap();
    }
    let address = server.address();
    let start_at = "1970-01-01T00:00:08Z";
    let running = start(
        &format!("redis://{address}/{input}?group=g&consumer=c&start={start_at}"),
        &format!("redis://{address}/{output}"),
        None,
        Identity,
    );
    running.wait_for_events(2);
    assert_eq!(running.stop().events_out, 2);
    assert_eq!(payloads(server, &output), ["{\"n\":8}", "{\"n\":9}"]);
}

#[test]
fn a_consumer_reads_what_its_last_run_left_pending() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let address = server.address();
    add_numbers(server, &input, 0, 5000);
    read_and_die(server, &input, "g", "c", 3000);
    // An entry that is no longer there is not waited for.
    let gone = entries(server, &input)[1].id.clone();
    cmd("XDEL")
        .arg(&input)
        .arg(gone)
        .exec(&mut connect(server))
        .unwrap();
    let running = start(
        &format!("redis://{address}/{input}?group=g&consumer=c"),
        &format!("redis://{address}/{output}"),
        None,
        Identity,
    );
    running.wait_for_events(4999);
    wait_until("all are acknowledged", || {
        pending(server, &input, "g").is_empty()
    });
    assert_eq!(running.stop().events_out, 4999);
    assert_eq!(payloads(server, &output), payloads(server, &input));
}

#[test]
fn consumers_share_the_entries_and_claim_those_of_a_dead_one() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let address = server.address();
    add_numbers(server, &input, 0, 300);
    read_and_die(server, &input, "g", "dead", 300);
    let members = ["a", "b"].map(|consumer| {
        start(
            &format!(
                "redis://{address}/{input}?group=g&consumer={consumer}&claim_idle_ms=1000\
                 &pending_max=200"
            ),
            &format!("redis://{address}/{output}"),
            None,
            Identity,
        )
    });
    let mut sent = 300;
    wait_until("both have read", || {
        add_numbers(server, &input, sent, 100);
        sent += 100;
        let mut members = members.iter();
        members.all(|member| member.progress.figures().events_out > 0)
    });
    wait_until("everything is written", || {
        let members = members.iter();
        let written: u64 = members
            .map(|member| member.progress.figures().events_out)
            .sum();
        written >= sent as u64
    });
    wait_until("all are acknowledged", || {
        pending(server, &input, "g").is_empty()
    });
    let written = members.map(|member| member.stop().events_out);
    assert!(written.iter().all(|count| *count > 0), "{written:?}");
    let counts = counts(server, &output);
    assert_eq!(counts.len(), sent, "no event is lost");
    assert!(
        counts.values().all(|count| *count == 1),
        "no event is written twice"
    );
}

#[test]
fn a_group_that_is_removed_is_created_again() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    let address = server.address();
    add_numbers(server, &input, 0, 10);
    let running = start(
        &format!("redis://{address}/{input}?group=g&consumer=c&start=latest"),
        &format!("redis://{address}/{output}"),
        None,
        Identity,
    );
    add_numbers(server, &input, 10, 10);
    running.wait_for_events(10);
    cmd("DEL").arg(&input).exec(&mut connect(server)).unwrap();
    add_numbers(server, &input, 20, 10);
    running.wait_for_events(20);
    running.stop();
    let expected: Vec<_> = (10..30).map(|n| format!("{{\"n\":{n}}}")).collect();
    assert_eq!(payloads(server, &output), expected);
}
