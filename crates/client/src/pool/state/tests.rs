//! The state under a model checker, which tries each order in which threads can meet at its lock. A
//! lost wake-up leaves a thread parked, which the checker reports as a deadlock.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Wake;
use std::time::Duration;

use loom::sync::Mutex as LoomMutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::*;
use crate::sync::model::block_on;

type Model = PoolState<Arc<Socket>, LoomMutex<GuardedState<Arc<Socket>>>>;

/// A connection that says so when its last handle is gone, as one does in the end.
struct Socket {
    state: Weak<Model>,
    slot_id: PoolSlotId,
    now: Instant,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.slot_id.fmt(f)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            state.ended(self.slot_id, None, 0, self.now);
        }
    }
}

fn check(model: impl Fn(Arc<Model>, Instant) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Nearly all bugs need no more preemptions; without a bound, it takes minutes.
    builder.preemption_bound = Some(3);
    let now = Instant::now();
    builder.check(move || model(Arc::new(PoolState::new(limits(), || true, now)), now));
}

/// One connection for one request, without a limit of time.
fn limits() -> Limits {
    Limits {
        count_max: 1,
        count_min: 0,
        depth: 1,
        stall: Duration::from_secs(1),
        idle_timeout: None,
        lifetime_max: None,
        check_after: Duration::from_secs(1_000),
        check_timeout: Duration::from_secs(1_000),
    }
}

fn take(state: &Model, usage: Usage, now: Instant) -> Result<PoolSlotId, Refusal> {
    let (ask, _) = state.take(usage, now + Duration::from_secs(1), now);
    match ask {
        Acquisition::Ready((slot_id, _)) => Ok(slot_id),
        Acquisition::Refused(refusal) => Err(refusal),
        Acquisition::Wait(waiter) => {
            let served = poll_fn(|cx| state.poll_waiter(waiter, cx).0);
            block_on(served).map(|(slot_id, _)| slot_id)
        }
    }
}

/// What the maintenance task does until it has opened a connection.
fn open(state: &Arc<Model>, now: Instant) -> PoolSlotId {
    let job = block_on(poll_fn(|cx| match state.next_job(cx, now) {
        MaintenanceJob::Sleep(_) => Poll::Pending,
        job => Poll::Ready(job),
    }));
    let MaintenanceJob::Open(slot_id) = job else {
        panic!("a connection is wanted");
    };
    opened(state, slot_id, now);
    slot_id
}

fn opened(state: &Arc<Model>, slot_id: PoolSlotId, now: Instant) {
    let socket = Socket {
        state: Arc::downgrade(state),
        slot_id,
        now,
    };
    state.opened(slot_id, Arc::new(socket), Duration::ZERO, 0, now);
}

fn counts(state: &Model) -> Counts {
    state.look().0
}

#[test]
fn all_waiters_are_woken() {
    check(|state, now| {
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    let slot_id = take(&state, Usage::Shared, now).unwrap();
                    state.give_back(slot_id, AcquireOutcome::Answered, now);
                })
            })
            .collect();
        open(&state, now);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let counts = counts(&state);
        assert_eq!((counts.in_flight, counts.waiting, counts.idle), (0, 0, 1));
    });
}

#[test]
fn a_locked_connection_has_one_holder() {
    check(|state, now| {
        let is_held = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (state, is_held) = (Arc::clone(&state), Arc::clone(&is_held));
                thread::spawn(move || {
                    let slot_id = take(&state, Usage::Exclusive, now).unwrap();
                    assert!(!is_held.swap(true, Ordering::AcqRel));
                    is_held.store(false, Ordering::Release);
                    state.unlock(slot_id, AcquireOutcome::Answered, now);
                })
            })
            .collect();
        open(&state, now);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(counts(&state).idle, 1);
    });
}

#[test]
fn who_leaves_takes_nothing_along() {
    check(|state, now| {
        let leaving = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                let (ask, _) = state.take(Usage::Exclusive, now + Duration::from_secs(1), now);
                match ask {
                    Acquisition::Ready((slot_id, _)) => {
                        state.unlock(slot_id, AcquireOutcome::Unused, now)
                    }
                    Acquisition::Wait(waiter) => state.leave(waiter, Usage::Exclusive, now),
                    Acquisition::Refused(refusal) => panic!("{refusal:?}"),
                }
            }
        });
        let staying = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                let slot_id = take(&state, Usage::Exclusive, now).unwrap();
                state.unlock(slot_id, AcquireOutcome::Answered, now);
            }
        });
        open(&state, now);
        leaving.join().unwrap();
        staying.join().unwrap();
        let counts = counts(&state);
        assert_eq!((counts.locked, counts.waiting, counts.idle), (0, 0, 1));
    });
}

#[test]
fn a_connection_that_ends_is_opened_again_for_who_waits() {
    check(|state, now| {
        let is_done = Arc::new(AtomicBool::new(false));
        let task = thread::spawn({
            let (state, is_done) = (Arc::clone(&state), Arc::clone(&is_done));
            move || {
                for _ in 0..2 {
                    let slot_id = take(&state, Usage::Shared, now).unwrap();
                    state.give_back(slot_id, AcquireOutcome::Answered, now);
                }
                is_done.store(true, Ordering::Release);
                state.wake_maintenance();
            }
        });
        let first = open(&state, now);
        state.ended(first, None, 0, now);
        // If it was not used before, there is a pause, which is over then.
        let later = now + Duration::from_millis(100);
        block_on(poll_fn(|cx| {
            while let MaintenanceJob::Open(slot_id) = state.next_job(cx, later) {
                opened(&state, slot_id, later);
            }
            match is_done.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        task.join().unwrap();
        assert_eq!(counts(&state).in_flight, 0);
    });
}

#[test]
fn a_maintenance_task_that_is_gone_is_replaced() {
    check(|state, now| {
        // The first has ended with its runtime, before or after a caller began to wait.
        let task = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                let until = now + Duration::from_secs(1);
                let (ask, mut maintenance) = state.take(Usage::Shared, until, now);
                let Acquisition::Wait(waiter) = ask else {
                    panic!("nothing is open");
                };
                let slot_id = block_on(poll_fn(|cx| {
                    if maintenance == Maintenance::Missing {
                        open(&state, now);
                    }
                    let (served, missing) = state.poll_waiter(waiter, cx);
                    maintenance = missing;
                    if maintenance == Maintenance::Missing {
                        cx.waker().wake_by_ref();
                    }
                    served
                }));
                state.give_back(slot_id.unwrap().0, AcquireOutcome::Answered, now);
            }
        });
        // Another caller has spawned a maintenance task, whose runtime ends without a job being done.
        let (_, maintenance) = state.poll_closed(&mut Context::from_waker(Waker::noop()));
        if maintenance == Maintenance::Missing {
            state.maintenance_ended();
        }
        task.join().unwrap();
        assert_eq!(counts(&state).idle, 1);
    });
}

loom::thread_local! {
    static HAS_RUNTIME: Cell<bool> = Cell::new(true);
}

#[test]
fn a_caller_without_a_runtime_starts_no_maintenance_and_blocks_no_other() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let now = Instant::now();
    builder.check(move || {
        let has_runtime = || HAS_RUNTIME.with(Cell::get);
        let state: Arc<Model> = Arc::new(PoolState::new(limits(), has_runtime, now));
        let until = now + Duration::from_secs(1);
        let outside = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                HAS_RUNTIME.with(|has_runtime| has_runtime.set(false));
                let slot_id = match state.take(Usage::Shared, until, now) {
                    (Acquisition::Wait(waiter), Maintenance::NoRuntime) => {
                        return state.leave(waiter, Usage::Shared, now);
                    }
                    (Acquisition::Wait(waiter), Maintenance::Running) => {
                        let served = poll_fn(|cx| state.poll_waiter(waiter, cx).0);
                        block_on(served).unwrap().0
                    }
                    (Acquisition::Ready((slot_id, _)), Maintenance::Running) => slot_id,
                    other => panic!("{other:?}"),
                };
                state.give_back(slot_id, AcquireOutcome::Answered, now);
            }
        });
        let (ask, maintenance) = state.take(Usage::Shared, until, now);
        assert_eq!(maintenance, Maintenance::Missing);
        let Acquisition::Wait(waiter) = ask else {
            panic!("nothing is open");
        };
        open(&state, now);
        let served = poll_fn(|cx| state.poll_waiter(waiter, cx).0);
        let (slot_id, _) = block_on(served).unwrap();
        state.give_back(slot_id, AcquireOutcome::Answered, now);
        outside.join().unwrap();
        let counts = counts(&state);
        assert_eq!((counts.in_flight, counts.waiting, counts.idle), (0, 0, 1));
    });
}

#[test]
fn the_end_is_heard_of() {
    check(|state, now| {
        let task = thread::spawn({
            let state = Arc::clone(&state);
            move || match take(&state, Usage::Shared, now) {
                Ok(slot_id) => state.give_back(slot_id, AcquireOutcome::Answered, now),
                Err(refusal) => assert_eq!(refusal, Refusal::Closed),
            }
        });
        let closing = thread::spawn({
            let state = Arc::clone(&state);
            move || {
                state.close(now);
                block_on(poll_fn(|cx| state.poll_closed(cx).0));
            }
        });
        // The maintenance task, until it is told to end.
        loop {
            let job = block_on(poll_fn(|cx| match state.next_job(cx, now) {
                MaintenanceJob::Sleep(_) => Poll::Pending,
                job => Poll::Ready(job),
            }));
            match job {
                MaintenanceJob::Open(slot_id) => opened(&state, slot_id, now),
                MaintenanceJob::Abort(slot_id) => state.ended(slot_id, None, 0, now),
                MaintenanceJob::End => break,
                MaintenanceJob::Check(..) | MaintenanceJob::Sleep(_) => {
                    panic!("that is nothing to do at the end")
                }
            }
        }
        task.join().unwrap();
        closing.join().unwrap();
    });
}

/// Counts how often a waker is woken.
struct Count(std::sync::atomic::AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_maintenance_task_is_woken_where_nobody_waits() {
    let now = Instant::now();
    let limits = Limits {
        count_max: 2,
        ..limits()
    };
    let state: PoolState<u32, std::sync::Mutex<GuardedState<u32>>> =
        PoolState::new(limits, || true, now);
    let woken = Arc::new(Count(0.into()));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let until = now + Duration::from_secs(1);
    let (Acquisition::Wait(waiter), Maintenance::Missing) = state.take(Usage::Shared, until, now)
    else {
        panic!("nothing is there");
    };
    let MaintenanceJob::Open(slot_id) = state.next_job(&mut cx, now) else {
        panic!("a connection is wanted");
    };
    state.opened(slot_id, 7, Duration::ZERO, 0, now);
    assert!(state.poll_waiter(waiter, &mut cx).0.is_ready());
    assert!(matches!(
        state.next_job(&mut cx, now),
        MaintenanceJob::Sleep(None)
    ));
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    // The connection is full, and takes one more while another is opened.
    let (ask, _) = state.take(Usage::Shared, until, now);
    assert!(matches!(ask, Acquisition::Ready(_)));
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(matches!(
        state.next_job(&mut cx, now),
        MaintenanceJob::Open(_)
    ));
}
