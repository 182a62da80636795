//! Work of one request for a blocking thread. There may be more waiting requests than such threads;
//! a job whose request is cancelled before its turn never runs.

use std::sync::{Arc, Mutex, PoisonError};

type Work = Box<dyn FnOnce() + Send>;

/// Work that waits for a thread. Clones share the same work.
#[derive(Clone)]
pub(super) struct BlockingJob(Arc<Mutex<Option<Work>>>);

impl BlockingJob {
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(work)))))
    }

    /// Does the work, unless it was dropped or done before.
    pub(super) fn run(&self) {
        if let Some(work) = self.take() {
            work();
        }
    }

    /// Drops the work and everything it owns, unless it has begun.
    pub(super) fn discard(&self) {
        drop(self.take());
    }

    /// Takes the work out; the lock is held only for this.
    fn take(&self) -> Option<Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it is dropped.
    struct Held(Arc<AtomicUsize>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn issue_12_work_that_is_discarded_before_it_begins_never_runs() {
        for (discards, expected) in [(true, (0, 1)), (false, (1, 1))] {
            let (runs, drops) = (Arc::new(AtomicUsize::new(0)), Arc::default());
            let held = Held(Arc::clone(&drops));
            let job = BlockingJob::new({
                let runs = runs.clone();
                move || {
                    let _held = held;
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
            let queued = job.clone();
            if discards {
                job.discard();
                assert_eq!(
                    drops.load(Ordering::Relaxed),
                    1,
                    "what it held is gone at once"
                );
            }
            queued.run();
            job.discard();
            queued.run();
            let counted = (runs.load(Ordering::Relaxed), drops.load(Ordering::Relaxed));
            assert_eq!(counted, expected, "discards: {discards}");
        }
    }
}
