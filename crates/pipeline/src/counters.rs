//! Counters of the threads of a stage.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::LG_SIZE_MAX;

/// Batches are counted by the logarithm of their size.
pub(crate) const BUCKET_COUNT: usize = LG_SIZE_MAX as usize + 1;

/// What one thread of a stage has done. Only that thread writes the counters, and they are on their
/// own cache lines. `Relaxed`, as no decision depends on these numbers.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) handled: AtomicU64,
    /// Rounds of spinning.
    pub(crate) spins: AtomicU64,
    /// Batches by the logarithm of their size.
    pub(crate) batches: [AtomicU64; BUCKET_COUNT],
}

impl Counters {
    #[inline]
    pub(crate) fn add_batch(&self, count: u64) {
        add(&self.handled, count);
        add(&self.batches[count.ilog2() as usize], 1);
    }

    pub(crate) fn add_spins(&self, count: u64) {
        add(&self.spins, count);
    }
}

/// Adds without a locked instruction, as there is only one writer.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
