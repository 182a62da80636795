//! Answers that were outdated when they arrived at a session: a change of their data had been applied
//! since the query was sent.
//!
//! Such an answer is not used again, but it may show a later change, which the feed has not applied
//! yet. An answer in the shared cache, which is valid until then, or that of a query which is under way,
//! may not show it. So the session queries such a key itself, until the feed has applied what the server
//! showed when the answer arrived.

use std::collections::VecDeque;
use std::time::Instant;

/// The most keys that are known; beyond it, the session queries all keys of a feed itself for a moment.
const KEY_COUNT_MAX: usize = 64;

/// The keys of such answers.
#[derive(Debug, Default)]
pub(super) struct OutdatedAnswers {
    /// In the order of their arrival.
    keys: VecDeque<OutdatedKey>,
    /// For each feed, when the last answer arrived whose key is not known any more.
    others: Vec<(FeedId, Instant)>,
}

/// Which feed is meant, of those whose statements a session has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeedId(pub(super) usize);

#[derive(Clone, Copy, Debug)]
struct OutdatedKey {
    hash: u64,
    feed: FeedId,
    arrival: Instant,
}

impl OutdatedAnswers {
    /// An answer to this key arrived and was outdated.
    pub(super) fn add(&mut self, hash: u64, feed: FeedId, arrival: Instant) {
        self.remove(hash);
        if self.keys.len() == KEY_COUNT_MAX
            && let Some(first) = self.keys.pop_front()
        {
            self.others.retain(|(other, _)| *other != first.feed);
            self.others.push((first.feed, first.arrival));
        }
        self.keys.push_back(OutdatedKey {
            hash,
            feed,
            arrival,
        });
    }

    /// An answer to this key arrived and was not outdated.
    pub(super) fn remove(&mut self, hash: u64) {
        self.keys.retain(|key| key.hash != hash);
    }

    /// Whether the session has to query this key itself. Answers that a feed keeps valid are as fresh as
    /// its horizon; without one, only keys that are known are queried, once.
    pub(super) fn holds(&mut self, hash: u64, feed: FeedId, horizon: Option<Instant>) -> bool {
        let is_passed = |of: FeedId, arrival: Instant| {
            of == feed && horizon.is_some_and(|horizon| horizon >= arrival)
        };
        (self.keys).retain(|key| !is_passed(key.feed, key.arrival));
        (self.others).retain(|(of, arrival)| !is_passed(*of, *arrival));
        let is_other = |(of, _): &(FeedId, Instant)| *of == feed && horizon.is_some();
        self.keys.iter().any(|key| key.hash == hash) || self.others.iter().any(is_other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: FeedId = FeedId(1);
    const OTHER: FeedId = FeedId(2);

    #[test]
    fn a_key_is_queried_until_the_horizon_has_passed_its_answer() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut outdated = OutdatedAnswers::default();
        outdated.add(7, ONE, later(10));
        assert!(outdated.holds(7, ONE, None));
        assert!(outdated.holds(7, ONE, Some(later(9))));
        assert!(!outdated.holds(8, ONE, Some(later(9))));
        assert!(!outdated.holds(8, OTHER, Some(later(10))));
        assert!(outdated.holds(7, ONE, Some(later(9))), "of another feed");
        assert!(!outdated.holds(7, ONE, Some(later(10))));
        assert!(outdated.is_empty());
        outdated.add(7, ONE, later(20));
        outdated.add(7, ONE, later(30));
        assert!(
            outdated.holds(7, ONE, Some(later(25))),
            "the last one counts"
        );
        outdated.remove(7);
        assert!(outdated.is_empty());
    }

    #[test]
    fn more_keys_are_all_keys_of_the_feed() {
        let start = Instant::now();
        let later = |ms| start + Duration::from_millis(ms);
        let mut outdated = OutdatedAnswers::default();
        let count = KEY_COUNT_MAX as u64;
        for number in 0..count {
            outdated.add(number, ONE, later(number + 1));
        }
        assert!(!outdated.holds(1000, ONE, Some(start)));
        outdated.add(count, ONE, later(count + 1));
        assert!(outdated.holds(0, ONE, Some(start)), "it is not forgotten");
        assert!(outdated.holds(1000, ONE, Some(start)));
        assert!(!outdated.holds(1000, OTHER, Some(start)));
        assert!(!outdated.holds(1000, ONE, None), "the feed is interrupted");
        assert!(!outdated.holds(1000, ONE, Some(later(1))));
        assert!(outdated.holds(1, ONE, Some(later(1))));
        assert!(!outdated.holds(1, ONE, Some(later(count + 1))));
        assert!(outdated.is_empty());
    }
}
