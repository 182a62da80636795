//! What is known of one connection.

use std::time::Instant;

use super::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is none.
    Empty,
    Opening,
    /// Any caller may use it.
    Open,
    /// One caller has exclusive use of it.
    Locked,
    /// It is to end, and takes up its place until it has.
    Closing,
}

/// How much a connection has to do, from the best for a request to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// It has room.
    Free,
    /// It has as much as it may have, and answers.
    Full,
    /// It owes an answer for too long.
    Stalled,
}

/// A short query that was sent after all that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// How many ghosts were there when it began.
    pub(super) ghost_count: usize,
    /// When its connection is given up. None as long as others wait for it too: they may have asked
    /// for something that takes long.
    pub(super) until: Option<Instant>,
    /// Whether the connection was idle for long, and is not to be used before the answer.
    pub(super) is_before_use: bool,
}

impl Check {
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) generation: u64,
    pub(super) state: State,
    /// How many requests have a caller that waits.
    pub(super) lease_count: usize,
    /// How many requests have lost their caller.
    pub(super) ghost_count: usize,
    pub(super) check: Option<Check>,
    /// It takes nothing new, and is reserved for an exclusive user.
    pub(super) is_reserved: bool,
    /// It takes nothing new, and ends when it is done.
    pub(super) is_retiring: bool,
    pub(super) has_served: bool,
    /// When the server was last heard, or owed nothing.
    pub(super) heard_at: Instant,
    pub(super) retire_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            generation: 0,
            state: State::Empty,
            lease_count: 0,
            ghost_count: 0,
            check: None,
            is_reserved: false,
            is_retiring: false,
            has_served: false,
            heard_at: now,
            retire_at: None,
        }
    }

    /// The connection is gone, and the place free for another.
    pub(super) fn clear(&mut self, now: Instant) {
        *self = Self {
            generation: self.generation + 1,
            ..Self::new(now)
        };
    }

    /// How much is under way.
    pub(super) fn busy_count(&self) -> usize {
        self.lease_count + self.ghost_count
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Open && self.busy_count() == 0 && self.check.is_none()
    }

    /// Whether a request may join those that are under way. Not where it would soon be lost: after
    /// nothing but ghosts that may never be answered.
    pub(super) fn is_shareable(&self, limits: &Limits, now: Instant) -> bool {
        let is_doubtful = self.check.is_some_and(|check| {
            check.is_before_use || check.until.is_some() && self.is_stalled(limits, now)
        });
        self.state == State::Open && !self.is_reserved && !self.is_retiring && !is_doubtful
    }

    /// Whether the connection stays, or is about to come.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.state, State::Opening | State::Open | State::Locked) && !self.is_retiring
    }

    /// Whether the server owes an answer for too long.
    pub(super) fn is_stalled(&self, limits: &Limits, now: Instant) -> bool {
        self.busy_count() > 0 && now > self.heard_at + limits.stall
    }

    /// For how long the server has owed an answer, as the number of binary digits of microseconds:
    /// times that are alike have the same.
    pub(super) fn debt_size(&self, now: Instant) -> u32 {
        let owed = now.saturating_duration_since(self.heard_at);
        u128::BITS - owed.as_micros().leading_zeros()
    }

    pub(super) fn load(&self, limits: &Limits, now: Instant) -> Load {
        if self.is_stalled(limits, now) {
            Load::Stalled
        } else if self.busy_count() >= limits.depth {
            Load::Full
        } else {
            Load::Free
        }
    }

    /// Whether it was idle for so long that it is to be checked before it is used.
    pub(super) fn is_stale(&self, limits: &Limits, now: Instant) -> bool {
        self.is_idle() && now > self.heard_at + limits.check_after
    }

    /// Takes a request.
    pub(super) fn lend(&mut self, now: Instant) {
        if self.busy_count() == 0 {
            self.heard_at = now;
        }
        self.lease_count += 1;
        if let Some(check) = &mut self.check {
            check.until = None;
        }
    }
}
