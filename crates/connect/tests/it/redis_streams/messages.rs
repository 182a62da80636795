//! What becomes of entries: order, keys, headers, dead letters; and errors of URLs.

use lookaside_connect::{check_sink, check_source};
use lookaside_stream::{Identity, Report, Transform};
use lookaside_testing::{RedisServer, wait_until};
use lookaside_value::Batch;

use super::{
    add, add_numbers, connect, entries, pending, start, start_with, try_sink, try_source, unique,
};

#[test]
fn results_keep_their_order_keys_and_headers() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output) = (unique("in"), unique("out"));
    add_numbers(server, &input, 0, 3000);
    let address = server.address();
    let running = start_with(
        &["@meta/headers/trace", "@meta/headers/redis-id"],
        &format!("redis://{address}/{input}?group=g&consumer=c"),
        &format!("redis://{address}/{output}"),
        None,
        Identity,
    );
    running.wait_for_events(3000);
    let summary = running.stop();
    assert_eq!((summary.events_in, summary.events_out), (3000, 3000));
    let (read, written) = (entries(server, &input), entries(server, &output));
    assert_eq!(written.len(), 3000);
    for (read, written) in read.iter().zip(&written) {
        let mut expected = read.fields.clone();
        expected.push(("redis-id".to_owned(), read.id.clone()));
        assert_eq!(written.fields, expected);
    }
    assert_eq!(pending(server, &input, "g"), []);
}

#[test]
fn fields_are_named_and_streams_are_trimmed() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (one, other, output) = (unique("in"), unique("in"), unique("out"));
    let mut connection = connect(server);
    for stream in [&one, &other] {
        for n in 0..1500 {
            let body = format!("{{\"user\":{n}}}\n{{\"user\":\"x\"}}");
            add(&mut connection, stream, &[("body", &body)]);
        }
    }
    let address = server.address();
    let running = start(
        &format!("redis://{address}/{one},{other}?group=g&consumer=c&field=body&framing=lines"),
        &format!("redis://{address}/{output}?key=user&field=event&maxlen=500"),
        None,
        Identity,
    );
    running.wait_for_events(6000);
    running.stop();
    let found = entries(server, &output);
    // Redis removes whole nodes of 100 entries.
    assert!((500..1000).contains(&found.len()), "{}", found.len());
    let last = found.last().unwrap();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [field("event", "{\"user\":\"x\"}"), field("key", "x")];
    assert_eq!(last.fields, expected);
}

/// Rejects events with a field `bad`.
#[derive(Clone)]
struct Rejects;

impl Transform for Rejects {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let (names, records) = batch.split_mut();
        let bad = names.intern("bad");
        for record in records {
            if record.value(bad).is_some() {
                report.reject(record.line, "a bad one");
            }
        }
    }
}

/// Writes an event to the stream that its field `to` names.
#[derive(Clone)]
struct NamesStream;

impl Transform for NamesStream {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        let names = batch.names_mut();
        let (to, topic) = (names.intern("to"), names.intern("@meta/topic"));
        for record in batch.records_mut() {
            record.take(topic);
            if let Some(to) = record.value(to).cloned() {
                record.push(topic, to);
            }
        }
    }
}

#[test]
fn a_result_for_a_key_that_is_not_a_stream_becomes_a_dead_letter() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output, dead) = (unique("in"), unique("out"), unique("dead"));
    let text = unique("text");
    let mut connection = connect(server);
    redis::cmd("SET")
        .arg(&text)
        .arg("x")
        .exec(&mut connection)
        .unwrap();
    let poison = format!("{{\"n\":3,\"to\":\"{text}\"}}");
    for payload in ["{\"n\":1}", "{\"n\":2}", &poison, "{\"n\":4}"] {
        add(&mut connection, &input, &[("payload", payload)]);
    }
    let address = server.address();
    let running = start_with(
        &["@meta/topic"],
        &format!("redis://{address}/{input}?group=g&consumer=c"),
        &format!("redis://{address}/{output}"),
        Some(&format!("redis://{address}/{dead}")),
        NamesStream,
    );
    wait_until("all are acknowledged", || {
        running.progress.figures().events_in == 4 && pending(server, &input, "g").is_empty()
    });
    running.stop();
    assert_eq!(entries(server, &output).len(), 3);
    let letters = entries(server, &dead);
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.payload(), poison);
    let reason = letter.field("lookaside-reason").unwrap();
    assert!(reason.contains("WRONGTYPE"), "{reason}");
}

#[test]
fn poison_entries_become_dead_letters_and_block_nothing() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (input, output, dead) = (unique("in"), unique("out"), unique("dead"));
    let mut connection = connect(server);
    for fields in [
        &[("payload", "{\"n\":1}"), ("key", "1")][..],
        &[("payload", "{"), ("key", "2")],
        &[("other", "value"), ("key", "3")],
        &[("payload", "{\"bad\":1}"), ("key", "4"), ("trace", "t")],
        &[("payload", "{\"n\":5}"), ("key", "5")],
    ] {
        add(&mut connection, &input, fields);
    }
    let address = server.address();
    let running = start(
        &format!("redis://{address}/{input}?group=g&consumer=c"),
        &format!("redis://{address}/{output}"),
        Some(&format!("redis://{address}/{dead}")),
        Rejects,
    );
    wait_until("all are processed", || {
        let figures = running.progress.figures();
        figures.events_out + figures.rejects == 5
    });
    let summary = running.stop();
    assert_eq!((summary.events_out, summary.rejects.count()), (2, 3));
    let keys = |stream: &str| {
        let found = entries(server, stream).into_iter();
        let keys = found.map(|found| found.field("key").unwrap().to_owned());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(keys(&output), ["1", "5"]);
    assert_eq!(keys(&dead), ["2", "3", "4"]);
    let letters = entries(server, &dead);
    let read = entries(server, &input);
    for (letter, (payload, header, reason)) in letters.iter().zip([
        (Some("{"), None, "does not end"),
        (None, Some(("other", "value")), "no field `payload`"),
        (Some("{\"bad\":1}"), Some(("trace", "t")), "a bad one"),
    ]) {
        assert_eq!(letter.field("payload"), payload);
        if let Some((name, value)) = header {
            assert_eq!(letter.field(name), Some(value));
        }
        let found = letter.field("lookaside-reason").unwrap();
        assert!(found.contains(reason), "{letter:?}");
        let id = letter.field("redis-id").unwrap();
        assert!(read.iter().any(|read| read.id == id), "{letter:?}");
    }
    assert_eq!(pending(server, &input, "g"), []);
}

#[test]
fn an_entry_that_the_server_finds_too_large_becomes_a_dead_letter() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let Some(small) = RedisServer::start(&["--proto-max-bulk-len", "1mb"]) else {
        return;
    };
    let (input, dead) = (unique("in"), unique("dead"));
    let large = format!("{{\"n\":\"{}\"}}", "x".repeat(3 << 20));
    let mut connection = connect(server);
    for payload in ["{\"n\":1}", &large, "{\"n\":3}"] {
        add(
            &mut connection,
            &input,
            &[("payload", payload), ("key", "k")],
        );
    }
    let running = start(
        &format!("redis://{}/{input}?group=g&consumer=c", server.address()),
        &format!("redis://{}/out", small.address()),
        Some(&format!("redis://{}/{dead}", server.address())),
        Identity,
    );
    wait_until("all are processed", || {
        pending(server, &input, "g").is_empty()
    });
    wait_until("the others are written", || {
        entries(&small, "out").len() == 2
    });
    running.stop();
    let letters = entries(server, &dead);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].field("payload"), Some(&*large));
    assert_eq!(letters[0].field("key"), Some("k"));
    let reason = letters[0].field("lookaside-reason").unwrap();
    assert!(reason.contains("proto-max-bulk-len"), "{reason}");
}

#[test]
fn what_is_missing_is_said() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let (stream, text) = (unique("in"), unique("text"));
    add_numbers(server, &stream, 0, 2);
    let mut connection = connect(server);
    redis::cmd("SET")
        .arg(&text)
        .arg("x")
        .exec(&mut connection)
        .unwrap();
    let address = server.address();
    let check = |url: &str| check_source(&url.parse().unwrap());
    let found = check(&format!("redis://{address}/{stream},none?group=g")).unwrap();
    assert!(found.contains("with 2 entries"), "{found}");
    assert!(found.contains("none, empty or to be created"), "{found}");
    let found = check_sink(&format!("redis://{address}/{stream}").parse().unwrap()).unwrap();
    assert!(found.ends_with("with 2 entries"), "{found}");
    for (url, expected) in [
        (
            format!("redis://{address}/{text}?group=g"),
            "something else than a stream",
        ),
        (
            format!("redis://127.0.0.1:1/{stream}?group=g"),
            "no server answers",
        ),
        (
            format!("redis://:secret@{address}/{stream}?group=g"),
            "the server refuses",
        ),
        (
            format!("redis://{address}/{stream}?group=g&db=99"),
            "the server refuses",
        ),
    ] {
        let error = try_source(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{url}: {error:?}");
        let error = check(&url).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        let url = url.replace("group=g&", "").replace("?group=g", "");
        let error = try_sink(&url).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
        let error = check_sink(&url.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(expected), "{url}: {error}");
    }
}

#[test]
fn a_server_without_an_append_only_file_is_named() {
    let Some(server) = RedisServer::start(&["--appendonly", "no", "--requirepass", "p@ss"]) else {
        return;
    };
    let url = format!("redis://:p%40ss@{}/s", server.address());
    let found = check_sink(&url.parse().unwrap()).unwrap();
    assert!(found.contains("a crash loses"), "{found}");
    assert!(!found.contains("p@ss"), "{found}");
}

#[test]
fn a_server_is_reached_by_tls() {
    let folder = std::env::temp_dir().join(unique("redis-tls"));
    std::fs::create_dir(&folder).unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (folder.join("certificate"), folder.join("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    // The port is that of TLS, as both cannot be the same.
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let Some(server) = RedisServer::start_tls(&certificate, &key) else {
        return;
    };
    let address = server.address();
    let url = format!("rediss://{address}/s?ca={certificate}");
    let found = check_sink(&url.parse().unwrap()).unwrap();
    assert!(found.contains("is available"), "{found}");
    // Without the option, the certificate is not trusted.
    let error = check_sink(&format!("rediss://{address}/s").parse().unwrap());
    assert!(error.unwrap_err().to_string().contains("certificate"));
    std::fs::remove_dir_all(&folder).unwrap();
}
