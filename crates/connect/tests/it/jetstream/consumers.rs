//! Durable consumers: what a run leaves is read by the next one, or by another process.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt as _;
use lookaside_stream::Identity;
use lookaside_testing::{NatsServer, wait_until};

use super::{Client, durable, start};

#[test]
fn the_next_run_continues_where_the_last_one_ended() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    let address = server.address();
    for round in 0..3 {
        client.publish_numbers(&format!("{input}.a"), round * 500, 500);
        let running = start(
            &format!("nats://{address}/{input}?durable=d"),
            &format!("nats://{address}/{output}.x"),
            None,
            Identity,
        );
        running.wait_for_events(500);
        assert_eq!(running.stop().events_out, 500);
        assert_eq!(client.pending(&input, "d"), (0, 0));
    }
    let counts = client.counts(&output);
    assert_eq!(counts.len(), 1500);
    assert!(counts.values().all(|count| *count == 1));
}

#[test]
fn a_new_consumer_begins_where_it_should() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    client.publish_numbers(&format!("{input}.a"), 0, 10);
    let address = server.address();
    let running = start(
        &format!("nats://{address}/{input}?durable=d&start=latest"),
        &format!("nats://{address}/{output}.x"),
        None,
        Identity,
    );
    client.publish_numbers(&format!("{input}.a"), 10, 1);
    running.wait_for_events(1);
    assert_eq!(running.stop().events_out, 1);
    assert_eq!(client.payloads(&output), ["{\"n\":10}"]);
    // By the number in the stream.
    let running = start(
        &format!("nats://{address}/{input}?durable=e&start=10"),
        &format!("nats://{address}/{output}.y"),
        None,
        Identity,
    );
    running.wait_for_events(2);
    assert_eq!(running.stop().events_out, 2);
}

#[test]
fn processes_share_the_messages_and_get_those_of_a_dead_one() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    let subject = format!("{input}.a");
    client.publish_numbers(&subject, 0, 300);
    let config = pull::Config {
        ack_wait: Duration::from_secs(1),
        max_ack_pending: 500,
        ..durable("d")
    };
    let consumer = client.create_consumer(&input, config);
    let read = client.runtime.block_on(async {
        let messages = consumer.fetch().max_messages(300).messages().await.unwrap();
        messages.count().await
    });
    assert_eq!(read, 300);
    let address = server.address();
    let members = [(); 2].map(|()| {
        start(
            &format!("nats://{address}/{input}?durable=d&pending_max=200"),
            &format!("nats://{address}/{output}.x"),
            None,
            Identity,
        )
    });
    let mut sent = 300;
    wait_until("both have read", || {
        client.publish_numbers(&subject, sent, 100);
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
        client.pending(&input, "d").0 == 0
    });
    let written = members.map(|member| member.stop().events_out);
    assert!(written.iter().all(|count| *count > 0), "{written:?}");
    let counts = client.counts(&output);
    assert_eq!(counts.len(), sent, "no event is lost");
    assert!(
        counts.values().all(|count| *count == 1),
        "no event is written twice"
    );
}

#[test]
fn a_run_ends_when_its_consumer_is_removed() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    let address = server.address();
    let running = start(
        &format!("nats://{address}/{input}?durable=d"),
        &format!("nats://{address}/{output}.x"),
        None,
        Identity,
    );
    client.publish_numbers(&format!("{input}.a"), 0, 1);
    running.wait_for_events(1);
    let stream = client.stream(&input);
    let begun = Instant::now();
    client
        .runtime
        .block_on(stream.delete_consumer("d"))
        .unwrap();
    let error = running.thread.join().unwrap().unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &cause.to_string();
        source = cause.source();
    }
    assert!(text.contains("was removed"), "{text}");
    assert!(
        begun.elapsed() >= Duration::from_secs(5),
        "it may be on its way"
    );
}
