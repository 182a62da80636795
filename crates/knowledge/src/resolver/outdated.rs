//! Answers that were outdated when they arrived at a session: a change of their data had been applied
//! since the query was sent.
//!
//! Such an answer is not used again, but it may show a later change, which the feed has not applied
//! yet. An answer in the shared cache, which is valid until then, or that of a query which is under way,
//! may not show it. So the session queries such a key itself, until the feed has applied what the server
//! showed when the answer arrived.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most keys that are known; beyond it, the session queries all keys itself for a moment.
const KEY_COUNT_MAX: usize = 64;

/// The keys of such answers.
#[derive(Debug, Default)]
pub(super) struct OutdatedAnswers {
    /// Hashes of keys, and when the answers arrived, in this order.
    keys: VecDeque<(u64, Instant)>,
    /// When the last answer arrived whose key is not known any more.
    others: Option<Instant>,
}

impl OutdatedAnswers {
    /// An answer to this key arrived and was outdated. Cached answers are used for `ttl` at most.
    pub(super) fn add(&mut self, hash: u64, arrival: Instant, ttl: Duration) {
        self.remove(hash);
        if self.keys.len() == KEY_COUNT_MAX
            && let Some((_, first)) = self.keys.pop_front()
            && arrival.saturating_duration_since(first) < ttl
        {
            self.others = Some(first);
        }
        self.keys.push_back((hash, arrival));
    }

    /// An answer to this key arrived and was not outdated.
    pub(super) fn remove(&mut self, hash: u64) {
        self.keys.retain(|(other, _)| *other != hash);
    }

    /// Whether the session has to query this key itself. Answers that a feed keeps valid are as fresh as
    /// its horizon.
    pub(super) fn holds(&mut self, hash: u64, horizon: Option<Instant>) -> bool {
        let is_passed = |arrival: Instant| horizon.is_some_and(|horizon| horizon >= arrival);
        (self.keys).retain(|(other, arrival)| *other != hash || !is_passed(*arrival));
        let is_known = self.keys.iter().any(|(other, _)| *other == hash);
        is_known || self.others.is_some_and(|arrival| !is_passed(arrival))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.others.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn a_key_is_queried_until_the_horizon_has_passed_its_answer() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut outdated = OutdatedAnswers::default();
        outdated.add(7, later(10), TTL);
        assert!(outdated.holds(7, None));
        assert!(outdated.holds(7, Some(later(9))));
        assert!(!outdated.holds(8, Some(later(9))));
        assert!(!outdated.holds(7, Some(later(10))));
        assert!(outdated.is_empty());
        outdated.add(7, later(20), TTL);
        outdated.add(7, later(30), TTL);
        assert!(outdated.holds(7, Some(later(25))), "the last one counts");
        outdated.remove(7);
        assert!(outdated.is_empty());
    }

    #[test]
    fn more_keys_are_all_keys() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut outdated = OutdatedAnswers::default();
        let count = KEY_COUNT_MAX as u64;
        for number in 0..count {
            outdated.add(number, later(number), TTL);
        }
        assert!(!outdated.holds(1000, None));
        outdated.add(count, later(count), TTL);
        assert!(outdated.holds(0, None), "its answer is not forgotten");
        assert!(outdated.holds(1000, None));
        assert!(!outdated.holds(1000, Some(later(0))));
        assert!(outdated.holds(1, Some(later(0))));
        // What arrived longer ago than answers are used needs no query.
        let mut outdated = OutdatedAnswers::default();
        for number in 0..=count {
            outdated.add(number, later(number * 1000), TTL);
        }
        assert!(!outdated.holds(1000, None));
    }
}
