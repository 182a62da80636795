//! Tells an event loop that a turn is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, ThreadId};

/// Set when a query can go on. The owner looks at it before it waits, so that only what sets it on
/// another thread has to wake the owner.
pub(super) struct Notify {
    is_set: AtomicBool,
    owner: ThreadId,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Notify {
    /// Owned by this thread.
    pub(super) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            is_set: AtomicBool::new(false),
            owner: thread::current().id(),
            wake: Box::new(wake),
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    pub(super) fn set(&self) {
        // Acquire and release: what was done before it is set is seen by who takes it.
        if !self.is_set.swap(true, Ordering::AcqRel) && thread::current().id() != self.owner {
            (self.wake)();
        }
    }

    /// Whether it was set since this was called last.
    pub(super) fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}
