//! The state of one connection.

use std::time::Instant;

use super::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// There is no connection.
    Empty,
    Opening,
    /// Any caller may use it.
    Open,
    /// One caller has exclusive use of it.
    Locked,
    /// It is being closed, and occupies its slot until then.
    Closing,
}

/// The load of a connection, from the best for a request to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// It has room.
    Free,
    /// It has the maximum number of requests, and responds.
    Full,
    /// An answer has been outstanding for too long.
    Stalled,
}

/// A short query that was sent after all requests in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    /// The number of abandoned requests when it was sent.
    pub(super) abandoned_count: usize,
    /// When its connection is closed. `None` while it also has requests with callers, which may
    /// take long.
    pub(super) until: Option<Instant>,
    /// Whether the connection was idle for long, and must not be used before the answer.
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
    pub(super) state: SlotState,
    /// The number of requests with a waiting caller.
    pub(super) lease_count: usize,
    /// The number of requests whose caller is gone.
    pub(super) abandoned_count: usize,
    pub(super) check: Option<Check>,
    /// It takes no new requests, and is reserved for an exclusive user.
    pub(super) is_reserved: bool,
    /// It takes no new requests, and is closed when it is idle.
    pub(super) is_retiring: bool,
    pub(super) has_served: bool,
    /// When the server last responded, or had no request.
    pub(super) active_at: Instant,
    pub(super) retire_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            generation: 0,
            state: SlotState::Empty,
            lease_count: 0,
            abandoned_count: 0,
            check: None,
            is_reserved: false,
            is_retiring: false,
            has_served: false,
            active_at: now,
            retire_at: None,
        }
    }

    /// What holds between two calls of the planner.
    pub(super) fn check(&self) {
        if let Some(check) = self.check {
            assert!(
                check.abandoned_count <= self.abandoned_count,
                "a check is sent after abandoned requests that are still there"
            );
        }
        match self.state {
            SlotState::Empty | SlotState::Opening => {
                assert_eq!(
                    self.busy_count(),
                    0,
                    "a connection is open before it is used"
                );
                assert!(
                    self.check.is_none(),
                    "a connection is open before it is checked"
                );
                assert!(!self.is_reserved, "a reserved connection is open");
                assert!(!self.has_served, "a connection is open before it answers");
            }
            SlotState::Locked => {
                assert_eq!(self.busy_count(), 0, "a lock is not counted as a request");
                assert!(self.check.is_none(), "a locked connection is not checked");
                assert!(!self.is_reserved, "a locked connection is not reserved");
            }
            SlotState::Open | SlotState::Closing => {}
        }
    }

    /// Frees the slot of a closed connection.
    pub(super) fn clear(&mut self, now: Instant) {
        *self = Self {
            generation: self.generation + 1,
            ..Self::new(now)
        };
    }

    /// The number of requests in flight.
    pub(super) fn busy_count(&self) -> usize {
        self.lease_count + self.abandoned_count
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state == SlotState::Open && self.busy_count() == 0 && self.check.is_none()
    }

    /// Whether a request may be added. Not if it could soon be lost: after only abandoned requests
    /// that may never be answered.
    pub(super) fn is_shareable(&self, limits: &Limits, now: Instant) -> bool {
        let is_doubtful = self.check.is_some_and(|check| {
            check.is_before_use || check.until.is_some() && self.is_stalled(limits, now)
        });
        self.state == SlotState::Open && !self.is_reserved && !self.is_retiring && !is_doubtful
    }

    /// Whether the connection is kept or being opened.
    pub(super) fn is_kept(&self) -> bool {
        matches!(
            self.state,
            SlotState::Opening | SlotState::Open | SlotState::Locked
        ) && !self.is_retiring
    }

    /// Whether an answer has been outstanding for too long.
    pub(super) fn is_stalled(&self, limits: &Limits, now: Instant) -> bool {
        self.busy_count() > 0 && now > self.active_at + limits.stall
    }

    /// How long an answer has been outstanding, as the number of binary digits of microseconds:
    /// similar times are equal.
    pub(super) fn debt_size(&self, now: Instant) -> u32 {
        let owed = now.saturating_duration_since(self.active_at);
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

    /// Whether it was idle for so long that it must be checked before use.
    pub(super) fn is_stale(&self, limits: &Limits, now: Instant) -> bool {
        self.is_idle() && now > self.active_at + limits.check_after
    }

    /// Takes a request.
    pub(super) fn add_lease(&mut self, now: Instant) {
        assert_eq!(self.state, SlotState::Open, "a shared connection is open");
        if self.busy_count() == 0 {
            self.active_at = now;
        }
        self.lease_count += 1;
        if let Some(check) = &mut self.check {
            check.until = None;
        }
    }
}
