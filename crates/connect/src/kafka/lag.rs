//! The lag of the partitions of a consumer.

use std::collections::HashMap;
use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::group::Group;
use crate::lag::{ANSWER_TIMEOUT, LagReader, PartitionLag};

/// Queries the ends of all partitions with one request to each broker. The ends that the library knows
/// are those of its last fetch, and what is paused is not fetched.
///
/// The reader does not keep the consumer, which leaves its group when the source is closed.
pub(crate) fn reader(consumer: &Arc<BaseConsumer<Group>>) -> LagReader {
    let consumer = Arc::downgrade(consumer);
    LagReader::new(move || match consumer.upgrade() {
        Some(consumer) => read(&consumer).ok(),
        None => Some(Vec::new()),
    })
}

fn read(consumer: &BaseConsumer<Group>) -> KafkaResult<Vec<PartitionLag>> {
    let assigned = consumer.assignment()?;
    if assigned.count() == 0 {
        return Ok(Vec::new());
    }
    let positions = positions(consumer, &assigned)?;
    let mut times = TopicPartitionList::new();
    for (topic, number) in positions.keys() {
        times.add_partition_offset(topic, *number, Offset::End)?;
    }
    let ends = consumer.offsets_for_times(times, ANSWER_TIMEOUT)?;
    let elements = ends.elements().into_iter();
    Ok(elements
        .filter_map(|element| {
            let Offset::Offset(end) = element.offset() else {
                return None;
            };
            let (topic, partition) = (element.topic().to_owned(), element.partition());
            let position = positions.get(&(topic.clone(), partition))?;
            Some(PartitionLag {
                topic,
                partition,
                messages: u64::try_from(end).ok()?.saturating_sub(*position),
            })
        })
        .collect())
}

/// The position of each partition: that up to which its messages are delivered, or the stored one if
/// none was read yet.
fn positions(
    consumer: &BaseConsumer<Group>,
    assigned: &TopicPartitionList,
) -> KafkaResult<HashMap<(String, i32), u64>> {
    let mut positions = HashMap::new();
    let mut unread = TopicPartitionList::new();
    for element in assigned.elements() {
        let (topic, number) = (element.topic(), element.partition());
        match consumer.context().position(topic, number) {
            Some(position) => _ = positions.insert((topic.to_owned(), number), position),
            None => _ = unread.add_partition(topic, number),
        }
    }
    if unread.count() > 0 {
        let stored = consumer.committed_offsets(unread, ANSWER_TIMEOUT)?;
        for element in stored.elements() {
            if let Offset::Offset(offset) = element.offset()
                && let Ok(position) = u64::try_from(offset)
            {
                let key = (element.topic().to_owned(), element.partition());
                positions.insert(key, position);
            }
        }
    }
    Ok(positions)
}
