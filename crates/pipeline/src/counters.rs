//! What the threads of a stage count.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::LG_SIZE_MAX;

/// Batches are counted by the logarithm of their size.
pub(crate) const BUCKET_COUNT: usize = LG_SIZE_MAX as usize + 1;

/// What one thread of a stage has done. It alone writes here, on lines of its own; Relaxed, as nothing
/// is decided by these numbers.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) handled: AtomicU64,
    /// Rounds of waiting awake.
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

/// Without a locked instruction: there is one writer.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
