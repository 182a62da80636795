//! The maximal age of answers.

use std::time::Duration;

use crate::clock::Ticks;

/// When a query is made, and how old its answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    pub(crate) now: Ticks,
    /// An entry that is fresh at this time is fresh enough. It is later than `now` by the
    /// difference between the caches' lifetime and the caller's maximal age.
    pub(crate) fresh_at: Ticks,
    /// Whether the answer to a query that another caller has already sent is acceptable. It is not
    /// for a caller that requires an answer no older than its own query.
    pub(crate) joins_inflight: bool,
}

impl Freshness {
    /// Accepts every answer that is fresh at `now`.
    #[inline]
    pub(crate) fn cached(now: Ticks) -> Self {
        Self {
            now,
            fresh_at: now,
            joins_inflight: true,
        }
    }

    /// Accepts answers no older than `age_max`, if caches keep them for `ttl`.
    pub(crate) fn with_age_max(now: Ticks, ttl: Duration, age_max: Option<Duration>) -> Self {
        let ahead = age_max.map_or(Duration::ZERO, |age_max| ttl.saturating_sub(age_max));
        Self {
            now,
            fresh_at: now.after(ahead),
            joins_inflight: age_max != Some(Duration::ZERO),
        }
    }
}
