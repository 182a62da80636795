//! How old an answer may be.

use std::time::Duration;

use crate::clock::Ticks;

/// When a query is made, and how old its answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    pub(crate) now: Ticks,
    /// An entry that is fresh at this time is fresh enough. It lies after `now` by as much as the
    /// caller wants answers younger than caches keep them.
    pub(crate) fresh_at: Ticks,
    /// Whether the answer to a query that another caller has sent already will do. It does not for
    /// a caller who wants no answer that is older than the query.
    pub(crate) joins_inflight: bool,
}

impl Freshness {
    /// Whatever caches still hold at `now`.
    #[inline]
    pub(crate) fn cached(now: Ticks) -> Self {
        Self {
            now,
            fresh_at: now,
            joins_inflight: true,
        }
    }

    /// No answer older than `age_max`, where caches keep them for `ttl`.
    pub(crate) fn with_age_max(now: Ticks, ttl: Duration, age_max: Option<Duration>) -> Self {
        let ahead = age_max.map_or(Duration::ZERO, |age_max| ttl.saturating_sub(age_max));
        Self {
            now,
            fresh_at: now.after(ahead),
            joins_inflight: age_max != Some(Duration::ZERO),
        }
    }
}
