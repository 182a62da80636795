//! Atomics, cells and locks: those of `std`, and in the unit tests those of a model checker (loom)
//! that tries each interleaving of threads. The unit tests are therefore all models; tests on real
//! threads are in `tests/it`, which uses the public API.

#[cfg(test)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(test))]
pub(crate) use std::{
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::yield_now,
};

/// Padding to two cache lines: processors also prefetch the adjacent line, so two threads that
/// write to adjacent lines would still contend.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// Pauses a spinning thread for a moment without starving the thread it waits for.
pub(crate) fn spin_loop() {
    #[cfg(not(test))]
    std::hint::spin_loop();
    #[cfg(test)]
    yield_now();
}

/// `std`'s cell with the API of loom's, which detects concurrent access.
#[cfg(not(test))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(test))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}
