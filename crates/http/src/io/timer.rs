//! Timers of a thread, and those that its service begins.

use std::time::Instant;

use crate::Io;
use crate::slab::Key;

/// A timer that was begun, see [`Io::timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer(Key);

/// Whose timer it is.
pub(crate) enum Due {
    Connection(Key),
    Service(u64),
    /// Listeners that were left alone for lack of descriptors are looked at again.
    Accept,
    /// The drain has lasted long enough.
    Drain,
    /// Jobs that found no room in the ring try again.
    Depart,
}

impl Io {
    /// Calls [`Service::timer`](crate::Service::timer) with the token at a time, or up to a
    /// millisecond later.
    pub fn timer(&mut self, at: Instant, token: u64) -> Timer {
        // Not in this batch: one that is begun again and again for the past would never let it end.
        let at = self.clock.tick_of(at).max(self.clock.tick() + 1);
        Timer(self.wheel.insert(at, Due::Service(token)))
    }

    /// Takes a timer back. One that was due already is left alone.
    pub fn cancel(&mut self, timer: Timer) {
        self.wheel.cancel(timer.0);
    }
}
