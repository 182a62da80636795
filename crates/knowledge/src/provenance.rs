//! The origin and age of answers.

use std::time::{Duration, Instant};

use crate::cache::CacheEntry;
use crate::clock::{CLOCK_TICK, Ticks};
use crate::versions::DataVersion;

/// What answered a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A native plan.
    Native,
    /// The session's own cache, or the caller's.
    L0,
    /// The cache that all sessions share, or another session that was just querying the same key.
    L1,
    /// SQLite.
    Sqlite,
    /// A provider.
    Provider,
}

impl AnsweredBy {
    /// The name in headers and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::L0 => "l0",
            Self::L1 => "l1",
            Self::Sqlite => "sqlite",
            Self::Provider => "provider",
        }
    }

    /// The origin of an entry of a provider for a query made at `now`: if it was queried before, it
    /// counts as an answer of the shared cache.
    pub(crate) fn of_provider(entry: &CacheEntry, now: Ticks) -> Self {
        match entry.age(now).is_zero() || entry.is_stale() {
            true => Self::Provider,
            false => Self::L1,
        }
    }
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// What answered the query.
    pub by: AnsweredBy,
    /// The time from the query of the database until the answer was returned; includes the duration
    /// of the query. Zero for a native plan, whose answers are valid as long as the tables.
    pub age: Duration,
    /// The remaining lifetime; zero if the query took longer than the lifetime of an answer, and
    /// [`Duration::MAX`] for a native plan.
    pub fresh_for: Duration,
    /// Whether it is a stale answer, which replaces one that a provider did not give.
    pub is_stale: bool,
    /// The answer includes all changes that were visible in the database at this moment, as the change
    /// feed of the provider tells. `None` if no feed does: then its age tells.
    pub horizon: Option<Instant>,
    /// The version of the data that the answer depends on, for [`Session::may_reuse`](crate::Session::may_reuse).
    pub version: DataVersion,
    /// The time for which `age` and `fresh_for` are computed, or one shortly before; `None` for a
    /// native plan.
    pub at: Option<Instant>,
}

/// What the change feed of its provider tells of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracking {
    /// The moment that it is fresh as of.
    pub(crate) horizon: Option<Instant>,
    /// The version of its key when it was looked up.
    pub(crate) version: DataVersion,
    /// A reading of the exact clock that is not later than the time for which its age is computed.
    pub(crate) at: Option<Instant>,
}

impl Tracking {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        horizon: None,
        version: DataVersion::UNTRACKED,
        at: None,
    };
}

impl Provenance {
    pub(crate) fn native() -> Self {
        Self {
            by: AnsweredBy::Native,
            age: Duration::ZERO,
            fresh_for: Duration::MAX,
            is_stale: false,
            horizon: None,
            version: DataVersion::UNTRACKED,
            at: None,
        }
    }

    /// The provenance of an answer that is returned at `now`.
    pub(crate) fn of(by: AnsweredBy, entry: &CacheEntry, now: Ticks, tracking: Tracking) -> Self {
        Self {
            by,
            age: entry.age(now),
            fresh_for: entry.fresh_for(now),
            is_stale: entry.is_stale(),
            horizon: tracking.horizon,
            version: match entry.is_stale() {
                true => DataVersion::UNTRACKED,
                false => tracking.version.with(entry.version()),
            },
            at: tracking.at,
        }
    }

    /// The moment that the answer is fresh as of: it includes all changes that were visible in the
    /// database then. `None` for an answer of a native plan, and for a stale one.
    pub fn fresh_as_of(&self) -> Option<Instant> {
        if self.is_stale {
            return None;
        }
        // The clock of the caches may be behind by this much, and ages are in whole milliseconds.
        let error = CLOCK_TICK + Duration::from_millis(1);
        let asked = self.at?.checked_sub(self.age + error);
        asked.max(self.horizon)
    }
}

/// The stale answers of a batch, which replace those that a provider did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleAnswers {
    /// The number of parameter sets with a stale answer.
    pub count: u64,
    /// The age of the oldest.
    pub age_max: Duration,
}
