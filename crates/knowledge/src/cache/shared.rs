//! L1: the cache that all sessions share, bounded in entries and bytes, with one query for
//! concurrent misses of a key.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::{EntryAction, EntryResult, GuardResult, PlaceholderGuard};

use super::bounded::{BoundedCache, HeapSize, Lifecycle, WeightOf};
use super::budget::LocalBudget;
use super::{CacheEntry, Key, KeyRef, Prehashed};
use crate::clock::Ticks;

type Guard<'a> = PlaceholderGuard<'a, Key, CacheEntry, WeightOf, Prehashed, Lifecycle<CacheEntry>>;

/// The share of the bytes for the caches of all sessions.
const LOCAL_PERCENT: u64 = 25;

// The shared layer, which all sessions fill, has the greater part.
const _: () = assert!(LOCAL_PERCENT < 50);

/// The shared cache of one generation of the tables.
#[derive(Debug)]
pub(crate) struct SharedCache {
    entries: BoundedCache<CacheEntry>,
    /// The budget of the sessions' own caches.
    local: Arc<LocalBudget>,
}

impl HeapSize for CacheEntry {
    #[inline]
    fn heap_size(&self) -> u64 {
        self.size()
    }
}

/// The role of a caller in the single flight of a key.
pub(crate) enum Flight<'a> {
    /// None, as the answer is in the cache; another caller may have inserted it meanwhile.
    Answered(CacheEntry),
    /// The caller queries the database and passes the answer to [`Leader::put`]. If the leader is
    /// dropped instead, also by a panic, the next waiting caller becomes the leader.
    Lead(Leader<'a>),
    /// Another caller is querying.
    Follow,
}

/// The one caller that queries the database for a key.
pub(crate) struct Leader<'a> {
    cache: &'a SharedCache,
    guard: Guard<'a>,
}

impl SharedCache {
    /// A cache of about `capacity` entries. Together with the caches of the sessions it keeps up to
    /// `size_max` bytes.
    pub(crate) fn new(capacity: usize, size_max: u64) -> Self {
        let local = size_max * LOCAL_PERCENT / 100;
        Self {
            entries: BoundedCache::new(capacity, size_max - local),
            local: Arc::new(LocalBudget::new(local)),
        }
    }

    /// The budget of the sessions' own caches.
    pub(crate) fn local(&self) -> &Arc<LocalBudget> {
        &self.local
    }

    /// The fresh entry of a key.
    #[inline]
    pub(crate) fn find(&self, key: &KeyRef<'_>, now: Ticks) -> Option<CacheEntry> {
        self.entries
            .cache
            .get(key)
            .filter(|entry| entry.answers(key, now))
    }

    /// Returns the answer if the caller `permits` it, or the role of the caller in the flight of the
    /// key.
    pub(crate) fn join(
        &self,
        key: &KeyRef<'_>,
        now: Ticks,
        permits: impl Fn(&CacheEntry) -> bool,
    ) -> Flight<'_> {
        let accepts = |entry: &CacheEntry| entry.answers(key, now) && permits(entry);
        self.join_within(&key.to_key(), accepts, Some(Duration::ZERO))
    }

    /// After [`Flight::Follow`], waits until the leader has inserted the answer, this caller
    /// becomes the leader, or `timeout` has passed. The answer is accepted whatever its age: its
    /// query was under way when this call began.
    pub(crate) fn follow(&self, key: &Key, timeout: Option<Duration>) -> Flight<'_> {
        self.join_within(key, |_| true, timeout)
    }

    /// As [`Self::follow`], for async callers.
    pub(crate) async fn follow_async(&self, key: &Key) -> Result<CacheEntry, Leader<'_>> {
        let flight = self.entries.cache.get_value_or_guard_async(key).await;
        flight.map_err(|guard| self.leader(guard))
    }

    fn leader<'a>(&'a self, guard: Guard<'a>) -> Leader<'a> {
        Leader { cache: self, guard }
    }

    fn join_within(
        &self,
        key: &Key,
        accepts: impl Fn(&CacheEntry) -> bool,
        timeout: Option<Duration>,
    ) -> Flight<'_> {
        match self.entries.cache.get_value_or_guard(key, timeout) {
            GuardResult::Value(entry) if accepts(&entry) => return Flight::Answered(entry),
            GuardResult::Guard(guard) => return Flight::Lead(self.leader(guard)),
            GuardResult::Timeout => return Flight::Follow,
            GuardResult::Value(_) => {}
        }
        match self.entries.cache.entry(key, timeout, retain_if(accepts)) {
            EntryResult::Retained(entry) => Flight::Answered(entry),
            EntryResult::Replaced(guard, _) | EntryResult::Vacant(guard) => {
                Flight::Lead(self.leader(guard))
            }
            EntryResult::Timeout => Flight::Follow,
            EntryResult::Removed(..) => unreachable!("nothing was to be removed"),
        }
    }

    /// Inserts the answer of a query that was sent without a flight, unless there is one of a query
    /// that was sent later. A flight of the key that is under way does not replace it.
    pub(crate) fn insert_newer(&self, key: &KeyRef<'_>, entry: CacheEntry, now: Ticks) {
        if !entry.is_fresh(now) {
            return;
        }
        let is_newer = |held: &CacheEntry| held.expiry.expires() > entry.expiry.expires();
        let held = self.entries.cache.peek(key);
        if !held.is_some_and(|held| is_newer(&held)) {
            self.entries.cache.insert(key.to_key(), entry);
            self.entries.note_insert();
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The maximal number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// The weight of all entries in bytes; small entries count as the minimal weight.
    pub(crate) fn weight(&self) -> u64 {
        self.entries.weight()
    }

    /// The maximal number of bytes.
    pub(crate) fn size_max(&self) -> u64 {
        self.entries.size_max()
    }
}

/// Keeps an entry that is accepted, and replaces another one by a placeholder.
fn retain_if(
    accepts: impl Fn(&CacheEntry) -> bool,
) -> impl FnMut(&Key, &mut CacheEntry) -> EntryAction<CacheEntry> {
    move |_, entry| match accepts(entry) {
        true => EntryAction::Retain(entry.clone()),
        false => EntryAction::ReplaceWithGuard,
    }
}

impl Leader<'_> {
    /// Gives the answer to all callers that wait for the key, and inserts it into the cache unless
    /// its query took longer than the lifetime of an answer.
    pub(crate) fn put(self, key: &KeyRef<'_>, entry: CacheEntry, now: Ticks) {
        let is_fresh = entry.is_fresh(now);
        // Refused if another caller has become the leader meanwhile, which then inserts its own
        // answer.
        let _ = self.guard.insert(entry);
        self.cache.entries.note_insert();
        if !is_fresh {
            let is_old = |entry: &CacheEntry| !entry.is_fresh(now);
            self.cache.entries.cache.remove_if(key, is_old);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use lookaside_value::{RowSetBuilder, Value};

    use super::super::tests::{entry, key};
    use super::*;
    use crate::clock::Clock;

    fn flight<'c>(cache: &'c SharedCache, key: &KeyRef<'_>, now: Ticks) -> Flight<'c> {
        match cache.join(key, now, |_| true) {
            Flight::Follow => cache.follow(&key.to_key(), None),
            flight => flight,
        }
    }

    fn leader(cache: &SharedCache, int: i64, text: &str) {
        let value = [Value::Int(int)];
        let key = key(&value, (int as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match flight(cache, &key, Clock::manual().now()) {
            Flight::Lead(leader) => leader.put(&key, entry(key, text), Clock::manual().now()),
            _ => panic!("{int} is there already"),
        }
    }

    #[test]
    fn entries_are_bounded() {
        for capacity in [1, 2, 10, 1000] {
            let cache = SharedCache::new(capacity, 64 << 20);
            for int in 0..4 * capacity as i64 {
                leader(&cache, int, "x");
            }
            assert!(
                (1..=capacity + 1).contains(&cache.len()),
                "{} of {capacity}",
                cache.len()
            );
        }
    }

    #[test]
    fn bytes_are_bounded() {
        let cache = SharedCache::new(1_000_000, 1 << 20);
        for int in 0..2000 {
            leader(&cache, int, &"x".repeat(4000));
        }
        assert!(cache.weight() <= 1 << 20);
        assert!((100..=262).contains(&cache.len()), "{}", cache.len());
    }

    #[test]
    fn an_answer_larger_than_the_cache_is_given_out_but_not_kept() {
        let cache = SharedCache::new(4, 1000);
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let mut rows = RowSetBuilder::new(["v"]);
        rows.push([Value::from("x".repeat(5000))]);
        let now = Clock::manual().now();
        let Flight::Lead(leader) = flight(&cache, &key, now) else {
            panic!("the cache is empty");
        };
        let lifetime = Duration::from_secs(1);
        let large = CacheEntry::new(&key, rows.build(), now.after(lifetime), lifetime);
        leader.put(&key, large, now);
        assert!(cache.find(&key, now).is_none());
        assert!(matches!(flight(&cache, &key, now), Flight::Lead(_)));
    }

    #[test]
    fn one_of_many_asks_and_an_expired_answer_is_asked_again() {
        let cache = SharedCache::new(100, 1 << 20);
        let clock = Clock::manual();
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let asked = AtomicUsize::new(0);
        let round = |thread_count: usize| {
            let now = clock.now();
            let barrier = Barrier::new(thread_count);
            thread::scope(|scope| {
                for _ in 0..thread_count {
                    scope.spawn(|| {
                        barrier.wait();
                        match flight(&cache, &key, now) {
                            Flight::Follow => unreachable!("the wait has no end"),
                            Flight::Answered(entry) => assert!(entry.is_fresh(now)),
                            Flight::Lead(leader) => {
                                asked.fetch_add(1, Ordering::Relaxed);
                                let rows = RowSetBuilder::new(["v"]).build();
                                let lifetime = Duration::from_secs(1);
                                let expires = now.after(lifetime);
                                leader.put(
                                    &key,
                                    CacheEntry::new(&key, rows, expires, lifetime),
                                    now,
                                );
                            }
                        }
                    });
                }
            });
        };
        round(8);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        clock.advance(Duration::from_secs(1));
        assert!(cache.find(&key, clock.now()).is_none());
        round(8);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn an_answer_that_took_too_long_goes_to_those_who_wait_and_is_not_kept() {
        let cache = SharedCache::new(100, 1 << 20);
        let clock = Clock::manual();
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let Flight::Lead(leader) = flight(&cache, &key, clock.now()) else {
            panic!("the cache is empty");
        };
        let late = entry(key, "x");
        let owned = key.to_key();
        let mut waiter = std::pin::pin!(cache.follow_async(&owned));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiter.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_secs(2));
        leader.put(&key, late, clock.now());
        assert_eq!(cache.len(), 0);
        let std::task::Poll::Ready(Ok(entry)) = waiter.poll(&mut context) else {
            panic!("the answer is there");
        };
        assert_eq!(entry.age(clock.now()), Duration::from_secs(2));
        assert!(matches!(flight(&cache, &key, clock.now()), Flight::Lead(_)));
    }

    #[test]
    fn a_failed_or_panicking_asker_passes_the_turn_on() {
        let cache = SharedCache::new(100, 1 << 20);
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let now = Clock::manual().now();
        let leader = flight(&cache, &key, now);
        assert!(matches!(leader, Flight::Lead(_)));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| matches!(flight(&cache, &key, now), Flight::Lead(_)));
            drop(leader);
            assert!(waiter.join().unwrap());
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = flight(&cache, &key, now);
            panic!("the database is gone");
        }));
        assert!(result.is_err());
        assert!(matches!(flight(&cache, &key, now), Flight::Lead(_)));
    }
}
