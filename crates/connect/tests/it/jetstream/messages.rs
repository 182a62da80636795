//! What becomes of messages: order, keys, headers, dead letters; and errors of URLs.

use async_nats::jetstream::consumer::{AckPolicy, pull};
use lookaside_connect::{check_sink, check_source};
use lookaside_stream::{Identity, Report, Transform};
use lookaside_testing::{NatsServer, wait_until};
use lookaside_value::Batch;

use super::{Client, durable, start, start_with, try_sink, try_source, unique};

#[test]
fn results_keep_their_order_keys_and_headers() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    client.publish_numbers(&format!("{input}.a"), 0, 3000);
    let address = server.address();
    let running = start_with(
        &["@meta/headers/trace", "@meta/headers/nats-subject"],
        &format!("nats://{address}/{input}?durable=d"),
        &format!("nats://{address}/{output}.x"),
        None,
        Identity,
    );
    running.wait_for_events(3000);
    let summary = running.stop();
    assert_eq!((summary.events_in, summary.events_out), (3000, 3000));
    let (read, written) = (client.messages(&input), client.messages(&output));
    assert_eq!(written.len(), 3000);
    for (read, written) in read.iter().zip(&written) {
        let mut expected = read.clone();
        let subject = expected.subject;
        expected.headers.insert("nats-subject".to_owned(), subject);
        expected.subject = format!("{output}.x");
        assert_eq!(*written, expected);
    }
    assert_eq!(client.pending(&input, "d"), (0, 0));
}

#[test]
fn a_filter_selects_and_a_field_is_the_key() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let (input, output) = (client.create_stream(), client.create_stream());
    client.publish(&format!("{input}.a.1"), "{\"user\":7}\n{\"user\":8}\n", &[]);
    client.publish(&format!("{input}.b.1"), "{\"user\":9}", &[]);
    client.publish(&format!("{input}.a.2"), "{\"other\":1}", &[("key", "k")]);
    let address = server.address();
    let running = start(
        &format!("nats://{address}/{input}?durable=d&subject={input}.a.*&framing=lines"),
        &format!("nats://{address}/{output}.x?key=user"),
        None,
        Identity,
    );
    running.wait_for_events(3);
    running.stop();
    let found = client.messages(&output).into_iter();
    let found: Vec<_> = found
        .map(|found| (found.payload, found.headers["key"].clone()))
        .collect();
    let expected = [
        ("{\"user\":7}", "7"),
        ("{\"user\":8}", "8"),
        ("{\"other\":1}", "k"),
    ];
    assert_eq!(
        found,
        expected.map(|(payload, key)| (payload.to_owned(), key.to_owned()))
    );
}

/// Makes the result of an event large, sends it elsewhere or rejects it, if it says so.
#[derive(Clone)]
struct Awkward;

impl Transform for Awkward {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let (names, records) = batch.split_mut();
        let (large, bad) = (names.intern("large"), names.intern("bad"));
        let (topic, meta) = (names.intern("topic"), names.intern("@meta/topic"));
        for record in records {
            if let Some(value) = record.value_mut(large) {
                *value = "x".repeat(5000).into();
            }
            if record.value(bad).is_some() {
                report.reject(record.line, "a bad one");
            }
            // The one of the input, which would be the subject.
            record.take(meta);
            if let Some(value) = record.take(topic) {
                record.push(meta, value);
            }
        }
    }
}

#[test]
fn poison_messages_become_dead_letters_and_block_nothing() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let [input, dead] = [(); 2].map(|()| client.create_stream());
    let output = client.create_stream_of(2000);
    for (key, payload) in [
        ("1", "{\"n\":1}"),
        ("2", "{"),
        ("3", "{\"large\":1}"),
        ("4", "{\"bad\":1}"),
        ("5", "{\"topic\":\"no.such.subject\"}"),
        ("6", "{\"topic\":\"no subject\"}"),
        ("7", "{\"n\":7}"),
    ] {
        client.publish(
            &format!("{input}.a"),
            payload,
            &[("key", key), ("Nats-Msg-Id", key)],
        );
    }
    let address = server.address();
    let running = start_with(
        &["@meta/topic"],
        &format!("nats://{address}/{input}?durable=d"),
        &format!("nats://{address}/{output}.x"),
        Some(&format!("nats://{address}/{dead}.x")),
        Awkward,
    );
    wait_until("all are acknowledged", || {
        client.pending(&input, "d") == (0, 0)
    });
    wait_until("the letters are written", || {
        client.messages(&dead).len() == 5
    });
    running.stop();
    assert_eq!(
        client.consumer_info(&input, "d").ack_floor.stream_sequence,
        7
    );
    let keys = |stream: &str| {
        let found = client.messages(stream).into_iter();
        let mut keys: Vec<_> = found.map(|found| found.headers["key"].clone()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&output), ["1", "7"]);
    assert_eq!(keys(&dead), ["2", "3", "4", "5", "6"]);
    for letter in client.messages(&dead) {
        let expected = match &*letter.headers["key"] {
            "2" => "does not end",
            "3" => "max_msg_size",
            "4" => "a bad one",
            "5" => "no stream takes the subject `no.such.subject`",
            _ => "not a subject",
        };
        let reason = &letter.headers["lookaside-reason"];
        assert!(reason.contains(expected), "{letter:?}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let Some(server) = NatsServer::shared() else {
        return;
    };
    let client = Client::new(server);
    let stream = client.create_stream();
    client.publish_numbers(&format!("{stream}.a"), 0, 2);
    let all = pull::Config {
        ack_policy: AckPolicy::All,
        ..durable("all")
    };
    client.create_consumer(&stream, all);
    client.create_consumer(&stream, durable("plain"));
    let address = server.address();
    let check = |url: &str| check_source(&url.parse().unwrap());
    let found = check(&format!("nats://{address}/{stream}?durable=plain")).unwrap();
    assert!(
        found.contains("with 2 messages; consumer plain has 2 to read"),
        "{found}"
    );
    let found = check(&format!("nats://{address}/{stream}?durable=d")).unwrap();
    assert!(found.contains("consumer d will be created"), "{found}");
    let found = check_sink(&format!("nats://{address}/{stream}.x").parse().unwrap()).unwrap();
    assert!(
        found.contains(&format!("stream {stream} takes the subject")),
        "{found}"
    );
    for (url, expected) in [
        (
            format!("nats://{address}/none?durable=d"),
            "`none` does not exist",
        ),
        (
            format!("nats://127.0.0.1:1/{stream}?durable=d"),
            "no server answers",
        ),
        (
            format!("nats://{address}/{stream}?durable=all"),
            "of single messages",
        ),
        (
            format!("nats://{address}/{stream}?durable=plain&subject=a"),
            "has the filter",
        ),
    ] {
        let error = try_source(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(error.hint().is_some(), "{url}");
    }
    for (url, expected) in [
        (
            format!("nats://{address}/no.such.subject"),
            "no stream takes the subject",
        ),
        (
            format!("nats://127.0.0.1:1/{stream}.x"),
            "no server answers",
        ),
    ] {
        let error = try_sink(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        let error = check_sink(&url.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

#[test]
fn users_and_tokens_are_checked() {
    for (arguments, right, wrong) in [
        (
            &["--user", "u", "--pass", "p@ss"][..],
            "u:p%40ss",
            "u:secret",
        ),
        (&["--auth", "t0ken"], "t0ken", "secret"),
    ] {
        let Some(server) = NatsServer::start(arguments) else {
            return;
        };
        let url = |user: &str| format!("nats://{user}@{}/x", server.address());
        let error = check_sink(&url(right).parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("no stream takes"), "{error}");
        let error = check_sink(&url(wrong).parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("refuses the user"), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let file = std::env::temp_dir().join(unique("creds"));
    std::fs::write(&file, "no credentials").unwrap();
    let url = format!("nats://127.0.0.1:1/x?creds={}", file.display());
    let error = check_sink(&url.parse().unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("no credentials of NATS"),
        "{error}"
    );
    std::fs::remove_file(&file).unwrap();
}
