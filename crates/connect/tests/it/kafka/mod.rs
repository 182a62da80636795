//! Kafka: a broker of its own for tests that stop it, and one that the others share.

mod dialogues;
mod exactly_once;
mod failures;
mod groups;
mod messages;
#[cfg(feature = "kafka-tls")]
mod mock_cluster;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use lookaside_testing::KafkaBroker;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Headers;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Message, Offset, TopicPartitionList};

use super::running::{Running, start, try_sink, try_source, unique};

/// How long a test waits for what must happen on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

fn config(broker: &KafkaBroker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address());
    config
}

/// Creates a topic with options of it.
pub(crate) fn create_topic(
    broker: &KafkaBroker,
    partitions: i32,
    options: &[(&str, &str)],
) -> String {
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
pub(crate) fn produce<'a>(
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
pub(crate) struct Found {
    pub(crate) partition: i32,
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<String>,
    pub(crate) headers: HashMap<String, String>,
}

/// All messages of a topic.
pub(crate) fn consume(broker: &KafkaBroker, topic: &str) -> Vec<Found> {
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
