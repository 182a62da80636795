//! Receipts, on which sinks report what they have delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{Messages, Partition};
use crate::Progress;

/// The messages of one read whose results are not delivered yet, counted by segment: all messages
/// of a partition in that read.
///
/// Each segment is also held by the run itself until all of its results were passed to the sinks,
/// so that a message without results, such as a dropped one, is acknowledged too. A receipt that is
/// dropped early acknowledges nothing.
#[derive(Debug)]
pub struct Receipt {
    segments: Box<[Pending]>,
    /// When the messages were read, and where the time until their delivery is counted.
    clock: Option<(Instant, Progress)>,
}

#[derive(Debug)]
struct Pending {
    partition: Arc<Partition>,
    /// The number of the range in the partition.
    range: u64,
    /// The results that are not delivered, and one while the run holds the segment.
    count: AtomicU32,
}

impl Receipt {
    /// The receipt of messages that were just read; each segment is held.
    pub fn of(messages: &Messages) -> Arc<Self> {
        Arc::new(Self::new(messages))
    }

    /// As [`Self::of`]; the time until each segment is delivered is counted.
    pub(crate) fn timed(messages: &Messages, progress: &Progress) -> Arc<Self> {
        Arc::new(Self {
            clock: Some((Instant::now(), progress.clone())),
            ..Self::new(messages)
        })
    }

    fn new(messages: &Messages) -> Self {
        let segments = messages.segments().iter().map(|segment| Pending {
            partition: Arc::clone(&segment.partition),
            range: segment.partition.open(segment.end),
            count: AtomicU32::new(1),
        });
        Self {
            segments: segments.collect(),
            clock: None,
        }
    }

    /// The receipt of a single range of a partition, which ends before the position `end`.
    pub(crate) fn of_range(partition: &Arc<Partition>, end: u64, progress: &Progress) -> Arc<Self> {
        Arc::new(Self {
            segments: Box::new([Pending {
                partition: Arc::clone(partition),
                range: partition.open(end),
                count: AtomicU32::new(1),
            }]),
            clock: Some((Instant::now(), progress.clone())),
        })
    }

    /// Adds results of a segment that will be delivered; called before they are passed to a sink.
    pub fn add(&self, segment: usize, count: u32) {
        // Relaxed: the caller holds the segment, so the count cannot reach zero meanwhile.
        let before = self.segments[segment]
            .count
            .fetch_add(count, Ordering::Relaxed);
        assert!(before > 0, "a delivered segment has no further results");
    }

    /// Records that a sink has delivered `count` results of a segment. May be called from any
    /// thread.
    pub fn deliver(&self, segment: usize, count: u32) {
        let segment = &self.segments[segment];
        // AcqRel: the call that delivers the last result happens after all other deliveries.
        let before = segment.count.fetch_sub(count, Ordering::AcqRel);
        assert!(
            before >= count,
            "no more results are delivered than were added"
        );
        if before == count {
            segment.partition.deliver(segment.range);
            if let Some((begun, progress)) = &self.clock {
                progress.record_latency(begun.elapsed());
            }
        }
    }

    /// How many results of a segment are not delivered yet.
    pub fn undelivered(&self, segment: usize) -> u32 {
        // Acquire: what was done before the deliveries that are counted has happened.
        self.segments[segment].count.load(Ordering::Acquire)
    }

    /// Ends the hold of the run, after all results were passed to the sinks.
    pub fn release(&self) {
        for segment in 0..self.segments.len() {
            self.deliver(segment, 1);
        }
    }

    /// Excludes the messages from position `end` on: they are not processed, and read again later.
    pub(crate) fn shorten(&self, segment: usize, end: u64) {
        let Pending {
            partition, range, ..
        } = &self.segments[segment];
        partition.shorten(*range, end);
    }

    /// The partition of a segment.
    pub fn partition(&self, segment: usize) -> &Arc<Partition> {
        &self.segments[segment].partition
    }
}
