//! The labels of counters and telemetry for caches and databases.

use lookaside_value::Extent;

/// A layer of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// A session's own cache.
    L0,
    /// The cache that all sessions share.
    L1,
    /// A caller's cache.
    Call,
}

/// Whether a layer had the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheOutcome {
    /// The layer had the answer.
    Hit,
    /// The layer did not have the answer.
    Miss,
}

/// Whether something succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
}

/// How many rows a query returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// The first row.
    First,
    /// All rows.
    All,
}

impl Outcome {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(_) => Self::Failure,
        }
    }
}

impl QueryKind {
    pub(crate) fn of(extent: Extent) -> Self {
        match extent {
            Extent::First => Self::First,
            Extent::All => Self::All,
        }
    }
}

impl Layer {
    /// The layer's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::L0 => "l0",
            Self::L1 => "l1",
            Self::Call => "call",
        }
    }
}
