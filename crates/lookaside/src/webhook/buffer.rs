//! The limit of the bytes that are under way: received, and not delivered or refused yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that all requests use together.
#[derive(Debug)]
pub(super) struct Buffer {
    /// `Relaxed` throughout, since it synchronizes nothing else.
    used: AtomicU64,
    max: u64,
}

/// The part of one request, which is returned when it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    buffer: Arc<Buffer>,
    size: AtomicU64,
}

impl Buffer {
    pub(super) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            max,
        })
    }

    /// The limit.
    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Whether `size` further bytes are below the limit.
    pub(super) fn has_room(&self, size: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        used.checked_add(size).is_some_and(|used| used <= self.max)
    }

    /// Adds bytes unless that exceeds the limit; returns whether it did.
    fn add(&self, size: u64) -> bool {
        let within = |used: u64| used.checked_add(size).filter(|used| *used <= self.max);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(set, fetch, within).is_ok()
    }
}

impl Reservation {
    /// A reservation of nothing.
    pub(super) fn new(buffer: &Arc<Buffer>) -> Self {
        Self {
            buffer: Arc::clone(buffer),
            size: AtomicU64::new(0),
        }
    }

    /// Reserves further bytes; returns whether there was room for them.
    pub(super) fn grow(&mut self, size: usize) -> bool {
        let has_room = self.buffer.add(size as u64);
        if has_room {
            *self.size.get_mut() += size as u64;
        }
        has_room
    }

    /// Returns the part that is more than `size` bytes.
    pub(super) fn shrink_to(&mut self, size: usize) {
        let reserved = self.size.get_mut();
        let rest = reserved.saturating_sub(size as u64);
        *reserved -= rest;
        self.buffer.used.fetch_sub(rest, Ordering::Relaxed);
    }

    /// Returns all of it. May be called from any thread, and several times.
    pub(super) fn release(&self) {
        let size = self.size.swap(0, Ordering::Relaxed);
        self.buffer.used.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_below_the_limit_and_returned_once() {
        let buffer = Buffer::new(10);
        let mut first = Reservation::new(&buffer);
        let mut second = Reservation::new(&buffer);
        assert!(first.grow(6) && !first.grow(5) && second.grow(4));
        assert!(!buffer.has_room(1) && !second.grow(1));
        first.shrink_to(8);
        first.shrink_to(2);
        assert!(buffer.has_room(4) && !buffer.has_room(5));
        assert!(!buffer.has_room(u64::MAX));
        second.release();
        drop(second);
        drop(first);
        assert!(buffer.has_room(10) && !buffer.has_room(11));
    }
}
