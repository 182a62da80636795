//! The last good answers of a provider, for when it gives none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lookaside_value::RowSet;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::cache::{Key, KeyRef};

/// Answers that are kept; their rows are those of the shared cache as long as that has them too.
const ANSWER_COUNT_MAX: usize = 65_536;

/// Bytes of their rows, of a few hundred in each.
const ANSWER_SIZE_MAX: u64 = 64 << 20;

/// How long an old answer stands in before the server is asked again.
pub(super) const STANDS_IN: Duration = Duration::from_secs(1);

pub(crate) struct Stale {
    age_max: Duration,
    answers: Cache<Key, Kept, BySize>,
    /// Whether old answers stand in now, as the log has it.
    stands_in: AtomicBool,
}

#[derive(Clone)]
struct Kept {
    rows: RowSet,
    at: Instant,
}

#[derive(Clone)]
struct BySize;

impl Weighter<Key, Kept> for BySize {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        // Never less than the share that as many answers have as there may be.
        let share = ANSWER_SIZE_MAX / ANSWER_COUNT_MAX as u64;
        share.max(kept.rows.heap_size() as u64)
    }
}

impl Stale {
    pub(super) fn new(age_max: Duration) -> Self {
        Self {
            age_max,
            answers: Cache::with_weighter(ANSWER_COUNT_MAX, ANSWER_SIZE_MAX, BySize),
            stands_in: AtomicBool::new(false),
        }
    }

    pub(super) fn keep(&self, key: Key, rows: &RowSet, at: Instant) {
        let rows = rows.clone();
        self.answers.insert(key, Kept { rows, at });
    }

    /// Notes that an old answer stands in, and says whether that begins with it. Relaxed, here and
    /// below: it decides who writes a line and nothing else.
    pub(super) fn begins(&self) -> bool {
        !self.stands_in.swap(true, Ordering::Relaxed)
    }

    /// Notes that the server answered, and says whether old answers stood in until then.
    pub(super) fn ends(&self) -> bool {
        // Nearly always there is nothing to write to what all threads share.
        self.stands_in.load(Ordering::Relaxed) && self.stands_in.swap(false, Ordering::Relaxed)
    }

    /// Whether there is a last good answer that is not too old.
    pub(super) fn has(&self, key: &KeyRef<'_>) -> bool {
        self.find(key).is_some()
    }

    /// The last good answer and its age, unless it is too old.
    pub(super) fn find(&self, key: &KeyRef<'_>) -> Option<(RowSet, Duration)> {
        let kept = self.answers.get(key)?;
        let age = kept.at.elapsed();
        (age <= self.age_max).then_some((kept.rows, age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_hears_of_each_outage_once() {
        let stale = Stale::new(Duration::from_secs(1));
        assert!(!stale.ends());
        for _ in 0..2 {
            assert!(stale.begins());
            assert!(!stale.begins());
            assert!(stale.ends());
            assert!(!stale.ends());
        }
    }
}
