//! What becomes of messages: keys, headers, null payloads, dead letters; and errors of URLs.

use lookaside_connect::{check_sink, check_source};
use lookaside_stream::{Identity, Report, Transform};
use lookaside_testing::KafkaBroker;
use lookaside_value::Batch;

use super::{consume, create_topic, produce, start, try_sink, try_source, unique};

#[test]
fn results_keep_their_keys_and_order() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 3, &[]), create_topic(broker, 3, &[]));
    let messages: Vec<_> = (0..1000)
        .map(|n| (format!("key {}", n % 7), format!("{{\"n\":{n}}}")))
        .collect();
    let sent = messages
        .iter()
        .map(|(key, payload)| (&**key, Some(&**payload)));
    produce(broker, &input, sent);
    let address = broker.address();
    let running = start(
        &format!("kafka://{address}/{input}?group={}", unique("group")),
        &format!("kafka://{address}/{output}"),
        None,
        Identity,
    );
    running.wait_for_events(1000);
    let summary = running.stop();
    assert_eq!((summary.events_in, summary.events_out), (1000, 1000));
    // A key is in the same partition, and its messages are in the same order.
    let by_key = |topic: &str| {
        let mut found: Vec<_> = consume(broker, topic)
            .into_iter()
            .map(|found| (found.key, found.partition, found.payload))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    assert_eq!(by_key(&input), by_key(&output));
}

#[test]
fn null_payloads_are_forwarded_and_a_field_is_the_key() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let (input, output) = (create_topic(broker, 1, &[]), create_topic(broker, 1, &[]));
    let messages = [
        ("a", Some("{\"user\":7}")),
        ("b", None),
        ("c", Some("{}\n{\"user\":8}\n")),
    ];
    produce(broker, &input, messages);
    let address = broker.address();
    let group = unique("group");
    let running = start(
        &format!("kafka://{address}/{input}?group={group}&on_null=forward&framing=lines"),
        &format!("kafka://{address}/{output}?key=user"),
        None,
        Identity,
    );
    running.wait_for_events(4);
    running.stop();
    let found: Vec<_> = consume(broker, &output)
        .into_iter()
        .map(|found| (found.key.unwrap(), found.payload))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("7".to_owned(), some("{\"user\":7}")),
        ("b".to_owned(), None),
        ("c".to_owned(), some("{}")),
        ("8".to_owned(), some("{\"user\":8}")),
    ];
    assert_eq!(found, expected);
}

/// Makes the result of an event large, if it says so.
#[derive(Clone)]
pub(super) struct Grows;

impl Transform for Grows {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let (names, records) = batch.split_mut();
        let (large, bad) = (names.intern("large"), names.intern("bad"));
        for record in records {
            if let Some(value) = record.value_mut(large) {
                *value = "x".repeat(5000).into();
            }
            if record.value(bad).is_some() {
                report.reject(record.line, "a bad one");
            }
        }
    }
}

#[test]
fn a_poison_message_becomes_a_dead_letter_and_blocks_nothing() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let input = create_topic(broker, 1, &[]);
    // The broker refuses what the client would send.
    let output = create_topic(broker, 1, &[("max.message.bytes", "2000")]);
    let dead = create_topic(broker, 1, &[]);
    let messages = [
        ("1", Some("{\"n\":1}")),
        ("2", Some("{")),
        ("3", Some("{\"large\":1}")),
        ("4", Some("{\"bad\":1}")),
        ("5", Some("{\"n\":5}")),
    ];
    // Alone in its request, so that the broker refuses no other message with it.
    for message in messages {
        produce(broker, &input, [message]);
    }
    let address = broker.address();
    let group = unique("group");
    let running = start(
        &format!("kafka://{address}/{input}?group={group}"),
        &format!("kafka://{address}/{output}?batch.num.messages=1"),
        Some(&format!("kafka://{address}/{dead}")),
        Grows,
    );
    lookaside_testing::wait_until("all are processed", || {
        let figures = running.progress.figures();
        figures.events_out + figures.rejects == 5
    });
    let summary = running.stop();
    assert_eq!((summary.events_out, summary.rejects.count()), (2, 3));
    let keys = |topic: &str| {
        let mut found: Vec<_> = consume(broker, topic)
            .into_iter()
            .map(|found| found.key.unwrap())
            .collect();
        found.sort();
        found
    };
    assert_eq!(keys(&output), ["1", "5"]);
    assert_eq!(keys(&dead), ["2", "3", "4"]);
    for letter in consume(broker, &dead) {
        let reason = &letter.headers["lookaside-reason"];
        let expected = match letter.key.as_deref().unwrap() {
            "2" => "does not end",
            "3" => "message.max.bytes",
            _ => "a bad one",
        };
        assert!(reason.contains(expected), "{letter:?}");
        assert_eq!(letter.headers["lookaside-source"], format!("{input}[0]"));
    }
    assert_eq!(super::committed(broker, &group, &input, 1), [Some(5)]);
}

#[test]
fn what_is_missing_is_said() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let topic = create_topic(broker, 2, &[]);
    let address = broker.address();
    let found = check_source(
        &format!("kafka://{address}/{topic}?group=g")
            .parse()
            .unwrap(),
    );
    assert!(found.unwrap().contains("with 2 partitions"));
    let found = check_sink(&format!("kafka://{address}/{topic}").parse().unwrap());
    assert!(found.unwrap().contains("with 2 partitions"));
    for (url, expected) in [
        (
            format!("kafka://{address}/none?group=g"),
            "`none` does not exist",
        ),
        (
            format!("kafka://{address}/{topic}?group=g&no.such.property=1"),
            "`no.such.property`",
        ),
        (
            format!("kafka://{address}/{topic}?group=g&security.protocol=nonsense"),
            "security.protocol",
        ),
        (
            format!("kafka://127.0.0.1:1/{topic}?group=g"),
            "no broker answers",
        ),
    ] {
        let error = try_source(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        let url = url.replace("group=g&", "").replace("?group=g", "");
        let error = try_sink(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

/// Names a topic for each result, if its event does.
#[derive(Clone)]
struct Routes;

impl Transform for Routes {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        let (names, records) = batch.split_mut();
        let (to, topic) = (names.intern("to"), names.name("@meta/topic").unwrap());
        for record in records {
            // A transform gets the metadata of the message, and gives that of the result.
            record.take(topic);
            if let Some(value) = record.take(to) {
                record.push(topic, value);
            }
        }
    }
}

#[test]
fn a_topic_that_does_not_exist_refuses_its_own_results_only() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let [input, output, other, dead] = [0; 4].map(|_| create_topic(broker, 1, &[]));
    let routed = format!("{{\"to\":\"{other}\"}}");
    let messages = [
        ("1", Some("{\"to\":\"no-such-topic\"}")),
        ("2", Some("{\"to\":\"not/a topic\"}")),
        ("3", Some(&*routed)),
        ("4", Some("{}")),
    ];
    let address = broker.address();
    for delivery in ["at-least-once", "exactly-once"] {
        produce(broker, &input, messages);
        let running = crate::running::start_with(
            &["@meta/topic"],
            &format!("kafka://{address}/{input}?group={}", unique("group")),
            &format!("kafka://{address}/{output}?delivery={delivery}"),
            Some(&format!("kafka://{address}/{dead}")),
            Routes,
        );
        lookaside_testing::wait_until("all are processed", || {
            let figures = running.progress.figures();
            figures.events_out >= 2 && figures.rejects >= 2
        });
        running.stop();
    }
    let keys = |topic: &str| {
        let counts = consume(broker, topic).into_iter();
        counts
            .filter_map(|found| found.key)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    assert_eq!(keys(&dead), set(&["1", "2"]));
    for letter in consume(broker, &dead) {
        let reason = &letter.headers["lookaside-reason"];
        let expected = match letter.key.as_deref() {
            Some("1") => "does not exist",
            _ => "not a name",
        };
        assert!(reason.contains(expected), "{letter:?}");
    }
    assert!(super::count_committed(broker, &output).contains_key("{}"));
    assert!(super::count_committed(broker, &other).contains_key("{}"));
}

#[test]
fn small_events_are_not_refused_with_a_batch_that_is_too_large() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let input = create_topic(broker, 1, &[]);
    let output = create_topic(broker, 1, &[("max.message.bytes", "2000")]);
    let payloads: Vec<_> = (0..5000).map(|n| format!("{{\"n\":{n}}}")).collect();
    produce(
        broker,
        &input,
        payloads.iter().map(|payload| ("key", Some(&**payload))),
    );
    let address = broker.address();
    let running = start(
        &format!("kafka://{address}/{input}?group={}", unique("group")),
        &format!("kafka://{address}/{output}"),
        None,
        Identity,
    );
    running.wait_for_events(5000);
    assert_eq!(running.stop().rejects.count(), 0);
    assert_eq!(consume(broker, &output).len(), 5000);
}

#[test]
fn a_large_message_is_a_dead_letter_where_the_topic_takes_it() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let large = [("max.message.bytes", "5000000")];
    let (input, dead) = (
        create_topic(broker, 1, &large),
        create_topic(broker, 1, &large),
    );
    let output = create_topic(broker, 1, &[]);
    let address = broker.address();
    let payload = "x".repeat(2_000_000);
    let sink = try_sink(&format!("kafka://{address}/{input}")).unwrap();
    let formats = lookaside_stream::FormatOptions::new();
    let flow = lookaside_stream::Flow::new(
        lookaside_stream::InputFormat::new("raw", &formats).unwrap(),
        lookaside_stream::OutputFormat::new("raw", &formats).unwrap(),
    );
    let source = lookaside_stream::Source::new();
    let source = source.with_reader("large", std::io::Cursor::new(payload));
    flow.run(
        source,
        vec![Identity],
        sink,
        lookaside_stream::RunOptions::default(),
    )
    .unwrap();
    let running = start(
        &format!("kafka://{address}/{input}?group={}", unique("group")),
        &format!("kafka://{address}/{output}"),
        Some(&format!("kafka://{address}/{dead}")),
        Identity,
    );
    lookaside_testing::wait_until("it is rejected", || running.progress.figures().rejects == 1);
    assert_eq!(running.stop().rejects_refused, 0);
    let letters = consume(broker, &dead);
    assert_eq!(letters[0].payload.as_ref().unwrap().len(), 2_000_000);
}

#[test]
fn every_compression_is_read_and_written() {
    let Some(broker) = KafkaBroker::shared() else {
        return;
    };
    let address = broker.address();
    let mut input = create_topic(broker, 1, &[]);
    let payloads: Vec<_> = (0..100).map(|n| format!("{{\"n\":{n}}}")).collect();
    produce(
        broker,
        &input,
        payloads.iter().map(|payload| ("key", Some(&**payload))),
    );
    for codec in ["gzip", "zstd", "lz4", "snappy", "none"] {
        let output = create_topic(broker, 1, &[]);
        let running = start(
            &format!("kafka://{address}/{input}?group={}", unique("group")),
            &format!("kafka://{address}/{output}?compression.codec={codec}"),
            None,
            Identity,
        );
        running.wait_for_events(100);
        running.stop();
        input = output;
    }
    assert_eq!(consume(broker, &input).len(), 100);
}
