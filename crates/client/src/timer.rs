//! A timer for waits outside of a tokio runtime, or on one without a time driver.
//!
//! One thread per process serves all of them; it is started on first use. A wait that ends early,
//! as most do, does not wake the thread: it wakes up at the last set time, and computes the next
//! one.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

static TIMER: Timer = Timer {
    state: Mutex::new(State {
        waiting: BTreeMap::new(),
        count: 0,
        wakes_at: None,
        is_running: false,
    }),
    changed: Condvar::new(),
};

struct Timer {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By time and number.
    waiting: BTreeMap<(Instant, u64), Waker>,
    /// How many waits were registered so far.
    count: u64,
    /// When the thread wakes up by itself; `None` if never.
    wakes_at: Option<Instant>,
    is_running: bool,
}

/// Completes at a time.
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    Sleep { at, number: None }
}

/// See [`sleep_until`].
#[derive(Debug)]
pub(crate) struct Sleep {
    at: Instant,
    /// Set once it is registered.
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= Instant::now() {
            return Poll::Ready(());
        }
        let mut state = TIMER.lock();
        let number = match self.number {
            Some(number) => number,
            None => {
                state.count += 1;
                state.count
            }
        };
        self.number = Some(number);
        let replaced = state.waiting.insert((self.at, number), cx.waker().clone());
        if !state.is_running {
            // If the thread cannot be started, the next poll tries again.
            let thread = thread::Builder::new().name("lookaside-timer".to_owned());
            state.is_running = thread.spawn(|| TIMER.run()).is_ok();
        } else if state.wakes_at.is_none_or(|wakes_at| self.at < wakes_at) {
            state.wakes_at = Some(self.at);
            TIMER.changed.notify_one();
        }
        drop(state);
        // Dropped after the lock is released: the last handle of a waker may drop the task that it
        // wakes.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = TIMER.lock().waiting.remove(&(self.at, number));
            // Dropped after the lock is released, as above.
            drop(waker);
        }
    }
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes each wait at its time.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let later = state.waiting.split_off(&(now, u64::MAX));
            let due = std::mem::replace(&mut state.waiting, later);
            if !due.is_empty() {
                drop(state);
                due.into_values().for_each(Waker::wake);
                state = self.lock();
                continue;
            }
            let next = state.waiting.keys().next().map(|(at, _)| *at);
            state.wakes_at = next;
            let unlocked = match next {
                None => self.changed.wait(state),
                Some(at) => {
                    let timeout = at.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, timeout);
                    Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
                }
            };
            state = unlocked.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Notify(mpsc::Sender<()>);

    impl Wake for Notify {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn sleeps_end_in_time_whatever_their_order() {
        let start = Instant::now();
        let (told, wakes) = mpsc::channel();
        let waker = Waker::from(Arc::new(Notify(told)));
        let mut cx = Context::from_waker(&waker);
        // One is dropped, and the others are registered out of order.
        let mut sleeps: Vec<_> = [100_000_000, 60, 20, 40, 20]
            .map(|ms| Box::pin(sleep_until(start + Duration::from_millis(ms))))
            .into();
        for sleep in &mut sleeps {
            // On a busy machine its time may have come.
            let _: Poll<()> = sleep.as_mut().poll(&mut cx);
        }
        let last = sleeps.remove(0);
        while !sleeps.is_empty() {
            sleeps.retain_mut(|sleep| {
                let is_over = sleep.as_mut().poll(&mut cx).is_ready();
                assert!(!is_over || sleep.at <= Instant::now());
                !is_over
            });
            if !sleeps.is_empty() {
                wakes.recv_timeout(Duration::from_secs(120)).unwrap();
            }
        }
        let (at, number) = (last.at, last.number.unwrap());
        assert!(TIMER.lock().waiting.contains_key(&(at, number)));
        drop(last);
        assert!(!TIMER.lock().waiting.contains_key(&(at, number)));
    }
}
