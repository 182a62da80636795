//! The state that callers and connections of a pool share: the [`PoolPlanner`] under a lock, and
//! the wakers of waiting tasks.
//!
//! The state is independent of a runtime. Callers hold the lock for a few dozen instructions and
//! never while they wait. Wakers are called after the lock is released.
//!
//! One task, the maintenance task, does everything that needs a runtime: it connects, checks, and
//! watches deadlines. Its runtime may end before the pool does. If there is no such task, callers
//! get [`Maintenance::Missing`].

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::planner::{
    AcquireOutcome, Counts, Failure, Limits, PoolPlanner, PoolSlotId, Refusal, Step, Take, Usage,
    Waiter,
};
use crate::Error;
use crate::sync::Lock;

/// What the maintenance task does next.
#[derive(Debug)]
pub(super) enum MaintenanceJob<C> {
    /// Connect; then call `opened` or `open_failed`, and finally `ended`.
    Open(PoolSlotId),
    /// Send a short query; then call `checked`.
    Check(PoolSlotId, C),
    /// Close it, whatever is in flight.
    Abort(PoolSlotId),
    /// Sleep until then or until woken.
    Sleep(Option<Instant>),
    /// End: the pool is closed.
    End,
}

/// The answer to a request for a connection.
#[derive(Debug)]
pub(super) enum Acquisition<T> {
    Ready(T),
    Wait(Waiter),
    Refused(Refusal),
}

/// What a waiter gets.
pub(super) type Acquired<C> = Result<(PoolSlotId, C), Refusal>;

/// Whether the maintenance task exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maintenance {
    Running,
    /// The caller must spawn one.
    Missing,
    /// There is none, and the caller has no runtime to spawn one on.
    NoRuntime,
}

/// Cumulative counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) opened: u64,
    pub(super) failed: u64,
    pub(super) lost: u64,
    pub(super) waits: u64,
    pub(super) waited: Duration,
    pub(super) late: u64,
}

pub(super) struct PoolState<C, L> {
    state: L,
    /// Whether its caller is on a runtime, and so can spawn the maintenance task.
    has_runtime: fn() -> bool,
    connection: std::marker::PhantomData<fn(C)>,
}

pub(super) struct GuardedState<C> {
    planner: PoolPlanner,
    /// By slot index.
    connections: Box<[Option<C>]>,
    waiters: BTreeMap<Waiter, WaiterState<C>>,
    jobs: VecDeque<MaintenanceJob<C>>,
    has_maintenance: bool,
    maintenance: Option<Waker>,
    /// When the maintenance task wakes by itself.
    alarm: Option<Instant>,
    /// The callers that wait for the pool to close.
    close_waiters: Vec<Waker>,
    totals: Totals,
    last_error: Option<Error>,
    /// Why a connection could not be opened, if none was opened since.
    failure: Option<Error>,
    /// Why one could not be opened, for a reason that fails waiters at once. Kept even if another
    /// was opened since, because waiters may read it later.
    refusal: Option<Error>,
}

/// The state of a waiter.
enum WaiterState<C> {
    Waiting(Option<Waker>, Instant),
    Acquired(PoolSlotId, C),
    Rejected(Refusal),
}

impl<C: Clone, L: Lock<GuardedState<C>>> PoolState<C, L> {
    /// `has_runtime` says whether its caller is on a runtime, and so can spawn the maintenance task; it is called under
    /// the lock.
    pub(super) fn new(limits: Limits, has_runtime: fn() -> bool, now: Instant) -> Self {
        let connections = (0..limits.count_max).map(|_| None).collect();
        Self {
            state: L::new(GuardedState {
                planner: PoolPlanner::new(limits, now),
                connections,
                waiters: BTreeMap::new(),
                jobs: VecDeque::new(),
                has_maintenance: false,
                maintenance: None,
                alarm: None,
                close_waiters: Vec::new(),
                totals: Totals::default(),
                last_error: None,
                failure: None,
                refusal: None,
            }),
            has_runtime,
            connection: std::marker::PhantomData,
        }
    }

    /// Requests a connection, with a deadline.
    pub(super) fn take(
        &self,
        usage: Usage,
        until: Instant,
        now: Instant,
    ) -> (Acquisition<(PoolSlotId, C)>, Maintenance) {
        self.change(now, |state| {
            let maintenance = state.start_maintenance(self.has_runtime);
            let ask = match state.planner.take(usage, until, now) {
                Take::Now(slot_id) => Acquisition::Ready((slot_id, state.connection(slot_id))),
                Take::Wait(waiter) => {
                    state.totals.waits += 1;
                    state
                        .waiters
                        .insert(waiter, WaiterState::Waiting(None, now));
                    Acquisition::Wait(waiter)
                }
                Take::Refused(refusal) => Acquisition::Refused(refusal),
            };
            (ask, maintenance)
        })
    }

    /// Ready when the connection is available. The waiter is removed then.
    pub(super) fn poll_waiter(
        &self,
        waiter: Waiter,
        cx: &mut Context<'_>,
    ) -> (Poll<Acquired<C>>, Maintenance) {
        self.state.with(|state| {
            let maintenance = state.start_maintenance(self.has_runtime);
            let waiter_state = state
                .waiters
                .get_mut(&waiter)
                .expect("a waiter has a state");
            if let WaiterState::Waiting(waker, _) = waiter_state {
                *waker = Some(cx.waker().clone());
                return (Poll::Pending, maintenance);
            }
            let answer = match state.waiters.remove(&waiter) {
                Some(WaiterState::Acquired(slot_id, connection)) => Ok((slot_id, connection)),
                Some(WaiterState::Rejected(refusal)) => Err(refusal),
                _ => unreachable!("the state was just looked at"),
            };
            (Poll::Ready(answer), maintenance)
        })
    }

    /// Removes a waiter, served or not. One that was answered by [`poll_waiter`](Self::poll_waiter)
    /// has been removed already.
    pub(super) fn leave(&self, waiter: Waiter, usage: Usage, now: Instant) {
        let connection = self.change(now, |state| match state.waiters.remove(&waiter) {
            Some(WaiterState::Waiting(..)) => {
                state.planner.leave(waiter, now);
                None
            }
            Some(WaiterState::Acquired(slot_id, connection)) => {
                match usage {
                    Usage::Shared => state
                        .planner
                        .give_back(slot_id, AcquireOutcome::Unused, now),
                    Usage::Exclusive => state.planner.unlock(slot_id, AcquireOutcome::Unused, now),
                }
                Some(connection)
            }
            Some(WaiterState::Rejected(_)) | None => None,
        });
        // Dropped after the lock is released, as in `ended`.
        drop(connection);
    }

    /// Handles the end of a request on a shared connection.
    pub(super) fn give_back(&self, slot_id: PoolSlotId, outcome: AcquireOutcome, now: Instant) {
        self.change(now, |state| state.planner.give_back(slot_id, outcome, now));
    }

    /// Handles the return of an exclusive connection.
    pub(super) fn unlock(&self, slot_id: PoolSlotId, outcome: AcquireOutcome, now: Instant) {
        self.change(now, |state| state.planner.unlock(slot_id, outcome, now));
    }

    /// Handles the return of an exclusive connection that must be closed.
    pub(super) fn discard(&self, slot_id: PoolSlotId, now: Instant) {
        self.change(now, |state| state.planner.discard(slot_id, now));
    }

    /// Handles an opened connection.
    pub(super) fn opened(
        &self,
        slot_id: PoolSlotId,
        connection: C,
        round_trip: Duration,
        jitter: u32,
        now: Instant,
    ) {
        let unwanted = self.change(now, |state| {
            state.totals.opened += 1;
            state.failure = None;
            if !state.planner.is_wanted(slot_id) {
                return Some(connection);
            }
            state.connections[slot_id.index] = Some(connection);
            state.planner.opened(slot_id, round_trip, jitter, now);
            None
        });
        drop(unwanted);
    }

    /// Handles a connection that could not be opened.
    pub(super) fn open_failed(
        &self,
        slot_id: PoolSlotId,
        why: Failure,
        error: Error,
        jitter: u32,
        now: Instant,
    ) {
        self.change(now, |state| {
            state.totals.failed += 1;
            state.failure = Some(error.clone());
            if why != Failure::Passing {
                state.refusal = Some(error.clone());
            }
            state.last_error = Some(error);
            state.planner.open_failed(slot_id, why, jitter, now);
        });
    }

    /// Handles the answer to a check.
    pub(super) fn checked(&self, slot_id: PoolSlotId, now: Instant) {
        self.change(now, |state| state.planner.checked(slot_id, now));
    }

    /// Handles the end of a connection, with an error if it was lost. Repeated reports are ignored.
    pub(super) fn ended(
        &self,
        slot_id: PoolSlotId,
        error: Option<Error>,
        jitter: u32,
        now: Instant,
    ) {
        let connection = self.change(now, |state| {
            if !state.planner.ended(slot_id, jitter, now) {
                return None;
            }
            if let Some(error) = error {
                state.totals.lost += 1;
                state.last_error = Some(error);
            }
            state.connections[slot_id.index].take()
        });
        // Dropped after the lock is released: the last handle of a connection wakes its task.
        drop(connection);
    }

    /// The next job of the maintenance task. Before it sleeps, its waker is stored.
    pub(super) fn next_job(&self, cx: &mut Context<'_>, now: Instant) -> MaintenanceJob<C> {
        let (job, wakes) = self.state.with(|state| {
            // The task need not wake itself.
            state.maintenance = None;
            if state.jobs.is_empty() {
                state.planner.advance(now);
            }
            let wakes = state.settle(now);
            let job = state.jobs.pop_front().unwrap_or_else(|| {
                if state.planner.is_closed() {
                    return MaintenanceJob::End;
                }
                state.maintenance = Some(cx.waker().clone());
                state.alarm = state.planner.deadline(now);
                MaintenanceJob::Sleep(state.alarm)
            });
            (job, wakes)
        });
        wakes.wake_all();
        job
    }

    /// Handles the end of the maintenance task, possibly with its runtime. Waiting tasks spawn
    /// another.
    pub(super) fn maintenance_ended(&self) {
        let wakers: Vec<_> = self.state.with(|state| {
            state.has_maintenance = false;
            state.maintenance = None;
            let waiting =
                state
                    .waiters
                    .values_mut()
                    .filter_map(|waiter_state| match waiter_state {
                        WaiterState::Waiting(waker, _) => waker.take(),
                        WaiterState::Acquired(..) | WaiterState::Rejected(_) => None,
                    });
            waiting.chain(state.close_waiters.drain(..)).collect()
        });
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes the maintenance task; there may be no other task to do it.
    pub(super) fn wake_maintenance(&self) {
        let waker = self.state.with(|state| state.maintenance.take());
        waker.into_iter().for_each(Waker::wake);
    }

    /// Refuses new requests, and closes each connection once it is idle.
    pub(super) fn close(&self, now: Instant) {
        self.change(now, |state| state.planner.close_all(now));
    }

    /// Whether everything has ended after [`close`](Self::close).
    pub(super) fn poll_closed(&self, cx: &mut Context<'_>) -> (Poll<()>, Maintenance) {
        self.state.with(|state| {
            let maintenance = state.start_maintenance(self.has_runtime);
            if state.planner.is_closed() {
                return (Poll::Ready(()), maintenance);
            }
            state.close_waiters.push(cx.waker().clone());
            (Poll::Pending, maintenance)
        })
    }

    /// Why a connection could not be opened, if none was opened since.
    pub(super) fn last_failure(&self) -> Option<Error> {
        self.state.with(|state| state.failure.clone())
    }

    /// Why a connection could not be opened, for a reason that fails waiters at once.
    pub(super) fn last_refusal(&self) -> Option<Error> {
        self.state.with(|state| state.refusal.clone())
    }

    /// The current counts, the totals, and the last error.
    pub(super) fn look(&self) -> (Counts, Totals, Option<Error>) {
        self.state.with(|state| {
            let counts = state.planner.counts();
            (counts, state.totals.clone(), state.last_error.clone())
        })
    }

    fn change<R>(&self, now: Instant, act: impl FnOnce(&mut GuardedState<C>) -> R) -> R {
        let (result, wakes) = self.state.with(|state| {
            state.check();
            let result = act(state);
            let wakes = state.settle(now);
            state.check();
            (result, wakes)
        });
        wakes.wake_all();
        result
    }
}

/// Work that is done after the lock is released.
struct DeferredWakes<C> {
    wakers: Vec<Waker>,
    /// The last handle of a connection wakes its task.
    ended: Vec<C>,
}

impl<C> DeferredWakes<C> {
    fn wake_all(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        drop(self.ended);
    }
}

impl<C: Clone> GuardedState<C> {
    /// What holds while the lock is free.
    fn check(&self) {
        assert!(
            self.planner.waiting_count() <= self.waiters.len(),
            "each waiter of the planner has a state"
        );
        // Only in debug builds, as it looks at each place.
        debug_assert!(
            (self.connections.iter().enumerate())
                .all(|(index, it)| it.is_some() == self.planner.is_open(index)),
            "exactly the planner's open slots have a connection"
        );
    }

    fn start_maintenance(&mut self, has_runtime: fn() -> bool) -> Maintenance {
        if self.has_maintenance || self.planner.is_closed() {
            return Maintenance::Running;
        }
        if !has_runtime() {
            return Maintenance::NoRuntime;
        }
        self.has_maintenance = true;
        Maintenance::Missing
    }

    fn connection(&self, slot_id: PoolSlotId) -> C {
        let connection = self.connections[slot_id.index].clone();
        connection.expect("what is lent is open")
    }

    /// Executes the planner's steps after a change.
    fn settle(&mut self, now: Instant) -> DeferredWakes<C> {
        let mut wakes = DeferredWakes {
            wakers: Vec::new(),
            ended: Vec::new(),
        };
        if !self.planner.take_changed() {
            return wakes;
        }
        while let Some(step) = self.planner.next_step() {
            match step {
                Step::Open(slot_id) => self.jobs.push_back(MaintenanceJob::Open(slot_id)),
                Step::Check(slot_id) => {
                    let job = MaintenanceJob::Check(slot_id, self.connection(slot_id));
                    self.jobs.push_back(job);
                }
                Step::Close(slot_id) => {
                    wakes.ended.extend(self.connections[slot_id.index].take());
                }
                Step::Abort(slot_id) => {
                    wakes.ended.extend(self.connections[slot_id.index].take());
                    self.jobs.push_back(MaintenanceJob::Abort(slot_id));
                }
                Step::Serve(waiter, slot_id) => {
                    let waiter_state = WaiterState::Acquired(slot_id, self.connection(slot_id));
                    wakes
                        .wakers
                        .extend(self.answer_waiter(waiter, waiter_state, now));
                }
                Step::Reject(waiter, refusal) => {
                    self.totals.late += u64::from(refusal == Refusal::Late);
                    let waiter_state = WaiterState::Rejected(refusal);
                    wakes
                        .wakers
                        .extend(self.answer_waiter(waiter, waiter_state, now));
                }
            }
        }
        if self.planner.is_closed() {
            wakes.wakers.append(&mut self.close_waiters);
        }
        if self.is_maintenance_due(now) {
            wakes.wakers.extend(self.maintenance.take());
        }
        wakes
    }

    fn answer_waiter(
        &mut self,
        waiter: Waiter,
        waiter_state: WaiterState<C>,
        now: Instant,
    ) -> Option<Waker> {
        match self.waiters.insert(waiter, waiter_state) {
            Some(WaiterState::Waiting(waker, since)) => {
                self.totals.waited += now.saturating_duration_since(since);
                waker
            }
            _ => panic!("an answered waiter was waiting"),
        }
    }

    /// Whether the maintenance task would sleep beyond the deadline.
    fn is_maintenance_due(&self, now: Instant) -> bool {
        let deadline = self.planner.deadline(now);
        let is_nearer = match (deadline, self.alarm) {
            (Some(deadline), Some(alarm)) => deadline < alarm,
            (Some(_), None) => true,
            (None, _) => false,
        };
        is_nearer || !self.jobs.is_empty() || self.planner.is_closed()
    }
}

#[cfg(test)]
mod tests;
