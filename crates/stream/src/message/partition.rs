//! Partitions of a source, and up to which position their messages are delivered.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An ordered part of a source, such as a partition of a topic, for as long as it is assigned to
/// this process.
///
/// Its messages are read in ranges, which may be delivered in any order; the acknowledged position
/// is the end of the ranges that are delivered without a gap. A partition that is assigned again is
/// a new `Partition`: late deliveries then change nothing.
///
/// ```
/// use lookaside_stream::{Messages, Partition, Receipt};
///
/// let partition = Partition::new("clicks", 3);
/// let receipts: Vec<_> = [0_u64, 1]
///     .map(|position| {
///         let mut messages = Messages::new();
///         messages.push(&partition, position, Some(b"{}"), None);
///         Receipt::of(&messages)
///     })
///     .into();
/// assert_eq!(partition.acknowledged(), None);
/// receipts[1].release();
/// assert_eq!(partition.acknowledged(), None);
/// receipts[0].release();
/// assert_eq!(partition.acknowledged(), Some(2));
/// ```
pub struct Partition {
    topic: Arc<str>,
    number: i32,
    has_stable_positions: bool,
    /// `topic[number]`, for messages.
    name: Arc<str>,
    state: Mutex<State>,
    /// Signals that no range is open any more.
    settled: Condvar,
    is_revoked: AtomicBool,
    /// The position after the last message that was read.
    read_end: AtomicU64,
    on_acknowledged: Option<OnAcknowledged>,
}

/// Called with an acknowledged position.
type OnAcknowledged = Box<dyn Fn(u64) + Send + Sync>;

#[derive(Default)]
struct State {
    /// The ranges from the first one that is not delivered on, in the order of reading.
    ranges: VecDeque<Range>,
    /// The number of the first of these ranges, counted from 0.
    first: u64,
    acknowledged: Option<u64>,
}

struct Range {
    /// The position of the message after the range.
    end: u64,
    is_delivered: bool,
}

impl Partition {
    /// A partition of which nothing was read yet.
    pub fn new(topic: impl Into<Arc<str>>, number: i32) -> Arc<Self> {
        Self::with_positions(topic.into(), number, false, None)
    }

    /// As [`Self::new`], for a source that waits for the delivery of its messages: `notify` is called
    /// with the acknowledged position when it has moved, on the thread that delivered the last
    /// result. It must not block. Positions that threads reach at the same time may be passed in any
    /// order.
    pub fn with_notification(
        topic: impl Into<Arc<str>>,
        number: i32,
        notify: impl Fn(u64) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_positions(topic.into(), number, false, Some(Box::new(notify)))
    }

    /// As [`Self::new`], with positions that identify a message in every run, as the offsets of
    /// Kafka do. Those of other partitions are counted while they are read.
    pub fn with_stable_positions(topic: impl Into<Arc<str>>, number: i32) -> Arc<Self> {
        Self::with_positions(topic.into(), number, true, None)
    }

    fn with_positions(
        topic: Arc<str>,
        number: i32,
        has_stable_positions: bool,
        on_acknowledged: Option<OnAcknowledged>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: format!("{topic}[{number}]").into(),
            topic,
            number,
            has_stable_positions,
            state: Mutex::default(),
            settled: Condvar::new(),
            is_revoked: AtomicBool::new(false),
            read_end: AtomicU64::new(0),
            on_acknowledged,
        })
    }

    /// The topic, or what corresponds to it in the source.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The number within the topic.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Whether a position identifies a message in every run.
    pub fn has_stable_positions(&self) -> bool {
        self.has_stable_positions
    }

    /// The topic and the number, as they appear in messages.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The position after the last message that was read; 0 if none was.
    pub fn read_end(&self) -> u64 {
        // Relaxed, here and below: only the thread that reads uses it.
        self.read_end.load(Ordering::Relaxed)
    }

    /// Records that a message was read. The positions of a partition ascend; they need not be
    /// consecutive.
    pub(super) fn read(&self, position: u64) {
        let before = self.read_end.swap(position + 1, Ordering::Relaxed);
        assert!(before <= position, "the positions of a partition ascend");
    }

    /// The position of the first message that may not have been delivered; `None` until one was.
    pub fn acknowledged(&self) -> Option<u64> {
        self.lock().acknowledged
    }

    /// Records that the partition is no longer assigned to this process: its messages that were
    /// not processed yet should not be.
    pub fn revoke(&self) {
        // Relaxed: messages that are processed nevertheless are processed twice, which is allowed.
        self.is_revoked.store(true, Ordering::Relaxed);
    }

    /// Whether the partition is no longer assigned to this process.
    pub fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }

    /// Whether everything that was read is delivered.
    pub fn is_settled(&self) -> bool {
        self.lock().ranges.is_empty()
    }

    /// Waits until everything that was read is delivered; returns whether it is.
    pub fn wait_settled(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        while !state.ranges.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.settled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Opens a range that ends before the position `end`, and returns its number.
    pub(super) fn open(&self, end: u64) -> u64 {
        let mut state = self.lock();
        state.ranges.push_back(Range {
            end,
            is_delivered: false,
        });
        state.first + state.ranges.len() as u64 - 1
    }

    /// Moves the end of the last range that was opened.
    pub(super) fn shorten(&self, number: u64, end: u64) {
        let mut state = self.lock();
        let range = state.range(number);
        assert!(end <= range.end, "a range is only shortened");
        range.end = end;
    }

    /// Records that a range is delivered.
    pub(super) fn deliver(&self, number: u64) {
        let mut state = self.lock();
        let range = state.range(number);
        assert!(!range.is_delivered, "a range is delivered once");
        range.is_delivered = true;
        let mut acknowledged = None;
        while let Some(range) = state.ranges.pop_front_if(|range| range.is_delivered) {
            state.first += 1;
            acknowledged = Some(range.end);
        }
        state.acknowledged = acknowledged.or(state.acknowledged);
        if state.ranges.is_empty() {
            self.settled.notify_all();
        }
        drop(state);
        if let (Some(position), Some(notify)) = (acknowledged, &self.on_acknowledged) {
            notify(position);
        }
    }

    /// Nothing that holds this lock leaves the state inconsistent when it panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn range(&mut self, number: u64) -> &mut Range {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        let range = index.and_then(|index| self.ranges.get_mut(index));
        range.expect("the range was opened and is not acknowledged")
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Partition").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_acknowledged_position_is_that_of_a_model_in_any_order() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let partition = Partition::new("t", 0);
            let (mut end, mut open, mut ends) = (0, Vec::new(), Vec::new());
            for _ in 0..random.usize(1..60) {
                if open.is_empty() || random.bool() {
                    end += random.u64(1..5);
                    open.push(partition.open(end));
                    ends.push((end, false));
                } else {
                    let number = open.swap_remove(random.usize(..open.len()));
                    partition.deliver(number);
                    ends[number as usize].1 = true;
                }
                let delivered = ends.iter().take_while(|(_, is_delivered)| *is_delivered);
                assert_eq!(
                    partition.acknowledged(),
                    delivered.last().map(|(end, _)| *end),
                    "seed {seed}"
                );
                let all = ends.iter().all(|(_, is_delivered)| *is_delivered);
                assert_eq!(partition.is_settled(), all);
            }
        }
    }

    #[test]
    fn each_move_of_the_acknowledged_position_is_notified() {
        let moves = Arc::new(Mutex::new(Vec::new()));
        let partition = Partition::with_notification("t", 0, {
            let moves = Arc::clone(&moves);
            move |position| moves.lock().unwrap().push(position)
        });
        let numbers = [3, 5, 9, 10].map(|end| partition.open(end));
        for (index, expected) in [
            (1, &[][..]),
            (0, &[5]),
            // There is a gap before it.
            (3, &[5]),
            (2, &[5, 10]),
        ] {
            partition.deliver(numbers[index]);
            assert_eq!(*moves.lock().unwrap(), expected);
        }
    }

    #[test]
    fn a_shortened_range_ends_earlier() {
        let partition = Partition::new("t", 0);
        let number = partition.open(9);
        partition.shorten(number, 4);
        assert!(!partition.wait_settled(Duration::ZERO));
        partition.deliver(number);
        assert_eq!(partition.acknowledged(), Some(4));
        assert!(partition.wait_settled(Duration::ZERO));
    }
}
