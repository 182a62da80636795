//! Gives an exclusive connection back to its pool.

use std::sync::Arc;
use std::time::Instant;

use super::Inner;
use super::planner::{Outcome, PoolSlotId};

/// Gives the connection back when it is dropped.
pub(super) struct ReturnOnDrop {
    pub(super) inner: Arc<Inner>,
    slot_id: PoolSlotId,
    /// Whether others may be in its session as it is; if not, it ends.
    pub(super) is_shareable: bool,
}

impl ReturnOnDrop {
    pub(super) fn new(inner: &Arc<Inner>, slot_id: PoolSlotId) -> Self {
        Self {
            inner: Arc::clone(inner),
            slot_id,
            is_shareable: true,
        }
    }
}

impl Drop for ReturnOnDrop {
    fn drop(&mut self) {
        // A query may be under way, or a transaction may have to be rolled back: the plan finds out
        // when that is done.
        let now = Instant::now();
        if self.is_shareable {
            self.inner.state.unlock(self.slot_id, Outcome::GivenUp, now);
        } else {
            self.inner.state.discard(self.slot_id, now);
        }
    }
}
