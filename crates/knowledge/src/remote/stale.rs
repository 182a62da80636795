//! The last good answers of a provider, returned as stale answers while it fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookaside_value::RowSet;

use crate::cache::{BoundedCache, HeapSize, KeyRef, rows_size};

/// The most answers that are kept, within the limit of bytes; their rows are shared with the shared
/// cache as long as it has them too.
const ANSWER_COUNT_MAX: usize = 65_536;

/// How long a stale answer is used before the server is queried again.
pub(crate) const STALE_LIFETIME: Duration = Duration::from_secs(1);

pub(crate) struct Stale {
    pub(crate) age_max: Duration,
    answers: BoundedCache<StoredAnswer>,
    /// Whether stale answers are in use, according to the log.
    is_stale: AtomicBool,
}

#[derive(Clone)]
pub(super) struct StoredAnswer {
    rows: RowSet,
    at: Instant,
    /// Bytes on the heap of the rows and their key.
    size: u32,
}

impl HeapSize for StoredAnswer {
    fn heap_size(&self) -> u64 {
        self.size.into()
    }
}

impl Stale {
    /// A store for answers of up to `size_max` bytes.
    pub(super) fn new(age_max: Duration, size_max: u64) -> Self {
        Self {
            age_max,
            answers: BoundedCache::new(ANSWER_COUNT_MAX, size_max),
            is_stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn keep(&self, key: &KeyRef<'_>, rows: &RowSet, at: Instant) {
        let size = key.heap_size() + rows_size(rows);
        let stored = StoredAnswer {
            rows: rows.clone(),
            at,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        };
        self.answers.insert(key.to_key(), stored);
    }

    /// The answers that are kept.
    pub(super) fn answers(&self) -> &BoundedCache<StoredAnswer> {
        &self.answers
    }

    /// Records the use of a stale answer, and returns whether it is the first one. Relaxed, here
    /// and below: it only decides which thread writes the log line.
    pub(crate) fn begins(&self) -> bool {
        !self.is_stale.swap(true, Ordering::Relaxed)
    }

    /// Records that the server answered, and returns whether stale answers were in use until then.
    pub(crate) fn ends(&self) -> bool {
        // The load avoids, in nearly all cases, a write to a cache line that all threads share.
        self.is_stale.load(Ordering::Relaxed) && self.is_stale.swap(false, Ordering::Relaxed)
    }

    /// Whether there is a last good answer that is not too old.
    pub(crate) fn has(&self, key: &KeyRef<'_>) -> bool {
        self.find(key).is_some()
    }

    /// The last good answer and its age, unless it is too old.
    pub(crate) fn find(&self, key: &KeyRef<'_>) -> Option<(RowSet, Duration)> {
        let stored = self.answers.find(key)?;
        let age = stored.at.elapsed();
        (age <= self.age_max).then_some((stored.rows, age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_hears_of_each_outage_once() {
        let stale = Stale::new(Duration::from_secs(1), 1 << 20);
        assert!(!stale.ends());
        for _ in 0..2 {
            assert!(stale.begins());
            assert!(!stale.begins());
            assert!(stale.ends());
            assert!(!stale.ends());
        }
    }
}
