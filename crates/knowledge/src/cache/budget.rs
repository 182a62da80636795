//! The byte budget that the caches of all sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The share of the bytes for the last good answers of all providers, if there are providers that
/// keep them.
const STALE_PERCENT: u64 = 40;

const _: () = assert!(STALE_PERCENT <= 100);

/// How `capacity_bytes` of `[cache]` is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheBytes {
    /// For the shared cache and those of the sessions.
    pub(crate) shared: u64,
    /// For the last good answers of each provider that keeps them.
    pub(crate) stale: u64,
}

impl CacheBytes {
    /// Divides `size_max` bytes, where `stale_provider_count` providers keep their last good
    /// answers.
    pub(crate) fn of(size_max: u64, stale_provider_count: usize) -> Self {
        let stale = match stale_provider_count {
            0 => 0,
            _ => size_max / 100 * STALE_PERCENT,
        };
        let parts = Self {
            shared: size_max - stale,
            stale: stale / stale_provider_count.max(1) as u64,
        };
        assert!(
            parts.shared + parts.stale * stale_provider_count as u64 <= size_max,
            "the shares do not exceed the total"
        );
        parts
    }
}

/// The most bytes that a session takes at once: enough that sessions rarely contend for the
/// counter.
const GRAIN_MAX: u64 = 64 << 10;

/// The most bytes of one session, however few sessions there are.
const SHARE_MAX: u64 = 40 << 20;

// The largest share is taken in many steps.
const _: () = assert!(8 * GRAIN_MAX <= SHARE_MAX);

/// The budget of the sessions: how many bytes there are and how many are taken.
///
/// Relaxed throughout: the counters do not order other accesses, and each is exact by itself.
#[derive(Debug)]
pub(crate) struct LocalBudget {
    size_max: u64,
    taken: AtomicU64,
    /// The number of sessions that use the budget.
    session_count: AtomicU64,
}

/// The bytes that one session has taken; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Allowance {
    budget: Arc<LocalBudget>,
    taken: u64,
    /// The bytes that one session may take when there are `session_count` sessions.
    share: u64,
    session_count: u64,
}

impl LocalBudget {
    pub(crate) fn new(size_max: u64) -> Self {
        Self {
            size_max,
            taken: AtomicU64::new(0),
            session_count: AtomicU64::new(0),
        }
    }

    /// The bytes that sessions have taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The size of the budget.
    pub(crate) fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Takes `size` more bytes, if there are enough.
    fn take(&self, size: u64) -> bool {
        let more = |taken: u64| Some(taken + size).filter(|taken| *taken <= self.size_max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }
}

impl Allowance {
    /// An empty allowance for one more session.
    pub(crate) fn new(budget: Arc<LocalBudget>) -> Self {
        budget.session_count.fetch_add(1, Ordering::Relaxed);
        Self {
            budget,
            taken: 0,
            share: 0,
            session_count: 0,
        }
    }

    /// The bytes that the session may take: an equal part of the budget.
    #[inline]
    pub(crate) fn share(&mut self) -> u64 {
        let session_count = self.budget.session_count.load(Ordering::Relaxed);
        // A division for each entry would be the most expensive part of the insertion.
        if session_count != self.session_count {
            self.session_count = session_count;
            self.share = (self.budget.size_max / session_count.max(1)).min(SHARE_MAX);
        }
        self.share
    }

    /// Whether the session has `size` bytes, taking more if needed.
    #[inline]
    pub(crate) fn covers(&mut self, size: u64) -> bool {
        size <= self.taken || self.grow(size)
    }

    #[cold]
    fn grow(&mut self, size: u64) -> bool {
        assert!(
            self.taken < size,
            "the requested size exceeds what was taken"
        );
        let share = self.share();
        if size > share {
            return false;
        }
        let grain = GRAIN_MAX.min(share / 8).max(1);
        let wanted = size.next_multiple_of(grain).min(share) - self.taken;
        let is_taken = self.budget.take(wanted);
        if is_taken {
            self.taken += wanted;
            assert!(size <= self.taken, "the requested size was taken");
            assert!(self.taken <= share, "a session has no more than its share");
        }
        is_taken
    }

    /// The bytes that the session has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns all but `size` bytes to the budget.
    pub(crate) fn shrink(&mut self, size: u64) {
        if let Some(given) = self.taken.checked_sub(size) {
            let before = self.budget.taken.fetch_sub(given, Ordering::Relaxed);
            assert!(given <= before, "returned bytes were taken");
            self.taken = size;
        }
    }

    /// Whether the session has taken more than its current share.
    #[inline]
    pub(crate) fn is_beyond_share(&mut self) -> bool {
        self.taken > self.share()
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.shrink(0);
        let before = self.budget.session_count.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "each session was counted");
    }
}
