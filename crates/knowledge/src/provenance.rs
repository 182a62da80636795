//! Where an answer is from, and how old it is.

use std::time::Duration;

use crate::cache::Entry;
use crate::clock::Ticks;

/// Who gave an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AnsweredBy {
    /// A native plan.
    Native,
    /// The session's own cache, or the caller's.
    L0,
    /// The cache that all sessions share, or another session that was just asking.
    L1,
    /// SQLite.
    Sqlite,
    /// Another database.
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

    /// Who gave an entry that came by way of a provider to a query made `now`: one that was asked
    /// for before is the shared cache's.
    pub(crate) fn of_provider(entry: &Entry, now: Ticks) -> Self {
        match entry.age(now).is_zero() || entry.is_stale() {
            true => Self::Provider,
            false => Self::L1,
        }
    }
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// Who gave it.
    pub by: AnsweredBy,
    /// How long ago, when it was given out, a database was asked for it: the time that the database
    /// took counts. Nothing for a native plan, whose answers hold as long as the tables.
    pub age: Duration,
    /// For how much longer it may be given out; nothing if it took longer than an answer is kept,
    /// and [`Duration::MAX`] for a native plan.
    pub fresh_for: Duration,
    /// It is an old answer in place of one that a provider did not give.
    pub is_stale: bool,
}

impl Provenance {
    pub(crate) fn native() -> Self {
        Self {
            by: AnsweredBy::Native,
            age: Duration::ZERO,
            fresh_for: Duration::MAX,
            is_stale: false,
        }
    }

    /// Of an answer that is given out now.
    pub(crate) fn of(by: AnsweredBy, entry: &Entry, now: Ticks) -> Self {
        Self {
            by,
            age: entry.age(now),
            fresh_for: entry.fresh_for(now),
            is_stale: entry.is_stale(),
        }
    }
}

/// Old answers of a batch in place of those that another database did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleAnswers {
    /// How many parameter sets have one.
    pub count: u64,
    /// The age of the oldest.
    pub age_max: Duration,
}
