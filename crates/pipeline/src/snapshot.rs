//! Statistics of a pipeline.

use std::sync::atomic::Ordering;

use crate::counters::BUCKET_COUNT;
use crate::ring::Ring;

/// The statistics of a pipeline at one moment. Its threads keep running meanwhile, so the numbers
/// are only roughly consistent with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The most items that the ring can hold.
    pub capacity: usize,
    /// Items that producers have pushed so far.
    pub pushed: u64,
    /// Times that a producer slept because the ring was full.
    pub producer_sleeps: u64,
    /// Times that a sleeping producer was woken.
    pub producer_wakes: u64,
    /// The stages, first to last.
    pub stages: Vec<StageSnapshot>,
}

/// One stage of a [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageSnapshot {
    /// Its name.
    pub name: String,
    /// How many threads it has.
    pub thread_count: usize,
    /// Items that it has finished.
    pub handled: u64,
    /// Items that wait for it or that it is working on.
    pub backlog: u64,
    /// Batches that it has finished, by size: index `i` counts those of 2^i and more items, below
    /// 2^(i+1).
    pub batches: Vec<u64>,
    /// Rounds of spinning of its threads.
    pub spins: u64,
    /// Times that one of its threads went to sleep. Stages after the first that use
    /// [`Wait::UpstreamIdle`](crate::Wait::UpstreamIdle) sleep in one shared place: each of them
    /// reports the sum.
    pub sleeps: u64,
    /// Times that one of them was woken; summed up like `sleeps`.
    pub wakes: u64,
}

impl Snapshot {
    pub(crate) fn of<T>(ring: &Ring<T>) -> Self {
        // Back to front, so that no stage seems to have finished more than the one before it.
        let mut stages: Vec<_> = (0..ring.stages.len())
            .rev()
            .map(|i| stage(ring, i))
            .collect();
        stages.reverse();
        let pushed = ring.head().wrapping_sub(ring.start());
        let mut before = pushed;
        for stage in &mut stages {
            stage.backlog = before.saturating_sub(stage.handled);
            before = stage.handled;
        }
        let space = ring.space.tally();
        Self {
            capacity: ring.size() as usize,
            pushed,
            producer_sleeps: space.sleeps,
            producer_wakes: space.wakes,
            stages,
        }
    }
}

fn stage<T>(ring: &Ring<T>, index: usize) -> StageSnapshot {
    let stage = &ring.stages[index];
    let tally = ring.parker(index).tally();
    let mut snapshot = StageSnapshot {
        name: stage.name.clone(),
        thread_count: stage.thread_count,
        batches: vec![0; BUCKET_COUNT],
        sleeps: tally.sleeps,
        wakes: tally.wakes,
        ..StageSnapshot::default()
    };
    for counters in stage.counters.iter().map(|counters| &counters.0) {
        snapshot.handled += counters.handled.load(Ordering::Relaxed);
        snapshot.spins += counters.spins.load(Ordering::Relaxed);
        for (sum, count) in snapshot.batches.iter_mut().zip(&counters.batches) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
    snapshot
}
