//! Sources and sinks of messages: what is acknowledged when, metadata, dead letters, limits.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lookaside_stream::{
    Checkpoint, End, Flow, FormatOptions, Identity, InputFormat, MessageFraming, MessageRead,
    MessageSink, MessageSource, Messages, MetaValue, OnNull, OnStop, OutputFormat, Partition,
    Receipt, RefusedMessage, Report, ResultMeta, RunOptions, Sink, Source, StopFlag, Strictness,
    Summary, Transform,
};
use lookaside_value::{Batch, NameTable};

/// A message of a test: partition, position, key, payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) partition: usize,
    pub(crate) position: u64,
    key: Option<Vec<u8>>,
    pub(crate) payload: Option<Vec<u8>>,
}

pub(crate) fn sent(position: u64, payload: &str) -> Sent {
    Sent {
        partition: 0,
        position,
        key: Some(format!("key {position}").into_bytes()),
        payload: Some(payload.into()),
    }
}

/// A source with given messages, some at a time.
pub(crate) struct Script {
    partitions: Vec<Arc<Partition>>,
    messages: VecDeque<Sent>,
    count_at_once: usize,
    is_closed: Arc<Mutex<bool>>,
}

impl Script {
    pub(crate) fn new(
        partitions: &[Arc<Partition>],
        messages: Vec<Sent>,
        count_at_once: usize,
    ) -> Self {
        Self {
            partitions: partitions.to_vec(),
            messages: messages.into(),
            count_at_once,
            is_closed: Arc::default(),
        }
    }
}

impl MessageSource for Script {
    fn read(&mut self, messages: &mut Messages, _: Duration) -> io::Result<MessageRead> {
        assert!(messages.is_empty());
        for _ in 0..self.count_at_once {
            let Some(sent) = self.messages.pop_front() else {
                break;
            };
            let partition = &self.partitions[sent.partition];
            let (payload, key) = (sent.payload.as_deref(), sent.key.as_deref());
            messages.push(partition, sent.position, payload, key);
            messages.set_timestamp(1_700_000_000_000 + sent.position as i64);
            messages.push_header("trace", Some(b"abc"));
        }
        Ok(match messages.is_empty() {
            true => MessageRead::End,
            false => MessageRead::Messages,
        })
    }

    fn close(&mut self) -> io::Result<()> {
        *self.is_closed.lock().unwrap() = true;
        Ok(())
    }
}

/// What a sink has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) headers: Vec<(String, String)>,
}

/// A sink that remembers what it takes, and delivers it at once.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub(crate) taken: Arc<Mutex<Vec<Taken>>>,
    pub(crate) refused: Arc<Mutex<Vec<RefusedMessage>>>,
    /// Payloads that contain this are refused.
    pub(crate) poison: Option<&'static str>,
}

impl MessageSink for Memory {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        for message in messages.iter() {
            let taken = Taken {
                key: message.key().map(text),
                payload: message.payload().map(text),
                topic: message.topic().map(|topic| topic.to_string()),
                timestamp_ms: message.timestamp_ms(),
                headers: message
                    .headers()
                    .map(|header| (header.name.to_owned(), text(header.value.unwrap())))
                    .collect(),
            };
            let payload = taken.payload.as_deref().unwrap_or_default();
            if self.poison.is_some_and(|poison| payload.contains(poison)) {
                self.refused.lock().unwrap().push(RefusedMessage {
                    payload: message.payload().map(<[u8]>::to_vec),
                    key: message.key().map(<[u8]>::to_vec),
                    reason: "too large".to_owned(),
                    receipt: Arc::clone(receipt),
                    segment: message.segment(),
                });
                continue;
            }
            self.taken.lock().unwrap().push(taken);
            receipt.deliver(message.segment(), 1);
        }
        Ok(())
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        self.refused.lock().unwrap().drain(..).collect()
    }

    fn flush(&mut self, _: Duration) -> io::Result<bool> {
        Ok(true)
    }
}

/// The metadata of results whose keys are the values of a field.
pub(crate) fn keyed_by(field: &str) -> ResultMeta {
    ResultMeta {
        key: Some(MetaValue::Field(field.to_owned())),
        ..ResultMeta::default()
    }
}

pub(crate) fn flow(input: &str, output: &str, names: &[&str]) -> Flow {
    let options = FormatOptions::new();
    let mut table = NameTable::new();
    names.iter().for_each(|name| _ = table.intern(name));
    Flow::with_names(
        table,
        InputFormat::new(input, &options).unwrap(),
        OutputFormat::new(output, &options).unwrap(),
    )
}

pub(crate) fn run<T: Transform + Clone>(
    flow: &Flow,
    script: Script,
    transform: T,
    sink: Sink,
    options: RunOptions,
) -> Summary {
    let source = Source::new().with_messages("script", Box::new(script));
    flow.run(source, vec![transform; 3], sink, options).unwrap()
}

pub(crate) fn payloads(memory: &Memory) -> Vec<String> {
    let taken = memory.taken.lock().unwrap();
    taken
        .iter()
        .map(|taken| taken.payload.clone().unwrap_or_else(|| "null".to_owned()))
        .collect()
}

#[test]
fn results_keep_the_order_and_the_keys() {
    let partition = Partition::new("clicks", 0);
    let messages = (0..100).map(|n| sent(n, &format!("{{\"n\":{n},\n\"m\":2}}")));
    let script = Script::new(std::slice::from_ref(&partition), messages.collect(), 7);
    let is_closed = Arc::clone(&script.is_closed);
    let memory = Memory::default();
    let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
    let summary = run(
        &flow("json", "json", &[]),
        script,
        Identity,
        sink,
        RunOptions::default(),
    );
    assert_eq!((summary.events_in, summary.events_out), (100, 100));
    assert_eq!(summary.end, End::Whole);
    for (n, taken) in memory.taken.lock().unwrap().iter().enumerate() {
        let expected = Taken {
            key: Some(format!("key {n}")),
            payload: Some(format!("{{\"n\":{n},\"m\":2}}")),
            ..Taken::default()
        };
        assert_eq!(*taken, expected);
    }
    assert_eq!(partition.acknowledged(), Some(100));
    assert!(*is_closed.lock().unwrap());
}

#[test]
fn messages_are_written_as_lines_and_acknowledged() {
    let partition = Partition::new("clicks", 0);
    let messages = vec![sent(3, "a=1"), sent(5, ""), sent(8, "a=2\nb=3")];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let source = Script::new(std::slice::from_ref(&partition), messages, 2);
    let sink = Sink::file(&path, lookaside_stream::Extent::Endless).unwrap();
    let options = RunOptions {
        framing: MessageFraming::Lines,
        ..RunOptions::default()
    };
    let summary = run(
        &flow("kv", "json", &["@meta/key"]),
        source,
        Identity,
        sink,
        options,
    );
    assert_eq!((summary.events_in, summary.events_out), (3, 3));
    // The metadata is not part of an event.
    let expected = "{\"a\":\"1\"}\n{\"a\":\"2\"}\n{\"b\":\"3\"}\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(partition.acknowledged(), Some(9));
}

#[test]
fn null_payloads_are_skipped_or_forwarded_in_their_places() {
    for (on_null, expected) in [
        (OnNull::Skip, &["{\"a\":\"1\"}", "{\"a\":\"2\"}"][..]),
        (
            OnNull::Forward,
            &[
                "null",
                "{\"a\":\"1\"}",
                "null",
                "null",
                "{\"a\":\"2\"}",
                "null",
            ],
        ),
    ] {
        let partition = Partition::new("t", 0);
        let mut messages: Vec<_> = (0..6).map(|n| sent(n, "a=1")).collect();
        messages[4] = sent(4, "a=2");
        for null in [0, 2, 3, 5] {
            messages[null].payload = None;
        }
        let memory = Memory::default();
        let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
        let script = Script::new(std::slice::from_ref(&partition), messages, 6);
        let options = RunOptions {
            on_null,
            ..RunOptions::default()
        };
        let summary = run(&flow("kv", "json", &[]), script, Identity, sink, options);
        assert_eq!(payloads(&memory), expected);
        assert_eq!(summary.events_in, 6);
        assert_eq!(summary.events_out, expected.len() as u64);
        assert_eq!(partition.acknowledged(), Some(6));
    }
}

/// Rejects records with a field.
#[derive(Clone)]
struct RejectsField(&'static str);

impl Transform for RejectsField {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let Some(name) = batch.names().name(self.0) else {
            return;
        };
        for record in batch.records() {
            if record.value(name).is_some() {
                report.reject(record.line, "it has the field");
            }
        }
    }
}

#[test]
fn dead_letters_have_the_original_message_and_the_reason() {
    let partition = Partition::new("clicks", 2);
    let payloads = [
        "{\"a\":1}",
        "{",
        "{\"bad\":1}",
        "{\"poison\":1}",
        "{\"b\":2}",
    ];
    let messages = (10..).zip(payloads).map(|(n, payload)| sent(n, payload));
    let script = Script::new(std::slice::from_ref(&partition), messages.collect(), 5);
    let (out, dead) = (
        Memory {
            poison: Some("poison"),
            ..Memory::default()
        },
        Memory::default(),
    );
    let options = RunOptions {
        rejects: Some(Sink::messages(
            "dead",
            Box::new(dead.clone()),
            ResultMeta::default(),
        )),
        ..RunOptions::default()
    };
    let sink = Sink::messages("out", Box::new(out.clone()), ResultMeta::default());
    let summary = run(
        &flow("json", "json", &[]),
        script,
        RejectsField("bad"),
        sink,
        options,
    );
    assert_eq!(self::payloads(&out), ["{\"a\":1}", "{\"b\":2}"]);
    assert_eq!((summary.events_in, summary.events_out), (5, 2));
    assert_eq!(summary.rejects.count(), 3);
    let shown: Vec<_> = summary.rejects.first().iter().collect();
    assert_eq!((&*shown[0].source, shown[0].line), ("clicks[2]", 11));
    let letters = dead.taken.lock().unwrap();
    for (letter, (payload, key, reason, position)) in letters.iter().zip([
        ("{", "key 11", "does not end", Some("11")),
        ("{\"bad\":1}", "key 12", "it has the field", Some("12")),
        ("{\"poison\":1}", "key 13", "too large", None),
    ]) {
        assert_eq!(letter.payload.as_deref(), Some(payload));
        assert_eq!(letter.key.as_deref(), Some(key));
        let header = |wanted: &str| {
            let mut headers = letter.headers.iter();
            Some(&headers.find(|(name, _)| name == wanted)?.1[..])
        };
        assert!(
            header("lookaside-reason").unwrap().contains(reason),
            "{letter:?}"
        );
        assert_eq!(header("lookaside-source"), Some("clicks[2]"));
        assert_eq!(header("lookaside-position"), position);
    }
    assert_eq!(letters.len(), 3);
    assert_eq!(partition.acknowledged(), Some(15));
}

#[test]
fn an_empty_payload_is_rejected() {
    let partition = Partition::new("t", 0);
    let messages = vec![sent(0, "one"), sent(1, ""), sent(2, "two")];
    let script = Script::new(std::slice::from_ref(&partition), messages, 3);
    let memory = Memory::default();
    let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
    let options = RunOptions::default();
    let summary = run(&flow("raw", "raw", &[]), script, Identity, sink, options);
    assert_eq!(payloads(&memory), ["one", "two"]);
    assert_eq!((summary.events_in, summary.rejects.count()), (3, 1));
    assert_eq!(summary.rejects.first()[0].reason, "the payload is empty");
    assert_eq!(partition.acknowledged(), Some(3));
}

#[test]
fn a_refused_message_ends_a_strict_run() {
    let out = Memory {
        poison: Some("poison"),
        ..Memory::default()
    };
    let partition = Partition::new("t", 0);
    let script = Script::new(std::slice::from_ref(&partition), vec![sent(0, "poison")], 1);
    let source = Source::new().with_messages("script", Box::new(script));
    let options = RunOptions {
        strictness: Strictness::Strict,
        ..RunOptions::default()
    };
    let sink = Sink::messages("out", Box::new(out), ResultMeta::default());
    let flow = flow("raw", "raw", &[]);
    let error = flow.run(source, vec![Identity], sink, options).unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
    assert_eq!(partition.acknowledged(), None);
}

#[test]
fn a_limit_acknowledges_only_the_messages_before_it() {
    for (limit, count_at_once, framing, expected) in [
        (1, 10, MessageFraming::Message, 1),
        (4, 3, MessageFraming::Message, 4),
        (10, 10, MessageFraming::Message, 10),
        // A message is processed as a whole.
        (3, 10, MessageFraming::Lines, 2),
    ] {
        let partition = Partition::new("t", 0);
        let messages = (0..10).map(|n| sent(n, "one\ntwo"));
        let script = Script::new(
            std::slice::from_ref(&partition),
            messages.collect(),
            count_at_once,
        );
        let memory = Memory::default();
        let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
        let options = RunOptions {
            event_limit: NonZero::new(limit),
            framing,
            ..RunOptions::default()
        };
        let summary = run(&flow("raw", "raw", &[]), script, Identity, sink, options);
        assert_eq!(summary.end, End::Limit);
        assert_eq!(partition.acknowledged(), Some(expected), "{limit}");
        let lines = if framing == MessageFraming::Lines {
            2
        } else {
            1
        };
        assert_eq!(payloads(&memory).len() as u64, expected * lines);
    }
}

/// A sink that delivers later, in any order, from another thread, until it is told to stop.
pub(crate) struct Delayed(pub(crate) Sender<(Arc<Receipt>, usize, Vec<u8>)>);

impl MessageSink for Delayed {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        for message in messages.iter() {
            let payload = message.payload().unwrap().to_vec();
            let sent = (Arc::clone(receipt), message.segment(), payload);
            self.0.send(sent).map_err(|_| io::ErrorKind::Interrupted)?;
        }
        Ok(())
    }

    fn flush(&mut self, _: Duration) -> io::Result<bool> {
        Ok(true)
    }
}

/// Drops, keeps and repeats records by their number.
#[derive(Clone)]
struct Multiplies;

impl Transform for Multiplies {
    fn transform(&mut self, batch: &mut Batch, _: &mut Report) {
        let raw = batch.names().name("raw").unwrap();
        let mut copies = Vec::new();
        batch.retain(|record| {
            let text = record.value(raw).unwrap().as_str().unwrap();
            let number: usize = text.split(' ').next_back().unwrap().parse().unwrap();
            copies.extend((1..number % 3).map(|_| record.clone()));
            !number.is_multiple_of(3)
        });
        copies.into_iter().for_each(|record| batch.push(record));
    }
}

#[test]
fn what_is_acknowledged_was_delivered_in_any_order_of_deliveries() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let partitions: Vec<_> = (0..random.i32(1..4))
            .map(|number| Partition::new("t", number))
            .collect();
        let mut positions = vec![0_u64; partitions.len()];
        let messages: Vec<_> = (0..random.usize(0..200))
            .map(|_| {
                let partition = random.usize(..partitions.len());
                positions[partition] += random.u64(1..3);
                let position = positions[partition] - 1;
                let payload = format!("{partition} {position}");
                Sent {
                    partition,
                    ..sent(position, &payload)
                }
            })
            .collect();
        let (sender, receiver) = mpsc::channel::<(Arc<Receipt>, usize, Vec<u8>)>();
        // It stops to deliver after some of the results, as a broker that is lost.
        let delivered_max = random.usize(0..500);
        let mut order = random.fork();
        let deliverer = thread::spawn(move || {
            let (mut waiting, mut delivered) = (Vec::new(), Vec::new());
            let mut is_open = true;
            while delivered.len() < delivered_max && (is_open || !waiting.is_empty()) {
                match receiver.try_recv() {
                    Ok(sent) => waiting.push(sent),
                    Err(mpsc::TryRecvError::Disconnected) => is_open = false,
                    Err(mpsc::TryRecvError::Empty) => thread::yield_now(),
                }
                if !waiting.is_empty() && order.bool() {
                    let place = order.usize(..waiting.len());
                    let (receipt, segment, payload) = waiting.swap_remove(place);
                    delivered.push(payload);
                    receipt.deliver(segment, 1);
                }
            }
            delivered
        });
        let script = Script::new(&partitions, messages.clone(), random.usize(1..20));
        let sink = Sink::messages("later", Box::new(Delayed(sender)), ResultMeta::default());
        let options = RunOptions {
            give_up: Some(StopFlag::new().unwrap()),
            ..RunOptions::default()
        };
        run(&flow("raw", "raw", &[]), script, Multiplies, sink, options);
        let delivered = deliverer.join().unwrap();
        for (index, partition) in partitions.iter().enumerate() {
            let own = messages.iter().filter(|sent| sent.partition == index);
            let is_delivered = |sent: &&Sent| {
                let wanted = sent.position as usize % 3;
                let count = delivered
                    .iter()
                    .filter(|payload| Some(*payload) == sent.payload.as_ref())
                    .count();
                count == wanted
            };
            let mut expected = None;
            let mut own = own.peekable();
            while let Some(sent) = own.next_if(is_delivered) {
                expected = Some(sent.position + 1);
            }
            // Messages are acknowledged with those of their partition in the same read.
            assert!(partition.acknowledged() <= expected, "{partition:?}");
            if delivered.len() < delivered_max && own.peek().is_none() {
                assert_eq!(partition.acknowledged(), expected, "{partition:?}");
                assert!(partition.is_settled());
            }
        }
    }
}

#[test]
fn a_checkpoint_moves_when_messages_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (log, checkpoint) = (folder.path().join("log"), folder.path().join("checkpoint"));
    std::fs::write(&log, "one\ntwo\n").unwrap();
    let stop = StopFlag::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let running = thread::spawn({
        let (log, checkpoint, stop) = (log.clone(), checkpoint.clone(), stop.clone());
        move || {
            let options = RunOptions {
                stop: Some(stop),
                checkpoint: Some(Checkpoint::open(&checkpoint, &log).unwrap()),
                ..RunOptions::default()
            };
            let sink = Sink::messages("later", Box::new(Delayed(sender)), ResultMeta::default());
            let source = Source::new().with_followed(&log).unwrap();
            flow("raw", "raw", &[]).run(source, vec![Identity], sink, options)
        }
    });
    let first = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    let stored = || std::fs::read_to_string(&checkpoint).unwrap();
    assert!(stored().contains("offset 0 "), "{}", stored());
    for (receipt, segment, _) in first {
        receipt.deliver(segment, 1);
    }
    stop.raise();
    assert_eq!(running.join().unwrap().unwrap().end, End::Stopped);
    assert!(stored().contains("offset 8 "), "{}", stored());
}

/// A source of a message without a payload, which its source rejects, and one that is null.
struct Problems(Arc<Partition>, u64);

impl MessageSource for Problems {
    fn read(&mut self, messages: &mut Messages, _: Duration) -> io::Result<MessageRead> {
        if self.1 > 0 {
            return Ok(MessageRead::End);
        }
        self.1 = 2;
        messages.push(&self.0, 0, None, Some(b"a"));
        messages.push_header("other", Some(b"value"));
        messages.set_problem("it has no field `payload`");
        messages.push(&self.0, 1, None, Some(b"b"));
        Ok(MessageRead::Messages)
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_message_that_its_source_rejects_becomes_a_dead_letter() {
    let partition = Partition::new("stream", 0);
    let source = Problems(Arc::clone(&partition), 0);
    let source = Source::new().with_messages("problems", Box::new(source));
    let (out, dead) = (Memory::default(), Memory::default());
    let options = RunOptions {
        on_null: OnNull::Forward,
        rejects: Some(Sink::messages(
            "dead",
            Box::new(dead.clone()),
            ResultMeta::default(),
        )),
        ..RunOptions::default()
    };
    let sink = Sink::messages("memory", Box::new(out.clone()), ResultMeta::default());
    let flow = flow("json", "json", &[]);
    let summary = flow.run(source, vec![Identity], sink, options).unwrap();
    assert_eq!((summary.events_in, summary.events_out), (2, 1));
    assert_eq!(summary.rejects.count(), 1);
    // Only the null payload is forwarded.
    let keys = |memory: &Memory| {
        let taken = memory.taken.lock().unwrap();
        let keys = taken.iter().map(|taken| taken.key.clone().unwrap());
        keys.collect::<Vec<_>>()
    };
    assert_eq!(
        (keys(&out), keys(&dead)),
        (vec!["b".into()], vec!["a".into()])
    );
    let letter = &dead.taken.lock().unwrap()[0];
    let header = |wanted: &str| {
        let mut headers = letter.headers.iter();
        &headers.find(|(name, _)| name == wanted).unwrap().1
    };
    assert_eq!(
        (letter.payload.as_ref(), &**header("other")),
        (None, "value")
    );
    assert_eq!(header("lookaside-reason"), "it has no field `payload`");
    assert_eq!(partition.acknowledged(), Some(2));
}

#[test]
fn formats_with_a_header_are_refused_for_messages() {
    let script = || {
        let script = Script::new(&[Partition::new("t", 0)], vec![], 1);
        Source::new().with_messages("script", Box::new(script))
    };
    let sink = || Sink::messages("memory", Box::new(Memory::default()), ResultMeta::default());
    let run = |flow: Flow| flow.run(script(), vec![Identity], sink(), RunOptions::default());
    let error = run(flow("csv", "json", &[])).unwrap_err().to_string();
    assert!(error.contains("`columns`"), "{error}");
    let error = run(flow("raw", "csv", &[])).unwrap_err().to_string();
    assert!(error.contains("`columns`"), "{error}");
    let columns = FormatOptions::new().set("columns", "a");
    let flow = Flow::new(
        InputFormat::new("csv", &columns).unwrap(),
        OutputFormat::new("csv", &columns).unwrap(),
    );
    run(flow).unwrap();
}

/// A source that has received `count` messages when the run is stopped, at the first read.
struct Stopped {
    partition: Arc<Partition>,
    count: u64,
    stop: StopFlag,
    on_stop: OnStop,
    /// The answer to reads when there are no more messages.
    last: MessageRead,
}

impl MessageSource for Stopped {
    fn read(&mut self, messages: &mut Messages, _: Duration) -> io::Result<MessageRead> {
        self.stop.raise();
        let position = self.partition.read_end();
        if position == self.count {
            return Ok(self.last);
        }
        messages.push(&self.partition, position, Some(b"{}"), None);
        Ok(MessageRead::Messages)
    }

    fn stop(&mut self) -> OnStop {
        self.on_stop
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_source_whose_messages_no_other_run_can_read_is_drained_by_a_stop() {
    for (on_stop, last, limit, expected) in [
        (OnStop::Leave, MessageRead::End, None, (1, End::Stopped)),
        (OnStop::Drain, MessageRead::End, None, (10, End::Stopped)),
        (OnStop::Drain, MessageRead::Idle, None, (10, End::Stopped)),
        // A run that ends for another reason reads nothing more.
        (OnStop::Drain, MessageRead::End, Some(3), (3, End::Limit)),
    ] {
        let count = limit.map_or(10, |_| u64::MAX);
        let partition = Partition::new("received", 0);
        let stop = StopFlag::new().unwrap();
        let source = Stopped {
            partition: Arc::clone(&partition),
            count,
            stop: stop.clone(),
            on_stop,
            last,
        };
        let source = Source::new().with_messages("received", Box::new(source));
        let options = RunOptions {
            stop: Some(stop),
            event_limit: limit.and_then(NonZero::new),
            ..RunOptions::default()
        };
        let memory = Memory::default();
        let sink = Sink::messages("memory", Box::new(memory.clone()), ResultMeta::default());
        let flow = flow("json", "json", &[]);
        let summary = flow.run(source, vec![Identity; 2], sink, options).unwrap();
        assert_eq!((summary.events_out, summary.end), expected);
        assert_eq!(partition.acknowledged(), Some(expected.0));
    }
}

#[test]
fn the_time_of_a_batch_ends_with_its_delivery() {
    let timed = |sink: Sink| {
        let messages = (0..10).map(|n| sent(n, "one"));
        let script = Script::new(&[Partition::new("t", 0)], messages.collect(), 5);
        let options = RunOptions::default();
        let progress = options.progress.clone();
        run(&flow("raw", "raw", &[]), script, Identity, sink, options);
        progress.latencies()
    };
    let memory = Sink::messages("memory", Box::new(Memory::default()), ResultMeta::default());
    assert!(timed(memory).percentile(0.99).is_some());
    assert!(timed(Sink::null()).percentile(0.99).is_some());
    // What is never delivered has no such time.
    let (sender, _receiver) = mpsc::channel();
    let delayed = Sink::messages("later", Box::new(Delayed(sender)), ResultMeta::default());
    assert_eq!(timed(delayed).percentile(0.99), None);

    // Bytes from a file to a sink of bytes.
    let options = RunOptions::default();
    let progress = options.progress.clone();
    let source = Source::new().with_reader("lines", &b"one\n"[..]);
    let flow = flow("raw", "raw", &[]);
    flow.run(source, vec![Identity], Sink::null(), options)
        .unwrap();
    assert!(progress.latencies().percentile(0.5).is_some());
}

/// A sink that the run gives up.
struct GivenUp;

impl MessageSink for GivenUp {
    fn write(&mut self, _: &Messages, _: &Arc<Receipt>) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self, _: Duration) -> io::Result<bool> {
        Err(io::ErrorKind::Interrupted.into())
    }
}

#[test]
fn a_summary_says_whether_everything_was_delivered() {
    let is_undelivered = |sink: Box<dyn MessageSink>| {
        let script = Script::new(&[Partition::new("t", 0)], vec![sent(0, "one")], 1);
        let sink = Sink::messages("out", sink, ResultMeta::default());
        let options = RunOptions::default();
        let summary = run(&flow("raw", "raw", &[]), script, Identity, sink, options);
        assert_eq!(summary.events_out, 1);
        summary.is_undelivered
    };
    assert!(is_undelivered(Box::new(GivenUp)));
    assert!(!is_undelivered(Box::<Memory>::default()));
}
