//! The event limit of a run, which counts the events of each block in order.

use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Admits events to the transform. How many events of a block are admitted is known once all
/// previous blocks are decoded, so decoding threads wait for each other here, and only here.
///
/// The ring hands out blocks in order, so a thread only waits for threads that are working.
pub(super) struct Limit {
    state: Mutex<State>,
    /// Signals that the next block may be admitted, or that the run is over.
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

    /// The number of admitted events, of the `count` events of block `number`; `None` if the limit
    /// is reached or the run is over.
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
        assert_eq!(state.next, number, "blocks are admitted in order");
        let admitted = count.min(state.events_left);
        state.next += 1;
        state.events_left -= admitted;
        self.moved.notify_all();
        Some(admitted)
    }

    /// Whether the limit is reached, so that nothing is admitted any more.
    pub(super) fn is_reached(&self) -> bool {
        self.lock().events_left == 0
    }

    /// Ends the run, which wakes all waiting threads.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.moved.notify_all();
    }

    /// Nothing that holds this lock panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
