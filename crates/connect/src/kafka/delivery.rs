//! Delivery reports of a producer, and the receipts that they belong to.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lookaside_stream::{Receipt, RefusedMessage};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, ProducerContext};
use rdkafka::{ClientContext, Message, Statistics};

use tracing::{info, warn};

use super::context::Log;

/// The bits of an identifier that are the segment; the others are the slot.
const SEGMENT_BITS: u32 = 24;

const _: () = assert!(
    usize::BITS == 64,
    "an identifier has room for slot and segment"
);

/// Takes the delivery reports of a producer.
pub(super) struct Deliveries {
    log: Log,
    state: Mutex<State>,
    /// Signals that a message left the producer's queue, or that the sink has failed.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    refused: Vec<RefusedMessage>,
    /// Why messages cannot be delivered at all.
    failure: Option<String>,
    /// Whether a thread waits for `moved`, so that most reports signal nothing.
    is_awaited: bool,
    /// When a message was delivered last, or the first of those under way was taken.
    delivered: Option<Instant>,
    /// Whether the stall was logged.
    is_stalled: bool,
}

/// After what time without a delivery a warning is logged.
const STALL: Duration = Duration::from_secs(10);

/// The messages of one write.
struct Slot {
    receipt: Option<Arc<Receipt>>,
    /// How many of them have no report yet, and one while they are being written.
    count: usize,
}

impl Deliveries {
    pub(super) fn new(name: &str) -> Self {
        Self {
            log: Log::new(name),
            state: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    /// Takes a slot for the messages of a write.
    pub(super) fn begin(&self, receipt: &Arc<Receipt>) -> usize {
        let mut state = self.lock();
        if state.slots.len() == state.free.len() {
            state.delivered = None;
        }
        let slot = Slot {
            receipt: Some(Arc::clone(receipt)),
            count: 1,
        };
        match state.free.pop() {
            Some(place) => {
                state.slots[place] = slot;
                place
            }
            None => {
                state.slots.push(slot);
                state.slots.len() - 1
            }
        }
    }

    /// The identifier of a message of that slot, which is counted.
    pub(super) fn add(&self, slot: usize, segment: usize) -> usize {
        assert!(segment < 1 << SEGMENT_BITS, "fewer partitions than 2^24");
        self.lock().slots[slot].count += 1;
        slot << SEGMENT_BITS | segment
    }

    /// Ends the writing of a slot, or the counting of a message that was not taken.
    pub(super) fn end(&self, slot: usize) {
        self.lock().release(slot);
    }

    /// Records a message that the broker will never accept.
    pub(super) fn refuse(&self, id: usize, message: &impl Message, reason: String) {
        self.lock()
            .refuse(id, message.payload(), message.key(), reason);
    }

    /// As [`Self::refuse`], for a message that the library did not take.
    pub(super) fn refuse_parts(
        &self,
        id: usize,
        payload: Option<&[u8]>,
        key: Option<&[u8]>,
        reason: String,
    ) {
        self.lock().refuse(id, payload, key, reason);
    }

    /// Logs once that nothing was delivered for a while.
    pub(super) fn warn_of_stall(&self, name: &str) {
        let mut state = self.lock();
        let since = state.delivered.get_or_insert_with(Instant::now).elapsed();
        if since >= STALL && !state.is_stalled {
            state.is_stalled = true;
            warn!(
                connector = name,
                "no message was delivered for {} s; is the broker available, and does the topic exist?",
                since.as_secs()
            );
        }
    }

    pub(super) fn take_refused(&self) -> Vec<RefusedMessage> {
        std::mem::take(&mut self.lock().refused)
    }

    /// Why messages cannot be delivered at all, if that is known.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Waits until a message has left the queue, no longer than `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let mut state = self.lock();
        state.is_awaited = true;
        let waited = self.moved.wait_timeout(state, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_awaited = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn receipt(&self, id: usize) -> (&Arc<Receipt>, usize) {
        let receipt = self.slots[id >> SEGMENT_BITS].receipt.as_ref();
        let receipt = receipt.expect("a slot with messages has a receipt");
        (receipt, id & ((1 << SEGMENT_BITS) - 1))
    }

    fn refuse(&mut self, id: usize, payload: Option<&[u8]>, key: Option<&[u8]>, reason: String) {
        let (receipt, segment) = self.receipt(id);
        let refused = RefusedMessage {
            payload: payload.map(<[u8]>::to_vec),
            key: key.map(<[u8]>::to_vec),
            reason,
            receipt: Arc::clone(receipt),
            segment,
        };
        self.refused.push(refused);
        self.release(id >> SEGMENT_BITS);
    }

    fn release(&mut self, slot: usize) {
        self.slots[slot].count -= 1;
        if self.slots[slot].count == 0 {
            self.slots[slot].receipt = None;
            self.free.push(slot);
        }
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
            self.lock().failure.get_or_insert_with(|| reason.to_owned());
            self.moved.notify_all();
        }
        self.log.error(error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, id: usize) {
        let error = match result {
            Ok(_) => {
                let mut state = self.lock();
                let (receipt, segment) = state.receipt(id);
                receipt.deliver(segment, 1);
                state.delivered = Some(Instant::now());
                if std::mem::take(&mut state.is_stalled) {
                    info!("messages are delivered again");
                }
                state.release(id >> SEGMENT_BITS);
                if state.is_awaited {
                    self.moved.notify_all();
                }
                return;
            }
            Err((error, message)) => {
                if is_refused(error) {
                    self.refuse(id, message, reason_of(error));
                    self.moved.notify_all();
                    return;
                }
                error
            }
        };
        let mut state = self.lock();
        state.release(id >> SEGMENT_BITS);
        // Purged messages belong to a sink that is being dropped.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::PurgeQueue)
            && error.rdkafka_error_code() != Some(RDKafkaErrorCode::PurgeInflight)
        {
            state.failure.get_or_insert_with(|| reason_of(error));
        }
        self.moved.notify_all();
    }

    fn get_custom_partitioner(&self) -> Option<&NoCustomPartitioner> {
        None
    }
}

/// Whether a message will never be accepted, while others may be.
pub(super) fn is_refused(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidRecord
                | RDKafkaErrorCode::InvalidTopic
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::InvalidTimestamp
                | RDKafkaErrorCode::InvalidMessageSize
        )
    )
}

/// The reason of an error as one lower-case phrase.
pub(super) fn reason_of(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
            "the message is larger than message.max.bytes".to_owned()
        }
        Some(RDKafkaErrorCode::InvalidRecord) => {
            "the broker refuses the record; does a compacted topic get it without a key?".to_owned()
        }
        _ => error.to_string(),
    }
}
