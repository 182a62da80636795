//! Options of a pipeline.

use std::num::NonZeroU32;

use crate::Wait;

/// The logarithm of the largest ring: 16 million slots.
pub(crate) const LG_SIZE_MAX: u32 = 24;

/// How a stage takes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageOptions {
    /// The most items it takes at once. A batch is passed on as a whole, and the next stage is
    /// woken at most once for it: larger batches amortise that, smaller ones let the next stage
    /// begin earlier and, where the stage has several threads, spread the work.
    pub batch_max: NonZeroU32,
    /// What its threads do while they have no items.
    pub wait: Wait,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            // Large enough that many items share the cost of a wake, and small enough that the next
            // stage begins soon when each item takes long.
            batch_max: const { NonZeroU32::new(64).unwrap() },
            wait: Wait::default(),
        }
    }
}
