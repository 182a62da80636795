//! Where atomics, cells and locks come from: `std`, and in the unit tests a model checker that tries
//! each order in which threads can meet. Those tests are therefore models and nothing else; what runs
//! on real threads is in `tests/it`, which sees this crate as everybody does.

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

/// Two cache lines: processors fetch the neighbour of a line they need, so that two threads which
/// write to neighbouring lines would still take them from each other.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// Lets a waiting thread burn a moment without starving the one it waits for.
pub(crate) fn spin_loop() {
    #[cfg(not(test))]
    std::hint::spin_loop();
    #[cfg(test)]
    yield_now();
}

/// `std`'s cell with the face of the model checker's, which sees two threads in it at once.
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
