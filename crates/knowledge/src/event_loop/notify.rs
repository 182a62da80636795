//! A flag that wakes an event loop when a turn is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, ThreadId};

/// Set when a query can make progress. The owner checks it before it waits, so the owner only has
/// to be woken if another thread sets it.
pub(super) struct Notify {
    is_set: AtomicBool,
    owner: ThreadId,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Notify {
    /// Creates the flag; the current thread is its owner.
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
        // Acquire and release: everything before the flag is set is visible to the thread that
        // takes it.
        if !self.is_set.swap(true, Ordering::AcqRel) && thread::current().id() != self.owner {
            (self.wake)();
        }
    }

    /// Whether it was set since the last call.
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
