//! The metadata of messages, as fields of records and from the URL of a sink.

use lookaside_stream::{
    Identity, MetaValue, Partition, Report, ResultMeta, RunOptions, Sink, Transform,
};
use lookaside_value::Batch;

use crate::messages::{Memory, Script, Taken, flow, keyed_by, run, sent};

/// Moves metadata to visible fields, and sets other metadata.
#[derive(Clone)]
struct UsesMeta;

impl Transform for UsesMeta {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        let (names, records) = batch.split_mut();
        for record in records {
            for meta in ["topic", "partition", "offset", "timestamp", "headers/trace"] {
                let name = names.name(&format!("@meta/{meta}")).unwrap();
                let value = record.take(name).unwrap();
                record.push(names.intern(meta), value);
            }
            let name = |text: &str| names.name(text).unwrap();
            let key = record.take(name("@meta/key")).unwrap();
            record.push(name("@meta/headers/old-key"), key);
            record.push(name("@meta/key"), "new key");
            record.push(name("@meta/topic"), "alerts");
            record.push(name("@meta/timestamp"), 7_i64);
        }
    }
}

#[test]
fn metadata_is_read_and_set() {
    let partition = Partition::new("clicks", 4);
    let names = [
        "@meta/key",
        "@meta/topic",
        "@meta/partition",
        "@meta/offset",
        "@meta/timestamp",
        "@meta/headers/trace",
        "@meta/headers/old-key",
    ];
    let memory = Memory::default();
    let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
    let script = Script::new(&[partition], vec![sent(9, "{}")], 1);
    run(
        &flow("json", "json", &names),
        script,
        UsesMeta,
        sink,
        RunOptions::default(),
    );
    let expected = Taken {
        key: Some("new key".into()),
        payload: Some(
            r#"{"topic":"clicks","partition":4,"offset":9,"timestamp":"2023-11-14T22:13:20.009Z","headers/trace":"abc"}"#
                .into(),
        ),
        topic: Some("alerts".into()),
        timestamp_ms: Some(7),
        headers: vec![("old-key".into(), "key 9".into())],
    };
    assert_eq!(*memory.taken.lock().unwrap(), [expected]);
}

#[test]
fn a_field_is_the_key() {
    let memory = Memory::default();
    let sink = Sink::messages("memory", Box::new(memory.clone()), keyed_by("user"));
    let messages = vec![
        sent(0, r#"{"user":7}"#),
        sent(1, r#"{"user":null}"#),
        sent(2, "{}"),
    ];
    let script = Script::new(&[Partition::new("t", 0)], messages, 3);
    run(
        &flow("json", "json", &[]),
        script,
        Identity,
        sink,
        RunOptions::default(),
    );
    let taken = memory.taken.lock().unwrap();
    let keys: Vec<_> = taken.iter().map(|taken| taken.key.as_deref()).collect();
    assert_eq!(keys, [Some("7"), None, Some("key 2")]);
}

#[test]
fn fields_and_constants_are_metadata_unless_a_record_sets_it() {
    let memory = Memory::default();
    let field = |name: &str| MetaValue::Field(name.to_owned());
    let constant = |text: &str| MetaValue::Constant(text.to_owned());
    let meta = ResultMeta {
        key: Some(constant("all")),
        topic: Some(field("to")),
        timestamp: Some(field("at")),
        headers: vec![
            ("from".to_owned(), constant("here")),
            ("user".to_owned(), field("user")),
            ("own".to_owned(), field("user")),
        ],
    };
    let sink = Sink::messages("memory", Box::new(memory.clone()), meta);
    let messages = vec![
        sent(
            0,
            r#"{"to":"a","at":7,"user":"amy","@meta/headers/own":"set"}"#,
        ),
        sent(1, r#"{"to":"b","user":""}"#),
        sent(2, r#"{"to":"","at":null}"#),
        sent(3, r#"{"at":"1970-01-01T00:00:01+00:00"}"#),
        sent(4, r#"{"at":"x"}"#),
    ];
    let script = Script::new(&[Partition::new("t", 0)], messages, 3);
    run(
        &flow("json", "json", &["@meta/headers/own"]),
        script,
        Identity,
        sink,
        RunOptions::default(),
    );
    let taken = memory.taken.lock().unwrap();
    let found: Vec<_> = taken
        .iter()
        .map(|taken| {
            let headers: Vec<_> = taken
                .headers
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let topic = taken.topic.as_deref().unwrap_or("-");
            format!(
                "{} {topic} {:?} {}",
                taken.key.as_deref().unwrap(),
                taken.timestamp_ms,
                headers.join(",")
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "all a Some(7) own=set,from=here,user=amy",
            "all b None from=here,user=,own=",
            "all - None from=here",
            "all - Some(1000) from=here",
        ]
    );
}
