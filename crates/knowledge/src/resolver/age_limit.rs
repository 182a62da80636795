//! Which cached answers a query accepts.

use std::time::{Duration, Instant};

use lookaside_value::Contract;

use super::StatementContext;
use crate::cache::{CacheEntry, KeyRef};
use crate::clock::{CLOCK_TICK, Ticks};
use crate::freshness::{Freshness, age_max};
use crate::mutant::Mutant;
use crate::provenance::Tracking;

/// When a query is made, and how old its answer may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgeLimit {
    pub(crate) now: Ticks,
    /// An entry that is fresh at this time is fresh enough. It is later than `now` by the
    /// difference between the caches' lifetime and the caller's maximal age.
    fresh_at: Ticks,
    /// The same for entries that a change feed invalidates.
    tracked_fresh_at: Ticks,
    /// Whether the answer to a query that another caller has already sent is acceptable. It is not
    /// for a caller that requires an answer no older than its own query.
    pub(crate) joins_inflight: bool,
    /// Whether there is no contract: an answer that another caller was waiting for is acceptable
    /// whatever its age, and so is a stale answer.
    pub(crate) is_lenient: bool,
    /// Valid entries that a change feed invalidates are as fresh as a query sent then.
    horizon: Option<Instant>,
    /// A reading of the exact clock that is not later than `now`; `None` if nobody asks where the
    /// answer comes from.
    at: Option<Instant>,
}

impl AgeLimit {
    /// Accepts every answer that is fresh at `now`.
    #[inline]
    pub(crate) fn cached(now: Ticks) -> Self {
        Self {
            now,
            fresh_at: now,
            tracked_fresh_at: now,
            joins_inflight: true,
            is_lenient: true,
            horizon: None,
            at: None,
        }
    }

    /// Accepts answers that satisfy a requirement now. To be called before the key is made: the
    /// horizon must be read before the version of the key.
    pub(crate) fn of(context: &StatementContext<'_>, freshness: Freshness) -> Self {
        let at = Instant::now();
        let now = context.engine.clock.now();
        let ttl = context.generation.ttl;
        let ahead = |age_max: Option<Duration>| {
            now.after(age_max.map_or(Duration::ZERO, |age_max| ttl.saturating_sub(age_max)))
        };
        let lenient = Self {
            now,
            fresh_at: ahead(freshness.age_max),
            tracked_fresh_at: ahead(freshness.age_max),
            joins_inflight: freshness.age_max != Some(Duration::ZERO),
            is_lenient: true,
            horizon: context.tracked().and_then(|it| it.horizon.fresh_as_of()),
            at: Some(at),
        };
        let contract = freshness.contract;
        let is_ignored = Mutant::NoContract.is_active()
            || Mutant::AfterJoinsFlights.is_active() && contract.after.is_some();
        if contract == Contract::ANY || context.provider().is_none() || is_ignored {
            return lenient;
        }
        let bound = |horizon| {
            let by_contract = age_max(contract, horizon, || at);
            let by_contract = by_contract.map(|it| it.saturating_sub(CLOCK_TICK));
            match (freshness.age_max, by_contract) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        };
        let tracked_age_max = bound(context.tracked().map(|tracked| &*tracked.horizon));
        Self {
            fresh_at: ahead(bound(None)),
            tracked_fresh_at: ahead(tracked_age_max),
            joins_inflight: tracked_age_max != Some(Duration::ZERO),
            is_lenient: false,
            ..lenient
        }
    }

    /// What is known of a valid entry of this key.
    #[inline]
    pub(crate) fn tracking(&self, key: &KeyRef<'_>) -> Tracking {
        Tracking {
            horizon: self.horizon.filter(|_| key.version.is_tracked()),
            version: key.version,
            at: self.at,
        }
    }

    /// What is known of an entry of this key that was waited for. The current time is read after
    /// this.
    pub(crate) fn waited(&self, key: &KeyRef<'_>) -> Tracking {
        Tracking {
            horizon: None,
            version: key.version,
            at: self.at.map(|_| Instant::now()),
        }
    }

    /// Whether the caller accepts an entry that is fresh enough: a stale answer, which is older than the
    /// data whose version it has, does not satisfy a contract. Without one, the entry is not looked at.
    #[inline]
    pub(crate) fn permits<'e>(&self, entry: impl FnOnce() -> &'e CacheEntry) -> bool {
        self.is_lenient || !entry().is_stale()
    }

    /// An entry of this key that is fresh at the returned time is fresh enough.
    #[inline]
    pub(crate) fn fresh_at(&self, key: &KeyRef<'_>) -> Ticks {
        match key.version.is_tracked() {
            true => self.tracked_fresh_at,
            false => self.fresh_at,
        }
    }
}
