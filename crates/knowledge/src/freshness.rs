//! How fresh an answer has to be.

use std::time::Duration;

use crate::clock::CLOCK_TICK;
use crate::feed::Position;

/// How fresh the answer of a provider has to be. Answers of the folder's own tables are as fresh as the
/// last load, whatever is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// An answer whose query was sent longer ago is not used; `None` is the `ttl_ms` of `[cache]`, which
    /// also bounds any other value.
    pub age_max: Option<Duration>,
    /// What the answer must include.
    pub contract: Contract,
}

/// The changes of the database that an answer has to include.
///
/// A cached answer satisfies a contract if the change feed of its provider shows that it is valid.
/// Without a feed, or if the feed is behind, its age alone counts. If no cached answer satisfies the
/// contract, the database is queried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contract {
    /// No more than the lifetime of cached answers and the change feed ensure. Only with this contract,
    /// a stale answer may replace one that a failing server does not give.
    #[default]
    Any,
    /// All changes that were visible in the database this long before the call.
    Within(Duration),
    /// All changes that were committed up to this position of the provider's log.
    After(Position),
    /// All changes that were visible in the database when the call was made.
    Now,
}

impl Contract {
    /// Whether an answer satisfies the contract by its age alone: its query was sent so long ago.
    pub(crate) fn is_met_by_age(self, age: Duration) -> bool {
        match self {
            Self::Any => true,
            Self::Within(age_max) => age + CLOCK_TICK <= age_max,
            Self::After(_) | Self::Now => false,
        }
    }
}

impl Freshness {
    /// What the caches keep, no older than `age_max`.
    pub fn aged(age_max: Option<Duration>) -> Self {
        Self {
            age_max,
            contract: Contract::Any,
        }
    }
}

impl From<Contract> for Freshness {
    fn from(contract: Contract) -> Self {
        Self {
            age_max: None,
            contract,
        }
    }
}
