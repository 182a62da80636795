//! How fresh an answer has to be.

use std::time::{Duration, Instant};

use lookaside_value::Contract;

use crate::clock::CLOCK_TICK;
use crate::feed::Horizon;

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

impl Freshness {
    /// Whether any answer that the caches keep is fresh enough.
    #[inline]
    pub(crate) fn is_default(&self) -> bool {
        let Contract { within, after } = self.contract;
        self.age_max.is_none() && within.is_none() && after.is_none()
    }

    /// What the caches keep, no older than `age_max`.
    pub fn aged(age_max: Option<Duration>) -> Self {
        Self {
            age_max,
            contract: Contract::ANY,
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

/// How long ago the query of an answer may have been sent under a contract; `None` is any time.
///
/// `horizon` is that of the answer's provider if a change feed keeps the answer valid: if it covers a
/// part of the contract, the age is irrelevant to that part. To be called before the version of the
/// answer's key is read.
pub(crate) fn age_max(
    contract: Contract,
    horizon: Option<&Horizon>,
    now: impl Fn() -> Instant,
) -> Option<Duration> {
    let Contract { within, after } = contract;
    let is_reached = |position| horizon.is_some_and(|it| it.has_reached(position));
    if !after.is_none_or(is_reached) {
        return Some(Duration::ZERO);
    }
    // No horizon is as new as the call.
    let is_covered = |time: Duration| {
        !time.is_zero() && horizon.is_some_and(|horizon| horizon.is_within(time, now()))
    };
    within.filter(|time| !is_covered(*time))
}

/// Whether the age of an answer is within a bound, however inexact the clock is.
pub(crate) fn is_age_within(age: Duration, age_max: Option<Duration>) -> bool {
    age_max.is_none_or(|age_max| age + CLOCK_TICK <= age_max)
}

#[cfg(test)]
mod tests {
    use lookaside_value::Position;

    use super::*;
    use crate::feed::Progress;

    #[test]
    fn a_horizon_covers_both_parts_of_a_contract_separately() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let horizon = Horizon::new(start);
        horizon.publish(Progress {
            fresh_as_of: Some(later(100)),
            position: Position(10),
        });
        let time = |ms| Contract::within(Duration::from_millis(ms));
        let position = |number| Contract::after(Position(number));
        let at_most = |ms| Some(Duration::from_millis(ms));
        // The horizon is 50 ms old.
        for (contract, tracked, untracked) in [
            (Contract::ANY, None, None),
            (time(50), None, at_most(50)),
            (time(49), at_most(49), at_most(49)),
            (Contract::NOW, at_most(0), at_most(0)),
            (position(10), None, at_most(0)),
            (position(11), at_most(0), at_most(0)),
            (position(10).and(time(50)), None, at_most(0)),
            (position(10).and(time(49)), at_most(49), at_most(0)),
            (position(11).and(time(50)), at_most(0), at_most(0)),
            (position(10).and(Contract::NOW), at_most(0), at_most(0)),
        ] {
            let now = || later(150);
            assert_eq!(
                age_max(contract, Some(&horizon), now),
                tracked,
                "{contract:?}"
            );
            assert_eq!(age_max(contract, None, now), untracked, "{contract:?}");
        }
    }

    #[test]
    fn the_inexact_clock_is_no_excuse_for_an_old_answer() {
        assert!(is_age_within(Duration::MAX - CLOCK_TICK, None));
        let age_max = Some(3 * CLOCK_TICK);
        assert!(is_age_within(2 * CLOCK_TICK, age_max));
        assert!(!is_age_within(
            2 * CLOCK_TICK + Duration::from_nanos(1),
            age_max
        ));
        assert!(!is_age_within(Duration::ZERO, Some(Duration::ZERO)));
    }
}
