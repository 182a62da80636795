//! The thread of a consumer: polls messages, stores positions, and takes part in rebalances.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TryRecvError};
use lookaside_stream::{Messages, Partition};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{ClientContext, Message, Offset, Statistics, Timestamp, TopicPartitionList};
use tracing::{debug, info, warn};

use super::context::Log;
use crate::read_queue::{READ_COUNT, READ_SIZE, ReadQueue};

/// How long a poll waits.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the run may read nothing until partitions are paused. Pausing discards what was fetched
/// in advance, so that short pauses of the run must not cause it; it is far below the least
/// `max.poll.interval.ms` that anyone uses.
const STALL: Duration = Duration::from_secs(1);

/// How long a rebalance waits for what is under way in a revoked partition, so that it is not
/// processed twice; below the session time-out, after which the partition is lost anyway.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a rebalance looks whether what is under way is delivered.
const REVOKE_POLL: Duration = Duration::from_millis(50);

/// The partitions that are assigned to this consumer.
pub(super) struct Group {
    name: String,
    log: Log,
    partitions: Mutex<HashMap<(Box<str>, i32), Assigned>>,
}

struct Assigned {
    partition: Arc<Partition>,
    /// The position that was stored last.
    committed: Option<u64>,
}

impl Group {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            log: Log::new(name),
            partitions: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Box<str>, i32), Assigned>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The partition of a message, which is assigned.
    fn partition(&self, topic: &str, number: i32) -> Arc<Partition> {
        let mut partitions = self.lock();
        let assigned = partitions
            .entry((topic.into(), number))
            .or_insert_with(|| Assigned {
                partition: Partition::new(topic, number),
                committed: None,
            });
        Arc::clone(&assigned.partition)
    }

    /// The positions that were acknowledged since they were stored last.
    fn positions(&self) -> TopicPartitionList {
        let mut positions = TopicPartitionList::new();
        for ((topic, number), assigned) in &mut *self.lock() {
            let acknowledged = assigned.partition.acknowledged();
            if let Some(position) = acknowledged
                && acknowledged != assigned.committed
            {
                add(&mut positions, topic, *number, position);
                assigned.committed = acknowledged;
            }
        }
        positions
    }

    /// Stores the positions of revoked partitions, after waiting for what is under way in them.
    fn revoke(&self, consumer: &BaseConsumer<Self>, revoked: &TopicPartitionList) {
        let mut removed = Vec::new();
        {
            let mut partitions = self.lock();
            for element in revoked.elements() {
                let key = (element.topic().into(), element.partition());
                removed.extend(partitions.remove(&key));
            }
        }
        removed
            .iter()
            .for_each(|assigned| assigned.partition.revoke());
        if removed.is_empty() || consumer.assignment_lost() {
            return;
        }
        let deadline = Instant::now() + REVOKE_TIMEOUT;
        let mut positions = TopicPartitionList::new();
        for assigned in &removed {
            let partition = &assigned.partition;
            while !partition.wait_settled(REVOKE_POLL) && Instant::now() < deadline {}
            let acknowledged = partition.acknowledged();
            if let Some(position) = acknowledged
                && acknowledged != assigned.committed
            {
                add(
                    &mut positions,
                    partition.topic(),
                    partition.number(),
                    position,
                );
            }
        }
        if positions.count() > 0
            && let Err(error) = consumer.commit(&positions, CommitMode::Sync)
        {
            warn!(connector = self.name, %error, "positions of revoked partitions are not stored");
        }
    }
}

fn add(positions: &mut TopicPartitionList, topic: &str, number: i32, position: u64) {
    let offset = i64::try_from(position).expect("offsets of Kafka are signed");
    positions
        .add_partition_offset(topic, number, Offset::Offset(offset))
        .expect("an offset from 0 on is valid");
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.log.error(error, reason);
    }
}

impl ConsumerContext for Group {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Revoke(revoked) => self.revoke(consumer, revoked),
            Rebalance::Assign(_) => {}
            Rebalance::Error(error) => warn!(connector = self.name, %error, "rebalance failed"),
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let (change, list) = match rebalance {
            Rebalance::Assign(list) => ("assigned", list),
            Rebalance::Revoke(list) => ("revoked", list),
            Rebalance::Error(_) => return,
        };
        if list.count() > 0 {
            info!(
                connector = self.name,
                count = list.count(),
                "partitions {change}"
            );
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            // The next commit includes these positions, or the partition has a new owner.
            debug!(connector = self.name, %error, "positions are not stored");
        }
    }
}

/// A read that could not be passed on yet.
struct Pending {
    messages: Messages,
    since: Option<Instant>,
    is_paused: bool,
}

/// Polls until the source is closed or cannot be read any more, and then leaves the group.
pub(super) fn consume(
    consumer: BaseConsumer<Group>,
    commit_interval: Duration,
    queue: &ReadQueue,
) -> io::Result<()> {
    let ReadQueue {
        reads,
        spares,
        stopped,
    } = queue;
    let mut pending = Pending {
        messages: Messages::new(),
        since: None,
        is_paused: false,
    };
    let mut last: Option<Arc<Partition>> = None;
    let mut committed = Instant::now();
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        let is_full =
            pending.messages.payload_size() >= READ_SIZE || pending.messages.len() >= READ_COUNT;
        if is_full || pending.since.is_some() {
            pass_on(&consumer, &mut pending, reads, spares);
        }
        // While the run does not read, polls keep the group informed without reading more.
        if pending.since.is_none() || pending.is_paused {
            let timeout = match pending.messages.is_empty() || pending.is_paused {
                true => POLL_TIMEOUT,
                false => Duration::ZERO,
            };
            match consumer.poll(timeout) {
                Some(Ok(message)) => push(&consumer, &message, &mut pending.messages, &mut last),
                Some(Err(error)) => {
                    if let Some(error) = fatal(error, consumer.context()) {
                        let _ = reads.send(Err(error));
                        break;
                    }
                }
                None if pending.messages.is_empty() => {}
                None => pass_on(&consumer, &mut pending, reads, spares),
            }
        }
        if committed.elapsed() >= commit_interval {
            let positions = consumer.context().positions();
            if positions.count() > 0
                && let Err(error) = consumer.commit(&positions, CommitMode::Async)
            {
                debug!(connector = consumer.context().name, %error, "positions are not stored");
            }
            committed = Instant::now();
        }
    }
    let positions = consumer.context().positions();
    match positions.count() {
        0 => Ok(()),
        _ => consumer
            .commit(&positions, CommitMode::Sync)
            .map_err(io::Error::other),
    }
}

/// Passes a read on, if the run takes it soon; otherwise partitions are paused after a while.
fn pass_on(
    consumer: &BaseConsumer<Group>,
    pending: &mut Pending,
    reads: &Sender<io::Result<Messages>>,
    spares: &Receiver<Messages>,
) {
    let messages = std::mem::take(&mut pending.messages);
    let timeout = match pending.is_paused {
        true => Duration::ZERO,
        false => POLL_TIMEOUT,
    };
    match reads.send_timeout(Ok(messages), timeout) {
        Ok(()) => {
            pending.messages = spares.try_recv().unwrap_or_default();
            pending.messages.clear();
            pending.since = None;
            if pending.is_paused {
                set_paused(consumer, false);
                pending.is_paused = false;
            }
        }
        Err(SendTimeoutError::Timeout(messages)) => {
            pending.messages = messages.expect("messages were sent");
            let since = *pending.since.get_or_insert_with(Instant::now);
            // Also partitions that were assigned since.
            if since.elapsed() >= STALL {
                set_paused(consumer, true);
                pending.is_paused = true;
            }
        }
        // The source is being closed.
        Err(SendTimeoutError::Disconnected(_)) => {}
    }
}

/// Pauses or resumes all partitions that are assigned.
fn set_paused(consumer: &BaseConsumer<Group>, is_paused: bool) {
    let changed = consumer.assignment().and_then(|assigned| match is_paused {
        true => consumer.pause(&assigned),
        false => consumer.resume(&assigned),
    });
    if let Err(error) = changed {
        debug!(connector = consumer.context().name, %error, is_paused, "partitions not changed");
    }
}

fn push(
    consumer: &BaseConsumer<Group>,
    message: &BorrowedMessage<'_>,
    messages: &mut Messages,
    last: &mut Option<Arc<Partition>>,
) {
    let (topic, number) = (message.topic(), message.partition());
    let is_it = |partition: &&Arc<Partition>| {
        partition.number() == number && **partition.topic() == *topic && !partition.is_revoked()
    };
    if last.as_ref().filter(is_it).is_none() {
        *last = Some(consumer.context().partition(topic, number));
    }
    let partition = last.as_ref().expect("it was just set");
    let position = u64::try_from(message.offset()).expect("a message has an offset from 0 on");
    messages.push(partition, position, message.payload(), message.key());
    if let Timestamp::CreateTime(time) | Timestamp::LogAppendTime(time) = message.timestamp() {
        messages.set_timestamp(time);
    }
    for header in message.headers().into_iter().flat_map(Headers::iter) {
        messages.push_header(header.key, header.value);
    }
}

/// The error that ends the source, if it cannot go on; others are passed.
fn fatal(error: KafkaError, group: &Group) -> Option<io::Error> {
    let code = error.rdkafka_error_code();
    let ends = matches!(error, KafkaError::MessageConsumptionFatal(_))
        || matches!(
            code,
            Some(
                RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::GroupAuthorizationFailed
                    | RDKafkaErrorCode::InconsistentGroupProtocol
                    | RDKafkaErrorCode::SaslAuthenticationFailed
            )
        );
    if ends {
        return Some(io::Error::other(error));
    }
    match code {
        Some(RDKafkaErrorCode::PollExceeded | RDKafkaErrorCode::UnknownTopicOrPartition) => {
            warn!(connector = group.name, %error, "reading is interrupted");
        }
        _ => debug!(connector = group.name, %error, "reading is interrupted"),
    }
    None
}
