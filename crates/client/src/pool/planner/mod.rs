//! The decisions of a pool: which connection takes a request, when another one is opened or closed,
//! and which callers wait until when.
//!
//! A [`PoolPlanner`] has no socket, task or clock. Callers report requests (`take`, `give_back`,
//! `leave`) and the state of connections (`opened`, `open_failed`, `checked`, `ended`), each with
//! the current time, and call `advance` when `deadline` is due. Then `next_step` returns the
//! actions as [`Step`]s: a connection is opened, checked or closed, or a waiting caller is served.
//!
//! # Which connection
//!
//! A connection is shared: a request is sent after those of other callers, and does not wait for a
//! connection to itself. So the fullest connection that is not [full](Limits::depth) takes a
//! request: requests on one connection share writes, and unneeded connections become idle. If all
//! are full, the one with the fewest requests takes it, and another one is opened.
//!
//! A connection with an answer outstanding for longer than [`Limits::stall`] is stalled: the cause
//! would delay the next request, too. No request is sent there while another connection is
//! available. Opening one takes milliseconds, so a request waits for that, or for the outstanding
//! answer, whichever is first. Only if the limit of connections is reached, or the server refuses
//! new ones, is it queued on a stalled connection.
//!
//! An exclusive user gets an idle connection or a new one. If the limit is reached, the one with
//! the fewest requests is reserved: it takes no new requests and is handed out once it is idle.
//!
//! # Abandoned requests
//!
//! A dropped future or a passed deadline leaves a query that the server may still execute. It is
//! abandoned, and counts as in flight until a [check](Step::Check), sent after it, is answered. A
//! connection that has only abandoned requests and does not answer in time is closed.

mod queue;
mod settle;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use queue::Queue;
pub(super) use queue::Waiter;
use slot::{Load, Slot, SlotState};

/// The first pause after a failure to connect, and the longest. With the longest one, a pool with
/// waiting requests recovers within a second of its server's return.
const BACK_OFF_MIN: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_millis(500);

/// The same if the server has refused for a lasting reason. Servers count wrong passwords.
const LASTING_BACK_OFF_MIN: Duration = Duration::from_secs(1);
const LASTING_BACK_OFF_MAX: Duration = Duration::from_secs(15);

// The pause doubles from the first to the longest, and a reason that lasts is never tried more often.
const _: () = assert!(BACK_OFF_MIN.as_nanos() <= BACK_OFF_MAX.as_nanos());
const _: () = assert!(LASTING_BACK_OFF_MIN.as_nanos() <= LASTING_BACK_OFF_MAX.as_nanos());
const _: () = assert!(BACK_OFF_MAX.as_nanos() <= LASTING_BACK_OFF_MIN.as_nanos());

/// The limits of the planner; see `PoolOptions`.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) count_max: usize,
    pub(super) count_min: usize,
    /// The number of requests that make a connection full.
    pub(super) depth: usize,
    /// How long an answer may be outstanding, beyond a round trip, before the connection is
    /// stalled.
    pub(super) stall: Duration,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) lifetime_max: Option<Duration>,
    /// The idle time after which a connection is checked before use.
    pub(super) check_after: Duration,
    /// How long a check may take if no request waits for the connection.
    pub(super) check_timeout: Duration,
}

/// Identifies one connection. The next one in its slot has another generation, so that late events
/// of the old one do not affect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PoolSlotId {
    pub(super) index: usize,
    generation: u64,
}

/// How a connection is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    /// Shared with other callers.
    Shared,
    /// By this caller only.
    Exclusive,
}

/// The result of requesting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take {
    Now(PoolSlotId),
    /// A [`Step`] will refer to the waiter.
    Wait(Waiter),
    Refused(Refusal),
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// None was available in time.
    Late,
    /// The connection was refused, or the server refuses for a lasting reason.
    Failed,
    /// The pool is closed.
    Closed,
}

/// The outcome of a request, or of all requests on an exclusive connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcquireOutcome {
    Answered,
    /// Nothing of it was sent.
    Unused,
    /// Its caller is gone, and the server may still execute it.
    GivenUp,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server has no free connections, is starting, or does not respond: it is tried again, and
    /// requests wait.
    Passing,
    /// The connection was refused, or the host is unknown: it is tried again just as soon, but
    /// waiting requests fail at once.
    Unreachable,
    /// A lasting reason, for example a wrong password.
    Lasting,
}

/// An action to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Connect; then call `opened` or `open_failed`.
    Open(PoolSlotId),
    /// Send a short query after all requests in flight; then call `checked`.
    Check(PoolSlotId),
    /// Close a connection once all its requests are answered; then call `ended`.
    Close(PoolSlotId),
    /// Close a connection whatever is in flight; then call `ended`.
    Abort(PoolSlotId),
    Serve(Waiter, PoolSlotId),
    Reject(Waiter, Refusal),
}

/// The current counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) opening: usize,
    pub(super) open: usize,
    pub(super) idle: usize,
    pub(super) locked: usize,
    pub(super) closing: usize,
    pub(super) in_flight: usize,
    pub(super) waiting: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PoolPlanner {
    limits: Limits,
    /// The shortest round trip to the server so far; `None` before the first connection.
    round_trip: Option<Duration>,
    slots: Box<[Slot]>,
    queue: Queue,
    steps: VecDeque<Step>,
    /// The failures to connect since the last success, and when to try again.
    failure_count: u32,
    retry_at: Option<Instant>,
    last_failure: Failure,
    is_closing: bool,
    /// Whether the deadline may have become earlier since the last query.
    is_changed: bool,
}

impl PoolPlanner {
    /// Creates a planner. Nothing is opened before [`advance`](Self::advance) or
    /// [`take`](Self::take) is called.
    pub(super) fn new(limits: Limits, now: Instant) -> Self {
        assert!(limits.count_max > 0, "a pool has room for a connection");
        assert!(limits.depth > 0, "a connection has room for a request");
        Self {
            slots: (0..limits.count_max).map(|_| Slot::new(now)).collect(),
            limits,
            round_trip: None,
            queue: Queue::default(),
            steps: VecDeque::new(),
            failure_count: 0,
            retry_at: None,
            last_failure: Failure::Passing,
            is_closing: false,
            is_changed: true,
        }
    }

    /// What holds between two calls. Only in debug builds, as it looks at each connection.
    pub(super) fn check(&self) {
        debug_assert_eq!(
            self.slots.len(),
            self.limits.count_max,
            "there is a place for each connection"
        );
        if cfg!(debug_assertions) {
            self.slots.iter().for_each(Slot::check);
        }
        if self.is_closing {
            debug_assert!(self.queue.is_empty(), "a closed pool has no waiters");
        }
    }

    /// Requests a connection for a caller, which waits until `until` at most.
    pub(super) fn take(&mut self, usage: Usage, until: Instant, now: Instant) -> Take {
        self.check();
        if self.is_closing {
            return Take::Refused(Refusal::Closed);
        }
        if usage == Usage::Shared
            && let Some((index, load)) = self.choose(now)
        {
            self.slots[index].add_lease(now);
            if load != Load::Free {
                self.open(1, now);
            }
            return Take::Now(self.slot_id(index));
        }
        if self.is_refused(now) {
            return Take::Refused(Refusal::Failed);
        }
        let waiter = self.queue.push(usage, until);
        self.settle(now);
        // If a connection is available at once, there is no wait.
        let mut steps = self.steps.iter();
        let position =
            steps.position(|step| matches!(step, Step::Serve(served, _) if *served == waiter));
        match position.and_then(|position| self.steps.remove(position)) {
            Some(Step::Serve(_, slot_id)) => Take::Now(slot_id),
            _ => Take::Wait(waiter),
        }
    }

    /// Removes a waiter that was neither served nor rejected.
    pub(super) fn leave(&mut self, waiter: Waiter, now: Instant) {
        self.queue.remove(waiter);
        self.settle(now);
    }

    /// Handles the end of a request on a shared connection.
    pub(super) fn give_back(&mut self, slot_id: PoolSlotId, outcome: AcquireOutcome, now: Instant) {
        let Some(slot) = self.find(slot_id) else {
            return;
        };
        assert!(slot.lease_count > 0, "returned bytes were taken");
        slot.lease_count -= 1;
        match outcome {
            AcquireOutcome::Answered => {
                slot.has_served = true;
                slot.active_at = now;
            }
            AcquireOutcome::Unused => {}
            AcquireOutcome::GivenUp => slot.abandoned_count += 1,
        }
        let is_watched = slot.check.is_some() || slot.abandoned_count > 0 || slot.is_retiring;
        if is_watched {
            self.after_return(slot_id.index, now);
        }
        if is_watched || !self.queue.is_empty() {
            self.settle(now);
        }
    }

    /// Handles the return of an exclusive connection.
    pub(super) fn unlock(&mut self, slot_id: PoolSlotId, outcome: AcquireOutcome, now: Instant) {
        let Some(slot) = self.find(slot_id) else {
            return;
        };
        assert_eq!(slot.state, SlotState::Locked, "what is unlocked was locked");
        slot.state = SlotState::Open;
        // All its requests count as one here.
        slot.lease_count = 1;
        self.give_back(slot_id, outcome, now);
        self.after_return(slot_id.index, now);
        self.settle(now);
    }

    /// Handles the return of a locked connection whose session must not be used again. It is closed
    /// once its requests are answered or cancelled: a server continues to execute requests of a
    /// closed connection.
    pub(super) fn discard(&mut self, slot_id: PoolSlotId, now: Instant) {
        let Some(slot) = self.find(slot_id) else {
            return;
        };
        assert_eq!(
            slot.state,
            SlotState::Locked,
            "what is discarded was locked"
        );
        self.close(slot_id.index);
        self.settle(now);
    }

    /// Whether a connection that is being opened is still needed.
    pub(super) fn is_wanted(&mut self, slot_id: PoolSlotId) -> bool {
        let slot = self.find(slot_id);
        slot.is_some_and(|slot| slot.state == SlotState::Opening)
    }

    /// Handles an opened connection, with its measured round trip. The jitter shortens its lifetime
    /// by up to a tenth, so that those that were opened together are not replaced together.
    pub(super) fn opened(
        &mut self,
        slot_id: PoolSlotId,
        round_trip: Duration,
        jitter: u32,
        now: Instant,
    ) {
        // The shortest one, since longer measurements include delays of this machine.
        let known = self.round_trip.unwrap_or(Duration::ZERO);
        let shortest = self
            .round_trip
            .map_or(round_trip, |known| known.min(round_trip));
        self.limits.stall = self
            .limits
            .stall
            .saturating_sub(known)
            .saturating_add(shortest);
        self.round_trip = Some(shortest);
        let lifetime_max = self.limits.lifetime_max;
        let Some(slot) = self
            .find(slot_id)
            .filter(|slot| slot.state == SlotState::Opening)
        else {
            return;
        };
        slot.state = SlotState::Open;
        slot.active_at = now;
        slot.retire_at = lifetime_max.map(|lifetime| now + lifetime - part(lifetime / 10, jitter));
        self.failure_count = 0;
        self.retry_at = None;
        self.settle(now);
    }

    /// Handles a connection that could not be opened.
    pub(super) fn open_failed(
        &mut self,
        slot_id: PoolSlotId,
        why: Failure,
        jitter: u32,
        now: Instant,
    ) {
        let Some(slot) = self.find(slot_id) else {
            return;
        };
        let was_wanted = slot.state == SlotState::Opening;
        slot.clear(now);
        if was_wanted {
            self.back_off(why, jitter, now);
        }
        self.settle(now);
    }

    /// Handles the answer to a check, and thereby of all requests before it.
    pub(super) fn checked(&mut self, slot_id: PoolSlotId, now: Instant) {
        let Some(slot) = self.find(slot_id) else {
            return;
        };
        let Some(check) = slot.check.take() else {
            return;
        };
        assert!(
            check.abandoned_count <= slot.abandoned_count,
            "abandoned requests stay until a check is answered"
        );
        slot.abandoned_count -= check.abandoned_count;
        slot.has_served = true;
        slot.active_at = now;
        self.after_return(slot_id.index, now);
        self.settle(now);
    }

    /// Handles the end of a connection, for any reason. Returns false for repeated reports, which
    /// are ignored.
    pub(super) fn ended(&mut self, slot_id: PoolSlotId, jitter: u32, now: Instant) -> bool {
        let Some(slot) = self.find(slot_id) else {
            return false;
        };
        // A server that accepts connections only to drop them is not tried in a tight loop.
        let is_useless = match slot.state {
            SlotState::Opening => true,
            SlotState::Open | SlotState::Locked => !slot.has_served,
            SlotState::Empty | SlotState::Closing => false,
        };
        slot.clear(now);
        if is_useless {
            self.back_off(Failure::Passing, jitter, now);
        }
        self.settle(now);
        true
    }

    /// Handles everything that is due.
    pub(super) fn advance(&mut self, now: Instant) {
        self.check();
        while let Some(waiter) = self.queue.pop_overdue(now) {
            self.steps.push_back(Step::Reject(waiter, Refusal::Late));
        }
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.check.is_some_and(|check| check.is_overdue(now)) {
                self.abort(index);
            } else if slot.retire_at.is_some_and(|retire_at| retire_at <= now) {
                slot.is_retiring = true;
                self.close_if_done(index);
            }
        }
        if let Some(timeout) = self.limits.idle_timeout {
            self.close_idle(timeout, now);
        }
        self.settle(now);
    }

    /// When [`advance`](Self::advance) is due. If a connection becomes idle later, its expiry is
    /// noticed one idle timeout after this call, so that becoming idle needs no wake-up.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let idle_timeout = self.limits.idle_timeout;
        let has_spare = self.kept_count() > self.limits.count_min;
        let slots = self.slots.iter().flat_map(|slot| {
            let idle_end = match slot.state {
                SlotState::Open if has_spare && slot.is_idle() => {
                    idle_timeout.map(|timeout| slot.active_at + timeout)
                }
                SlotState::Open | SlotState::Locked => idle_timeout.map(|timeout| now + timeout),
                _ => None,
            };
            let retire_at = slot.retire_at.filter(|_| slot.is_kept());
            let check_end = slot.check.and_then(|check| check.until);
            [idle_end, retire_at, check_end]
        });
        let may_retry = self.open_wish(0) > 0 && !self.is_opening();
        let retry_at = self.retry_at.filter(|_| may_retry);
        let others = [self.queue.deadline(), retry_at];
        slots.chain(others).flatten().min()
    }

    /// Refuses new requests, rejects waiting ones, and closes each connection once it is idle.
    pub(super) fn close_all(&mut self, now: Instant) {
        self.is_closing = true;
        self.is_changed = true;
        self.reject_all(Refusal::Closed);
        for index in 0..self.slots.len() {
            match self.slots[index].state {
                SlotState::Opening => self.abort(index),
                SlotState::Open | SlotState::Locked => {
                    self.slots[index].is_retiring = true;
                    self.after_return(index, now);
                }
                SlotState::Empty | SlotState::Closing => {}
            }
        }
        self.check();
    }

    /// Whether the pool is closed and has no connections left.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closing && self.slots.iter().all(|slot| slot.state == SlotState::Empty)
    }

    pub(super) fn next_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Whether there are steps or an earlier deadline since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed) || !self.steps.is_empty()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts {
            waiting: self.queue.len(),
            ..Counts::default()
        };
        for slot in &*self.slots {
            match slot.state {
                SlotState::Empty => {}
                SlotState::Opening => counts.opening += 1,
                SlotState::Open => counts.open += 1,
                SlotState::Locked => counts.locked += 1,
                SlotState::Closing => counts.closing += 1,
            }
            counts.idle += usize::from(slot.is_idle());
            counts.in_flight += slot.busy_count();
        }
        counts
    }

    /// How many waiters have neither a connection nor a refusal.
    pub(super) fn waiting_count(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is a connection at a place, as far as is known, and not one that is to end.
    pub(super) fn is_open(&self, index: usize) -> bool {
        matches!(self.slots[index].state, SlotState::Open | SlotState::Locked)
    }

    fn slot_id(&self, index: usize) -> PoolSlotId {
        let generation = self.slots[index].generation;
        PoolSlotId { index, generation }
    }

    fn find(&mut self, slot_id: PoolSlotId) -> Option<&mut Slot> {
        let slot = &mut self.slots[slot_id.index];
        (slot.generation == slot_id.generation).then_some(slot)
    }

    /// Whether there is no connection and none can be opened, for a reason that fails requests at
    /// once.
    fn is_refused(&self, now: Instant) -> bool {
        let is_over = self.retry_at.is_none_or(|retry_at| retry_at <= now);
        if self.last_failure == Failure::Passing || is_over {
            return false;
        }
        let mut states = self.slots.iter().map(|slot| slot.state);
        !states.any(|state| {
            matches!(
                state,
                SlotState::Opening | SlotState::Open | SlotState::Locked
            )
        })
    }

    fn is_opening(&self) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.state == SlotState::Opening)
    }

    /// The number of current and expected connections.
    fn kept_count(&self) -> usize {
        let kept = self.slots.iter().filter(|slot| slot.is_kept());
        kept.count()
    }

    fn reject_all(&mut self, refusal: Refusal) {
        while let Some(waiter) = self.queue.pop() {
            self.steps.push_back(Step::Reject(waiter, refusal));
        }
    }

    fn back_off(&mut self, why: Failure, jitter: u32, now: Instant) {
        let (min, max) = match why {
            Failure::Passing | Failure::Unreachable => (BACK_OFF_MIN, BACK_OFF_MAX),
            Failure::Lasting => (LASTING_BACK_OFF_MIN, LASTING_BACK_OFF_MAX),
        };
        // Thirty doublings exceed each maximum.
        let pause = min.saturating_mul(1 << self.failure_count.min(30)).min(max);
        self.failure_count = self.failure_count.saturating_add(1);
        self.last_failure = why;
        self.retry_at = Some(now + pause - part(pause / 2, jitter));
    }

    fn close_idle(&mut self, timeout: Duration, now: Instant) {
        let spare_count = self.kept_count().saturating_sub(self.limits.count_min);
        let is_over = |slot: &Slot| slot.is_idle() && slot.active_at + timeout <= now;
        let places = 0..self.slots.len();
        let idle: Vec<_> = places
            .filter(|&index| is_over(&self.slots[index]))
            .collect();
        for index in idle.into_iter().take(spare_count) {
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        assert!(
            self.is_open(index),
            "a connection is open when it is closed"
        );
        self.slots[index].state = SlotState::Closing;
        self.steps.push_back(Step::Close(self.slot_id(index)));
    }

    fn abort(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        assert!(
            matches!(slot.state, SlotState::Opening | SlotState::Open),
            "an aborted connection is being opened or checked"
        );
        slot.state = SlotState::Closing;
        slot.check = None;
        self.steps.push_back(Step::Abort(self.slot_id(index)));
    }
}

/// A random part of a duration.
fn part(whole: Duration, jitter: u32) -> Duration {
    whole.mul_f64(f64::from(jitter) / f64::from(u32::MAX))
}
