//! The thread of a consumer: polls messages, passes them on, and stores positions.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TryRecvError};
use lookaside_stream::{Messages, Partition};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{Message, Timestamp};
use tracing::{debug, warn};

use super::group::Group;
use crate::read_queue::{READ_COUNT, READ_SIZE, ReadQueue};

/// How long a poll waits.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the run may read nothing until partitions are paused. Pausing discards what was fetched
/// in advance, so that short pauses of the run must not cause it; it is far below the least
/// `max.poll.interval.ms` that anyone uses.
const STALL: Duration = Duration::from_secs(1);

/// A read that could not be passed on yet.
struct Pending {
    messages: Messages,
    since: Option<Instant>,
    is_paused: bool,
}

/// Polls until the source is closed or cannot be read any more, and then leaves the group.
pub(super) fn consume(
    consumer: Arc<BaseConsumer<Group>>,
    commit_interval: Duration,
    queue: &ReadQueue,
) {
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
    let group = consumer.context();
    group.set_stopped(stopped.clone());
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
                    if let Some(error) = fatal(error, group) {
                        let _ = reads.send(Err(error));
                        break;
                    }
                }
                None if pending.messages.is_empty() => {}
                None => pass_on(&consumer, &mut pending, reads, spares),
            }
        }
        group.rewind(&consumer);
        if !group.is_transactional() && committed.elapsed() >= commit_interval {
            let positions = group.positions();
            if positions.count() > 0 {
                // Whether they are stored is known to the callback.
                if let Err(error) = consumer.commit(&positions, CommitMode::Async) {
                    debug!(connector = group.name, %error, "positions are not stored");
                }
            }
            committed = Instant::now();
        }
    }
    group.close();
    if group.is_transactional() {
        return;
    }
    let positions = group.positions();
    if positions.count() > 0
        && let Err(error) = consumer.commit(&positions, CommitMode::Sync)
    {
        // Such as one that has lost its place in the group and not joined again.
        warn!(connector = group.name, %error, "the last positions are not stored; events are repeated");
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
    let position = u64::try_from(message.offset()).expect("a message has an offset from 0 on");
    let is_it = |partition: &&Arc<Partition>| {
        partition.number() == number
            && **partition.topic() == *topic
            && !partition.is_revoked()
            && partition.read_end() <= position
    };
    if last.as_ref().filter(is_it).is_none() {
        *last = consumer.context().partition(topic, number, position);
    }
    let Some(partition) = last else {
        return;
    };
    messages.push(partition, position, message.payload(), message.key());
    if let Timestamp::CreateTime(time) | Timestamp::LogAppendTime(time) = message.timestamp() {
        messages.set_timestamp(time);
    }
    let Some(headers) = message.headers() else {
        return;
    };
    for index in 0..headers.count() {
        // The library panics at a name that is not UTF-8, which any client can write.
        let header = panic::catch_unwind(AssertUnwindSafe(|| headers.get(index)));
        match header {
            Ok(header) => messages.push_header(header.key, header.value),
            Err(_) => debug!(
                topic,
                number, position, "a header is left out, its name is not UTF-8"
            ),
        }
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
                    | RDKafkaErrorCode::InvalidSessionTimeout
                    | RDKafkaErrorCode::InvalidGroupId
                    | RDKafkaErrorCode::GroupMaxSizeReached
                    | RDKafkaErrorCode::FencedInstanceId
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
