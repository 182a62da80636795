//! Parking of threads until there is something to do, without lost and without useless wakes.
//!
//! Waking a sleeping thread costs the waking thread a system call, which takes as long as hundreds
//! of items. So a thread that has published something first checks whether any thread is parked,
//! which is one load of a cache line that no thread writes to under load, and a thread that is
//! being woken is not woken twice.

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, Padded, fence};

/// A place where threads park.
pub(crate) struct Parker {
    /// A copy of `State::asleep`, for checks of whether it is zero.
    asleep: Padded<AtomicU32>,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that sleep and are not being woken yet.
    asleep: u32,
    /// How often all threads were woken; a parked thread leaves when it changes.
    round: u64,
    /// Wakes of single threads that no thread has consumed yet; each thread that leaves for one
    /// consumes it. It does not matter which thread leaves, because single wakes are only used
    /// where all sleep for the same reason.
    leaving: u32,
    /// Threads woken so far.
    wakes: u64,
    /// How often a thread went to sleep.
    sleeps: u64,
}

/// How often a parker was used.
pub(crate) struct Tally {
    pub(crate) wakes: u64,
    pub(crate) sleeps: u64,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            asleep: Padded(AtomicU32::new(0)),
            state: Mutex::new(State::default()),
            woken: Condvar::new(),
        }
    }

    /// Whether a thread sleeps here. The caller has published its change and executed a `SeqCst`
    /// fence after it: the partner of the fence in [`park`](Self::park). One of the two threads
    /// sees what the other did, so either the sleeper finds the change or the waker finds the
    /// sleeper.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        // Relaxed: the fences order it, and which thread is woken is decided under the lock.
        self.asleep.0.load(Ordering::Relaxed) != 0
    }

    /// Wakes all threads that sleep here.
    #[cold]
    pub(crate) fn unpark_all(&self) {
        self.unpark(u32::MAX);
    }

    /// Wakes up to `count` of the threads that sleep here, where all sleep for the same reason.
    #[cold]
    pub(crate) fn unpark(&self, count: u32) {
        let mut state = self.lock();
        if state.asleep == 0 {
            return;
        }
        let is_all = count >= state.asleep;
        let count = count.min(state.asleep);
        state.asleep -= count;
        state.wakes += u64::from(count);
        if is_all {
            state.round += 1;
            state.leaving = 0;
        } else {
            state.leaving += count;
        }
        self.asleep.0.store(state.asleep, Ordering::Relaxed);
        drop(state);
        if is_all {
            self.woken.notify_all();
        } else {
            (0..count).for_each(|_| self.woken.notify_one());
        }
    }

    /// Sleeps until unparked; returns at once if `has_news` returns true.
    #[cold]
    pub(crate) fn park(&self, mut has_news: impl FnMut() -> bool) {
        let mut state = self.lock();
        state.asleep += 1;
        self.asleep.0.store(state.asleep, Ordering::Relaxed);
        // The partner of the fence of the callers of `has_sleepers`; see there.
        fence(Ordering::SeqCst);
        if has_news() {
            state.asleep -= 1;
            self.asleep.0.store(state.asleep, Ordering::Relaxed);
            return;
        }
        state.sleeps += 1;
        let round = state.round;
        loop {
            state = self.woken.wait(state).expect(UNPOISONED);
            if state.round != round {
                return;
            }
            if state.leaving > 0 {
                state.leaving -= 1;
                return;
            }
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = self.lock();
        Tally {
            wakes: state.wakes,
            sleeps: state.sleeps,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing that holds this lock panics";
