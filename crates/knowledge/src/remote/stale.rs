//! The last good answers of a provider, for when it gives none.

use std::time::{Duration, Instant};

use lookaside_value::RowSet;
use quick_cache::sync::Cache;

use crate::cache::{Key, KeyRef};

/// Answers that are kept; their rows are those of the shared cache as long as that has them too.
const ANSWER_COUNT_MAX: usize = 65_536;

/// How long an old answer stands in before the server is asked again.
pub(super) const STANDS_IN: Duration = Duration::from_secs(1);

pub(crate) struct Stale {
    age_max: Duration,
    answers: Cache<Key, Kept>,
}

#[derive(Clone)]
struct Kept {
    rows: RowSet,
    at: Instant,
}

impl Stale {
    pub(super) fn new(age_max: Duration) -> Self {
        Self {
            age_max,
            answers: Cache::new(ANSWER_COUNT_MAX),
        }
    }

    pub(super) fn keep(&self, key: Key, rows: &RowSet, at: Instant) {
        let rows = rows.clone();
        self.answers.insert(key, Kept { rows, at });
    }

    /// The last good answer and its age, unless it is too old.
    pub(super) fn find(&self, key: &KeyRef<'_>) -> Option<(RowSet, Duration)> {
        let kept = self.answers.get(key)?;
        let age = kept.at.elapsed();
        (age <= self.age_max).then_some((kept.rows, age))
    }
}
