//! Where partitions begin that have no stored position: at a time or an offset.

use std::thread;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};
use tracing::{debug, warn};

use crate::options::Start;

/// How long one attempt waits for the broker.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long it is waited after a failed attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Sets the offsets at which partitions begin that are being assigned, if they have no offset here
/// and none that the group has stored. A broker that is away is waited for, until `is_closing`;
/// returns whether they are set.
pub(super) fn set<C: ConsumerContext + 'static>(
    consumer: &BaseConsumer<C>,
    connector: &str,
    start: Start,
    assigned: &mut TopicPartitionList,
    is_closing: impl Fn() -> bool,
) -> bool {
    if matches!(start, Start::Earliest | Start::Latest) {
        // The library does so by `auto.offset.reset`.
        return true;
    }
    let mut has_failed = false;
    loop {
        match try_set(consumer, start, assigned) {
            Ok(()) => return true,
            Err(error) if has_failed => debug!(connector, %error, "still no offsets to begin at"),
            Err(error) => warn!(connector, %error, "the offsets to begin at cannot be read"),
        }
        has_failed = true;
        if is_closing() {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

fn try_set<C: ConsumerContext + 'static>(
    consumer: &BaseConsumer<C>,
    start: Start,
    assigned: &mut TopicPartitionList,
) -> KafkaResult<()> {
    let stored = consumer.committed_offsets(assigned.clone(), TIMEOUT)?;
    let has_offset = |offset| matches!(offset, Offset::Offset(_));
    let mut wanted = TopicPartitionList::new();
    for element in assigned.elements() {
        let (topic, number) = (element.topic(), element.partition());
        let found = stored.find_partition(topic, number);
        let is_stored = found.is_some_and(|found| has_offset(found.offset()));
        if is_stored || has_offset(element.offset()) {
            continue;
        }
        let offset = match start {
            Start::Time(time) => Offset::Offset(time),
            Start::Position(position) => {
                let (first, end) = consumer.fetch_watermarks(topic, number, TIMEOUT)?;
                let position = i64::try_from(position).unwrap_or(i64::MAX);
                Offset::Offset(position.clamp(first, end))
            }
            Start::Earliest => Offset::Beginning,
            Start::Latest => Offset::End,
        };
        wanted.add_partition_offset(topic, number, offset)?;
    }
    if let Start::Time(_) = start
        && wanted.count() > 0
    {
        wanted = consumer.offsets_for_times(wanted, TIMEOUT)?;
    }
    for element in wanted.elements() {
        element.error()?;
        // Without a message of that time or later, it is `Offset::End`.
        assigned.set_partition_offset(element.topic(), element.partition(), element.offset())?;
    }
    Ok(())
}
