//! The last good answers of a provider, for when it gives none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookaside_value::RowSet;

use crate::cache::{BoundedCache, HeapSize, KeyRef, rows_size};

/// Answers that are kept, if their bytes allow it; their rows are those of the shared cache as long
/// as that has them too.
const ANSWER_COUNT_MAX: usize = 65_536;

/// How long an old answer stands in before the server is asked again.
pub(crate) const STALE_LIFETIME: Duration = Duration::from_secs(1);

pub(crate) struct Stale {
    pub(crate) age_max: Duration,
    answers: BoundedCache<Kept>,
    /// Whether old answers stand in now, as the log has it.
    is_stale: AtomicBool,
}

#[derive(Clone)]
pub(super) struct Kept {
    rows: RowSet,
    at: Instant,
    /// Bytes on the heap of the rows and their key.
    size: u32,
}

impl HeapSize for Kept {
    fn heap_size(&self) -> u64 {
        self.size.into()
    }
}

impl Stale {
    /// Room for answers of so many bytes.
    pub(super) fn new(age_max: Duration, size_max: u64) -> Self {
        Self {
            age_max,
            answers: BoundedCache::new(ANSWER_COUNT_MAX, size_max),
            is_stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn keep(&self, key: &KeyRef<'_>, rows: &RowSet, at: Instant) {
        let size = key.heap_size() + rows_size(rows);
        let kept = Kept {
            rows: rows.clone(),
            at,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        };
        self.answers.insert(key.to_key(), kept);
    }

    /// The answers that are kept.
    pub(super) fn answers(&self) -> &BoundedCache<Kept> {
        &self.answers
    }

    /// Notes that an old answer stands in, and says whether that begins with it. Relaxed, here and
    /// below: it decides who writes a line and nothing else.
    pub(crate) fn begins(&self) -> bool {
        !self.is_stale.swap(true, Ordering::Relaxed)
    }

    /// Notes that the server answered, and says whether old answers stood in until then.
    pub(crate) fn ends(&self) -> bool {
        // Nearly always there is nothing to write to what all threads share.
        self.is_stale.load(Ordering::Relaxed) && self.is_stale.swap(false, Ordering::Relaxed)
    }

    /// Whether there is a last good answer that is not too old.
    pub(crate) fn has(&self, key: &KeyRef<'_>) -> bool {
        self.find(key).is_some()
    }

    /// The last good answer and its age, unless it is too old.
    pub(crate) fn find(&self, key: &KeyRef<'_>) -> Option<(RowSet, Duration)> {
        let kept = self.answers.find(key)?;
        let age = kept.at.elapsed();
        (age <= self.age_max).then_some((kept.rows, age))
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
