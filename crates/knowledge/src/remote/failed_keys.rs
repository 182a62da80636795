//! The keys whose queries failed last.
//!
//! A single flight passes on answers only: callers that waited for a query that failed look here,
//! instead of waiting for one time-out each.

use std::collections::HashMap;
use std::time::Instant;

use crate::error::Error;

/// The most keys that are kept, unless one flight has more. A caller that waited for another key
/// queries again.
const COUNT_MAX: usize = 1 << 16;

/// The last failures, by the hashes of their keys.
#[derive(Debug, Default)]
pub(super) struct FailedKeys(HashMap<u64, (Instant, Error)>);

impl FailedKeys {
    /// Adds the keys of one flight.
    pub(super) fn extend(&mut self, failures: impl ExactSizeIterator<Item = (u64, Error)>) {
        if self.0.len() + failures.len() > COUNT_MAX {
            self.0.clear();
        }
        let now = Instant::now();
        self.0
            .extend(failures.map(|(key, error)| (key, (now, error))));
    }

    /// The last failure of a key, if it was at `since` or later.
    pub(super) fn find(&self, key: u64, since: Instant) -> Option<Error> {
        let (at, error) = self.0.get(&key)?;
        (*at >= since).then(|| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_are_found_by_key_and_time_and_a_flight_is_kept_whole() {
        let error = |name: &str| Error::no_resolver(name);
        let begin = Instant::now();
        let mut keys = FailedKeys::default();
        keys.extend([(1, error("first"))].into_iter());
        keys.extend([(1, error("second"))].into_iter());
        let found = keys.find(1, begin).expect("it failed");
        assert!(found.to_string().contains("second"), "{found}");
        assert!(keys.find(2, begin).is_none());
        let later = Instant::now() + Duration::from_secs(1);
        assert!(keys.find(1, later).is_none());
        for first in [2, 200_000] {
            let error = error("large");
            keys.extend((0..COUNT_MAX).map(|key| (key as u64 + first, error.clone())));
            assert_eq!(keys.0.len(), COUNT_MAX);
            assert!(keys.find(first, begin).is_some());
            assert!(keys.find(1, begin).is_none());
        }
    }
}
