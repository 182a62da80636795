//! Several outputs: routes of records, what is dropped, events that are split, acknowledgements.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;

use lookaside_stream::{
    Extent, Flow, FormatOptions, Identity, InputFormat, OutputFormat, Partition, Receipt, Report,
    ResultMeta, RunOptions, Sink, Source, SplitPath, StopFlag, Strictness, Transform,
};
use lookaside_value::{Batch, NameTable, Value};

use crate::messages::{Delayed, Memory, Script, Sent, keyed_by, payloads, run, sent};

/// A flow from JSON with the metadata that [`Routed`] sets.
fn flow() -> Flow {
    let mut names = NameTable::new();
    names.intern("@meta/output");
    Flow::with_names(names, json_input(), format("json", ""))
}

fn json_input() -> InputFormat {
    InputFormat::new("json", &FormatOptions::new()).unwrap()
}

fn format(name: &str, columns: &str) -> OutputFormat {
    let options = FormatOptions::new();
    let options = match columns {
        "" => options,
        columns => options.set("columns", columns),
    };
    OutputFormat::new(name, &options).unwrap()
}

/// Moves the field `to` into the metadata that determines the outputs.
#[derive(Clone)]
struct Routed;

impl Transform for Routed {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        let Some(to) = batch.names().name("to") else {
            return;
        };
        let output = batch.names().name("@meta/output").unwrap();
        for record in batch.records_mut() {
            if let Some(value) = record.take(to) {
                record.push(output, value);
            }
        }
    }
}

/// A sink of bytes, and what it has when the run has ended.
fn bytes(name: &'static str) -> (Sink, Arc<Mutex<String>>) {
    let written = Arc::new(Mutex::new(String::new()));
    let sink = Sink::writer(name, Vec::new(), {
        let written = Arc::clone(&written);
        move |bytes| {
            *written.lock().unwrap() = String::from_utf8(bytes).unwrap();
            Ok(())
        }
    });
    (sink, written)
}

#[test]
fn records_are_written_to_the_outputs_that_they_name() {
    let lines = r#"{"n":1}
{"n":2,"to":"csv"}
{"n":3,"to":["default","csv","bus","csv"]}
{"n":4,"to":"none"}
{"n":5,"to":"other"}
{"n":6,"to":[]}
{"n":7,"to":"bus"}
{"n":8,"to":null}
{"n":9,"to":["default","none"]}
{"n":10,"x":1,"to":["csv","bus"]}
"#;
    let (default, json) = bytes("default");
    let (csv_sink, csv) = bytes("csv");
    let (rejects_sink, rejects) = bytes("rejects");
    let bus = Memory::default();
    let options = RunOptions {
        named_sinks: vec![
            csv_sink,
            Sink::messages("bus", Box::new(bus.clone()), keyed_by("n")),
        ],
        rejects: Some(rejects_sink),
        ..RunOptions::default()
    };
    let flow = flow().with_named_output("csv", format("csv", "n")).unwrap();
    let flow = flow.with_named_output("bus", format("json", "")).unwrap();
    let source = Source::new().with_reader("events", lines.as_bytes());
    let summary = flow.run(source, vec![Routed; 2], default, options).unwrap();
    assert_eq!(*json.lock().unwrap(), "{\"n\":1}\n{\"n\":3}\n{\"n\":9}\n");
    // A record can be refused by one output and written to another.
    assert_eq!(*csv.lock().unwrap(), "n\n2\n3\n");
    assert_eq!(
        payloads(&bus),
        ["{\"n\":3}", "{\"n\":7}", "{\"n\":10,\"x\":1}"]
    );
    let keys = bus.taken.lock().unwrap();
    let keys: Vec<_> = keys.iter().map(|taken| taken.key.as_deref()).collect();
    assert_eq!(keys, [Some("3"), Some("7"), Some("10")]);
    assert_eq!(*rejects.lock().unwrap(), "{\"n\":5}\n{\"n\":10,\"x\":1}\n");
    let reason = &summary.rejects.first()[0].reason;
    assert_eq!(
        *reason,
        "no output is named `other`; the outputs are default, csv, bus"
    );
    assert_eq!((summary.events_in, summary.events_out), (10, 8));
    assert_eq!(summary.named_events_out, [2, 3]);
    assert_eq!((summary.events_dropped, summary.rejects.count()), (3, 2));
}

/// A broker of a named output refuses a message.
#[test]
fn a_refused_message_names_its_output() {
    let (default, _) = bytes("default");
    let dead_letters = Memory::default();
    let bus = Memory {
        poison: Some("7"),
        ..Memory::default()
    };
    let options = RunOptions {
        named_sinks: vec![Sink::messages("b", Box::new(bus), ResultMeta::default())],
        rejects: Some(Sink::messages(
            "dead",
            Box::new(dead_letters.clone()),
            ResultMeta::default(),
        )),
        ..RunOptions::default()
    };
    let flow = flow().with_named_output("bus", format("json", "")).unwrap();
    let lines = "{\"n\":7,\"to\":\"bus\"}\n";
    let source = Source::new().with_reader("events", lines.as_bytes());
    let summary = flow.run(source, vec![Routed], default, options).unwrap();
    let reason = &summary.rejects.first()[0].reason;
    assert!(reason.starts_with("output `bus`: "), "{reason}");
    let taken = dead_letters.taken.lock().unwrap();
    let headers = format!("{:?}", taken[0].headers);
    assert!(headers.contains("output `bus`: "), "{headers}");
}

#[test]
fn the_columns_of_the_default_output_are_those_of_its_first_record() {
    let (default, csv) = bytes("default");
    let (named, json) = bytes("named");
    let mut names = NameTable::new();
    names.intern("@meta/output");
    let flow = Flow::with_names(names, json_input(), format("csv", ""));
    let flow = flow.with_named_output("a", format("json", "")).unwrap();
    let lines = "{\"x\":1,\"to\":\"a\"}\n{\"y\":2}\n{\"y\":3}\n";
    let source = Source::new().with_reader("events", lines.as_bytes());
    let options = RunOptions {
        named_sinks: vec![named],
        ..RunOptions::default()
    };
    flow.run(source, vec![Routed; 2], default, options).unwrap();
    assert_eq!(*csv.lock().unwrap(), "y\n2\n3\n");
    assert_eq!(*json.lock().unwrap(), "{\"x\":1}\n");
}

#[test]
fn what_no_run_can_have_is_refused() {
    for name in ["default", "none", "", "a"] {
        let flow = flow().with_named_output("a", format("json", "")).unwrap();
        let error = flow
            .with_named_output(name, format("json", ""))
            .unwrap_err()
            .to_string();
        assert!(error.contains("an output cannot be named"), "{error}");
    }
    let many = (0..63).try_fold(flow(), |flow, number| {
        flow.with_named_output(&number.to_string(), format("json", ""))
    });
    let error = many.unwrap().with_named_output("x", format("json", ""));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a run has at most 64 outputs"), "{error}");

    // Only the default output has a record in the first block for certain.
    let error = flow().with_named_output("a", format("csv", ""));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the columns of csv output `a`"), "{error}");

    let refused = |[default, named]: [Sink; 2]| {
        let flow = flow().with_named_output("a", format("json", "")).unwrap();
        let options = RunOptions {
            named_sinks: vec![named],
            ..RunOptions::default()
        };
        let source = Source::new().with_reader("events", &b"{}\n"[..]);
        let run = flow.run(source, vec![Routed], default, options);
        run.unwrap_err().to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = || Sink::file(&folder.path().join("one"), Extent::Endless).unwrap();
    let error = refused([file(), file()]);
    assert!(error.contains("are the same file"), "{error}");
}

#[test]
fn elements_become_events_which_can_have_different_outputs() {
    let lines = r#"{"id":1,"items":[{"n":1,"to":"a"},{"n":2}]}
{"id":2,"items":[]}
{"id":3}
"#;
    /// The element determines the output.
    #[derive(Clone)]
    struct ByElement;
    impl Transform for ByElement {
        fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
            let name = |text| batch.names().name(text).unwrap();
            let (items, output) = (name("items"), name("@meta/output"));
            for record in batch.records_mut() {
                let Some(Value::Object(item)) = record.value(items) else {
                    continue;
                };
                if let Some(to) = item.member("to").cloned() {
                    record.push(output, to);
                }
            }
        }
    }
    let (default, json) = bytes("default");
    let (named, other) = bytes("a");
    let options = RunOptions {
        named_sinks: vec![named],
        split: Some(SplitPath::new("items").unwrap()),
        ..RunOptions::default()
    };
    let flow = flow().with_named_output("a", format("json", "")).unwrap();
    let source = Source::new().with_reader("events", lines.as_bytes());
    let summary = flow.run(source, vec![ByElement; 2], default, options);
    let summary = summary.unwrap();
    assert_eq!(
        *json.lock().unwrap(),
        "{\"id\":1,\"items\":{\"n\":2}}\n{\"id\":3}\n"
    );
    assert_eq!(
        *other.lock().unwrap(),
        "{\"id\":1,\"items\":{\"n\":1,\"to\":\"a\"}}\n"
    );
    assert_eq!((summary.events_in, summary.events_out), (3, 3));
    assert_eq!(summary.events_dropped, 1);
}

#[test]
fn a_refused_result_of_a_named_output_is_a_dead_letter() {
    let partition = Partition::new("t", 0);
    let messages = (0..4).map(|n| sent(n, &format!("{{\"n\":{n},\"to\":\"a\"}}")));
    let script = Script::new(std::slice::from_ref(&partition), messages.collect(), 4);
    let named = Memory {
        poison: Some("2"),
        ..Memory::default()
    };
    let dead = Memory::default();
    let options = RunOptions {
        named_sinks: vec![Sink::messages(
            "a",
            Box::new(named.clone()),
            ResultMeta::default(),
        )],
        rejects: Some(Sink::messages(
            "dead",
            Box::new(dead.clone()),
            ResultMeta::default(),
        )),
        ..RunOptions::default()
    };
    let flow = flow().with_named_output("a", format("json", "")).unwrap();
    let default = Memory::default();
    let sink = Sink::messages("default", Box::new(default.clone()), ResultMeta::default());
    let summary = run(&flow, script, Routed, sink, options);
    assert_eq!(payloads(&named), ["{\"n\":0}", "{\"n\":1}", "{\"n\":3}"]);
    assert_eq!(payloads(&dead), ["{\"n\":2}"]);
    assert_eq!(payloads(&default).len(), 0);
    assert_eq!((summary.events_out, summary.rejects.count()), (3, 1));
    assert_eq!(summary.named_events_out, [3]);
    assert_eq!(partition.acknowledged(), Some(4));
}

/// What a delayed sink was given: the receipt, the segment and the payload.
type Given = (Arc<Receipt>, usize, Vec<u8>);

/// Delivers some of what it is given in any order; returns the payloads.
fn deliver(receiver: &Receiver<Given>, count_max: usize, mut order: fastrand::Rng) -> Vec<Vec<u8>> {
    let (mut waiting, mut delivered) = (Vec::new(), Vec::new());
    let mut is_open = true;
    while delivered.len() < count_max && (is_open || !waiting.is_empty()) {
        match receiver.try_recv() {
            Ok(given) => waiting.push(given),
            Err(mpsc::TryRecvError::Disconnected) => is_open = false,
            Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
        }
        if !waiting.is_empty() && order.bool() {
            let (receipt, segment, payload): Given =
                waiting.swap_remove(order.usize(..waiting.len()));
            delivered.push(payload);
            receipt.deliver(segment, 1);
        }
    }
    delivered
}

#[test]
fn a_message_is_acknowledged_when_all_outputs_have_delivered_its_results() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let partition = Partition::new("t", 0);
        let mut expected_counts = Vec::new();
        let messages: Vec<Sent> = (0..random.u64(0..100))
            .map(|position| {
                let items = random.usize(0..4);
                let (to, outputs) = *random
                    .choice(
                        [
                            ("\"none\"", 0),
                            ("\"default\"", 1),
                            ("\"a\"", 1),
                            ("[\"a\",\"default\"]", 2),
                            ("[\"b\",\"a\",\"default\"]", 3),
                        ]
                        .iter(),
                    )
                    .unwrap();
                expected_counts.push(items * outputs);
                let items = vec![position.to_string(); items].join(",");
                sent(position, &format!("{{\"n\":[{items}],\"to\":{to}}}"))
            })
            .collect();
        let (sender, receiver) = mpsc::channel::<Given>();
        let delivered_max = random.usize(0..400);
        let order = random.fork();
        let deliverer = thread::spawn(move || deliver(&receiver, delivered_max, order));
        let sink = |name| {
            Sink::messages(
                name,
                Box::new(Delayed(sender.clone())),
                ResultMeta::default(),
            )
        };
        let options = RunOptions {
            give_up: Some(StopFlag::new().unwrap()),
            named_sinks: vec![sink("a"), sink("b")],
            split: Some(SplitPath::new("n").unwrap()),
            ..RunOptions::default()
        };
        let default = sink("default");
        drop(sender);
        let flow = flow().with_named_output("a", format("json", "")).unwrap();
        let flow = flow.with_named_output("b", format("json", "")).unwrap();
        let script = Script::new(
            std::slice::from_ref(&partition),
            messages,
            random.usize(1..20),
        );
        run(&flow, script, Routed, default, options);
        let delivered = deliverer.join().unwrap();
        let is_delivered = |position: usize| {
            let payload = format!("{{\"n\":{position}}}");
            let count = delivered.iter().filter(|it| **it == payload.as_bytes());
            count.count() == expected_counts[position]
        };
        let first_missing = (0..expected_counts.len())
            .find(|position| !is_delivered(*position))
            .unwrap_or(expected_counts.len());
        assert!(partition.acknowledged().unwrap_or(0) <= first_missing as u64);
        if delivered.len() < delivered_max && first_missing > 0 {
            assert_eq!(partition.acknowledged(), Some(first_missing as u64));
        }
    }
}

#[test]
fn a_strict_run_ends_at_an_unknown_output() {
    let source = Source::new().with_reader("events", &b"{\"to\":\"x\"}\n"[..]);
    let options = RunOptions {
        strictness: Strictness::Strict,
        ..RunOptions::default()
    };
    let error = flow().run(source, vec![Routed], Sink::null(), options);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no output is named `x`"), "{error}");
    // Without the metadata, `to` is a field like any other.
    let source = Source::new().with_reader("events", &b"{\"to\":\"x\"}\n"[..]);
    let (sink, json) = bytes("default");
    let flow = Flow::new(json_input(), format("json", ""));
    flow.run(source, vec![Identity], sink, RunOptions::default())
        .unwrap();
    assert_eq!(*json.lock().unwrap(), "{\"to\":\"x\"}\n");
}
