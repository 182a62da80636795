//! Returns an exclusive connection to its pool.

use std::sync::Arc;
use std::time::Instant;

use super::Inner;
use super::planner::{AcquireOutcome, PoolSlotId};

/// Returns the connection on drop.
pub(super) struct ReturnOnDrop {
    pub(super) inner: Arc<Inner>,
    slot_id: PoolSlotId,
    /// Whether its session may be shared as it is; if not, the connection is closed.
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
        // A query may be in flight, or a transaction may have to be rolled back: the planner is
        // informed when that is done.
        let now = Instant::now();
        if self.is_shareable {
            self.inner
                .state
                .unlock(self.slot_id, AcquireOutcome::GivenUp, now);
        } else {
            self.inner.state.discard(self.slot_id, now);
        }
    }
}
