//! Kafka: a broker of its own for tests that stop it, and one that the others share.

mod exactly_once;
mod failures;
mod groups;
mod messages;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lookaside_connect::{ConnectUrl, Error};
use lookaside_stream::{
    Flow, FormatOptions, InputFormat, OutputFormat, Progress, RunOptions, Sink, Source, StopFlag,
    Summary, Transform,
};
use lookaside_testing::{KafkaBroker, wait_until};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

/// How long a test waits for what must happen on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A name that no other test uses.
fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{count}", std::process::id())
}

fn config(broker: &KafkaBroker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address());
    config
}

/// Creates a topic with options of it.
fn create_topic(broker: &KafkaBroker, partitions: i32, options: &[(&str, &str)]) -> String {
    let topic = unique("topic");
    let admin: AdminClient<DefaultClientContext> = config(broker).create().unwrap();
    let mut new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
    for (name, value) in options {
        new = new.set(name, value);
    }
    let timeout = AdminOptions::new().operation_timeout(Some(LIMIT));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let created = runtime
        .block_on(admin.create_topics([&new], &timeout))
        .unwrap();
    created[0].as_ref().unwrap();
    topic
}

/// Writes messages with key and payload; those of a key are in one partition.
fn produce<'a>(
    broker: &KafkaBroker,
    topic: &str,
    messages: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) {
    let producer: ThreadedProducer<DefaultProducerContext> = config(broker)
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    for (key, payload) in messages {
        let mut record = BaseRecord::to(topic).key(key);
        record.payload = payload;
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(LIMIT).unwrap();
}

/// A message as it was found in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    partition: i32,
    key: Option<String>,
    payload: Option<String>,
    headers: HashMap<String, String>,
}

/// All messages of a topic.
fn consume(broker: &KafkaBroker, topic: &str) -> Vec<Found> {
    let consumer: BaseConsumer = config(broker)
        .set("group.id", unique("reader"))
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT).unwrap();
    let mut assigned = TopicPartitionList::new();
    let mut left = 0;
    for partition in metadata.topics()[0].partitions() {
        let (low, high) = consumer
            .fetch_watermarks(topic, partition.id(), LIMIT)
            .unwrap();
        left += high - low;
        assigned
            .add_partition_offset(topic, partition.id(), Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assigned).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    let begun = Instant::now();
    while left > 0 && begun.elapsed() < LIMIT {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let message = message.unwrap();
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        found.push(Found {
            partition: message.partition(),
            key: message.key().map(text),
            payload: message.payload().map(text),
            headers: headers
                .map(|header| {
                    (
                        header.key.to_owned(),
                        text(header.value.unwrap_or_default()),
                    )
                })
                .collect(),
        });
        left -= 1;
    }
    assert_eq!(left, 0, "all messages of {topic} are found");
    found
}

/// How often each payload is among the committed messages of a topic.
fn count_committed(broker: &KafkaBroker, topic: &str) -> HashMap<String, usize> {
    let consumer: BaseConsumer = config(broker)
        .set("group.id", unique("reader"))
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT).unwrap();
    let mut assigned = TopicPartitionList::new();
    let partitions = metadata.topics()[0].partitions();
    for partition in partitions {
        assigned
            .add_partition_offset(topic, partition.id(), Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assigned).unwrap();
    let (mut counts, mut ended) = (HashMap::new(), HashSet::new());
    let begun = Instant::now();
    while ended.len() < partitions.len() {
        assert!(begun.elapsed() < LIMIT, "all messages of {topic} are read");
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Err(KafkaError::PartitionEOF(partition))) => _ = ended.insert(partition),
            Some(message) => {
                let message = message.unwrap();
                let payload = String::from_utf8(message.payload().unwrap().to_vec()).unwrap();
                *counts.entry(payload).or_default() += 1;
            }
        }
    }
    counts
}

/// The positions that a group has stored, by partition.
fn committed(broker: &KafkaBroker, group: &str, topic: &str, partitions: i32) -> Vec<Option<i64>> {
    let consumer: BaseConsumer = config(broker).set("group.id", group).create().unwrap();
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition_range(topic, 0, partitions - 1);
    let found = consumer.committed_offsets(wanted, LIMIT).unwrap();
    let offsets = found
        .elements()
        .into_iter()
        .map(|element| match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        });
    offsets.collect()
}

/// A run of its own thread.
struct Running {
    stop: StopFlag,
    give_up: StopFlag,
    progress: Progress,
    thread: JoinHandle<lookaside_stream::Result<Summary>>,
}

impl Running {
    /// Raises the stop flag and waits for the end.
    fn stop(self) -> Summary {
        self.stop.raise();
        self.thread.join().unwrap().unwrap()
    }

    fn wait_for_events(&self, count: u64) {
        wait_until("events are written", || {
            self.progress.figures().events_out >= count
        });
    }
}

fn try_source(url: &str) -> Result<(Source, RunOptions), Error> {
    let url: ConnectUrl = url.parse()?;
    let opened = lookaside_connect::open_source(&url)?;
    let options = RunOptions {
        framing: opened.framing,
        on_null: opened.on_null,
        ..RunOptions::default()
    };
    let source = Source::new().with_messages(&url.name(), opened.source);
    Ok((source, options))
}

fn try_sink(url: &str) -> Result<Sink, Error> {
    let url: ConnectUrl = url.parse()?;
    let opened = lookaside_connect::open_sink(&url)?;
    Ok(Sink::messages(&url.name(), opened.sink, opened.key_field))
}

/// Starts a run of JSON events from a topic to a topic.
fn start<T: Transform + Clone + 'static>(
    source: &str,
    sink: &str,
    rejects: Option<&str>,
    transform: T,
) -> Running {
    let urls: [ConnectUrl; 2] = [source, sink].map(|url| url.parse().unwrap());
    let (source, sink) = lookaside_connect::open_pair(&urls[0], &urls[1]).unwrap();
    let options = RunOptions {
        framing: source.framing,
        on_null: source.on_null,
        ..RunOptions::default()
    };
    let source = Source::new().with_messages(&urls[0].name(), source.source);
    let sink = Sink::messages(&urls[1].name(), sink.sink, sink.key_field);
    let (stop, give_up) = (StopFlag::new().unwrap(), StopFlag::new().unwrap());
    let progress = Progress::new();
    let options = RunOptions {
        stop: Some(stop.clone()),
        give_up: Some(give_up.clone()),
        progress: progress.clone(),
        rejects: rejects.map(|rejects| try_sink(rejects).unwrap()),
        ..options
    };
    let formats = FormatOptions::new();
    let flow = Flow::new(
        InputFormat::new("json", &formats).unwrap(),
        OutputFormat::new("json", &formats).unwrap(),
    );
    let run = move || {
        let result = flow.run(source, vec![transform; 2], sink, options);
        if let Err(error) = &result {
            // The test may wait for events before it joins the thread.
            eprintln!("the run failed: {error:?}");
        }
        result
    };
    Running {
        stop,
        give_up,
        progress,
        thread: thread::spawn(run),
    }
}
