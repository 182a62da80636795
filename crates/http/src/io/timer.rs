//! The timers of a thread and of its service.

use std::time::Instant;

use crate::Io;
use crate::slab::Key;

/// A started timer, see [`Io::timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(Key);

/// The owner of a timer.
pub(crate) enum Due {
    Connection(Key),
    Service(u64),
    /// Retry listeners that were paused for lack of descriptors.
    Accept,
    /// The drain timeout.
    Drain,
    /// Retry jobs that found no room in the ring.
    Depart,
}

impl Io {
    /// Starts a timer, which calls [`Service::timer`](crate::Service::timer) with the token at
    /// `at`, or up to a millisecond later.
    pub fn timer(&mut self, at: Instant, token: u64) -> Timer {
        // Not in this batch: a timer that is repeatedly started for the past would keep the batch
        // from ending.
        let at = self.clock.tick_of(at).max(self.clock.tick() + 1);
        Timer(self.wheel.insert(at, Due::Service(token)))
    }

    /// Cancels a timer. Does nothing if it has already fired.
    pub fn cancel(&mut self, timer: Timer) {
        self.wheel.cancel(timer.0);
    }
}
