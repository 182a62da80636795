//! Where the events of a run are counted that ends after so many: block after block, in order.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Admits events to the transform. What a block may still admit is known once all blocks before it
/// are decoded, so decoding threads wait for each other here, and only here.
///
/// The ring gives blocks out in order: who waits here waits for threads that are at work.
pub(super) struct Limit {
    state: Mutex<State>,
    /// The next block may come, or none will.
    moved: Condvar,
}

struct State {
    /// The number of the block whose events are admitted next.
    next: u64,
    events_left: u64,
    is_over: bool,
}

impl Limit {
    pub(super) fn new(events: NonZero<u64>) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                events_left: events.get(),
                is_over: false,
            }),
            moved: Condvar::new(),
        }
    }

    /// How many of the `count` events of block `number` are admitted; `None` when nothing of it
    /// counts any more.
    pub(super) fn admit(&self, number: u64, count: u64) -> Option<u64> {
        let mut state = self.lock();
        while state.next < number && state.events_left > 0 && !state.is_over {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.events_left == 0 || state.is_over {
            return None;
        }
        let admitted = count.min(state.events_left);
        state.next += 1;
        state.events_left -= admitted;
        self.moved.notify_all();
        Some(admitted)
    }

    /// Whether nothing is admitted any more, as the limit is reached.
    pub(super) fn is_reached(&self) -> bool {
        self.lock().events_left == 0
    }

    /// The run is over: nobody waits any longer.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.moved.notify_all();
    }

    /// Nothing that holds this lock panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
