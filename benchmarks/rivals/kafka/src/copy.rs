//! Reads messages and writes them to another topic.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};

use crate::{TIMEOUT, consumer_config, next, producer_config};

/// Copy a number of messages from topic to topic, at least once
#[derive(Args)]
pub(crate) struct CopyArguments {
    #[arg(long)]
    group: String,
    #[arg(long)]
    from: String,
    #[arg(long)]
    to: String,
    /// How many messages are copied.
    #[arg(long)]
    count: u64,
}

/// How often positions are stored.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Counts what is delivered.
struct Deliveries(Arc<AtomicU64>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => self.0.fetch_add(1, Ordering::Relaxed),
            Err((error, _)) => panic!("a message is not delivered: {error}"),
        };
    }
}

pub(crate) fn run(broker: &str, arguments: &CopyArguments) -> Result<()> {
    let consumer: BaseConsumer = consumer_config(broker, &arguments.group).create()?;
    consumer.subscribe(&[&arguments.from])?;
    let delivered = Arc::<AtomicU64>::default();
    let producer: ThreadedProducer<_> =
        producer_config(broker).create_with_context(Deliveries(delivered.clone()))?;
    let mut positions = HashMap::new();
    let (mut count, mut committed) = (0, Instant::now());
    while count < arguments.count {
        let message = next(&consumer)?;
        let mut record = BaseRecord::<[u8], [u8]>::to(&arguments.to);
        record.key = message.key();
        record.payload = message.payload();
        while let Err((error, back)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            record = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        positions.insert(message.partition(), message.offset() + 1);
        count += 1;
        if committed.elapsed() >= COMMIT_INTERVAL {
            commit(&consumer, &producer, &arguments.from, &positions)?;
            committed = Instant::now();
        }
    }
    commit(&consumer, &producer, &arguments.from, &positions)?;
    assert_eq!(delivered.load(Ordering::Relaxed), count);
    Ok(())
}

/// Stores the positions of what was read, once it is delivered.
fn commit(
    consumer: &BaseConsumer,
    producer: &ThreadedProducer<Deliveries>,
    topic: &str,
    positions: &HashMap<i32, i64>,
) -> Result<()> {
    producer.flush(TIMEOUT)?;
    let mut list = TopicPartitionList::new();
    for (partition, position) in positions {
        list.add_partition_offset(topic, *partition, Offset::Offset(*position))?;
    }
    Ok(consumer.commit(&list, CommitMode::Async)?)
}
