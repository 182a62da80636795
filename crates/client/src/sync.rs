//! The lock behind state that threads share, so that a model checker can replace the system's.

use std::sync::{Mutex, PoisonError};

/// A lock: the system's, or that of a model checker.
pub(crate) trait Lock<T> {
    fn new(value: T) -> Self;
    fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> Lock<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        // Poisoning is ignored: a violated assertion fails again where it matters, and a panic here
        // would abort the process if the thread is unwinding.
        look(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Helpers for models under a checker: its lock, and a way to wait for a future.
#[cfg(test)]
pub(crate) mod model {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    use loom::sync::{Condvar, Mutex as LoomMutex};

    use super::Lock;

    impl<T> Lock<T> for LoomMutex<T> {
        fn new(value: T) -> Self {
            Self::new(value)
        }

        fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
            look(&mut self.lock().unwrap())
        }
    }

    /// Wakes a thread. The checker's own parking does not support threads that also join others.
    struct Alarm {
        is_rung: LoomMutex<bool>,
        rung: Condvar,
    }

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            *self.is_rung.lock().unwrap() = true;
            self.rung.notify_one();
        }
    }

    /// Waits for a future. One that is never woken is a deadlock, which the checker reports.
    pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let alarm = Arc::new(Alarm {
            is_rung: LoomMutex::new(false),
            rung: Condvar::new(),
        });
        let waker = Waker::from(Arc::clone(&alarm));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return value;
            }
            let mut is_rung = alarm.is_rung.lock().unwrap();
            while !*is_rung {
                is_rung = alarm.rung.wait(is_rung).unwrap();
            }
            *is_rung = false;
        }
    }
}
