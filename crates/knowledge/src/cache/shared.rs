//! L1: the answers that all sessions share, bounded in entries and bytes, one query for concurrent
//! misses of one key.

use std::time::Duration;

use quick_cache::sync::{
    Cache, DefaultLifecycle, EntryAction, EntryResult, GuardResult, PlaceholderGuard,
};
use quick_cache::{OptionsBuilder, Weighter};

use super::{Entry, Key, KeyRef, Prehashed};
use crate::clock::Ticks;

/// The part of the room that quick_cache keeps for entries asked for more than once; its default,
/// named because no single entry may weigh more than that.
const HOT_PERCENT: u64 = 97;

type Lifecycle = DefaultLifecycle<Key, Entry>;
type Guard<'a> = PlaceholderGuard<'a, Key, Entry, WeightOf, Prehashed, Lifecycle>;

/// The shared cache of one generation of the tables.
///
/// An entry weighs its bytes, but never less than its share of the room when all entries are equal.
/// One bound on the weight so bounds the entries as well as the bytes.
#[derive(Debug)]
pub(crate) struct SharedCache {
    cache: Cache<Key, Entry, WeightOf, Prehashed, Lifecycle>,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct WeightOf {
    weight_min: u64,
}

impl Weighter<Key, Entry> for WeightOf {
    fn weight(&self, _: &Key, entry: &Entry) -> u64 {
        self.weight_min.max(entry.size.into())
    }
}

/// What a caller who missed has to do.
pub(crate) enum Turn<'a> {
    /// Another caller brought the answer meanwhile.
    Answered(Entry),
    /// Ask the database and give the answer to [`Fill::put`]. Dropping it instead, also by a panic,
    /// passes the turn to the next caller who waits.
    Ask(Fill<'a>),
}

/// What a caller who will not wait has to do.
pub(crate) enum TryTurn<'a> {
    /// The answer is there.
    Answered(Entry),
    /// As [`Turn::Ask`].
    Ask(Fill<'a>),
    /// Another caller is asking.
    Busy,
}

/// The right and duty to bring the answer for one key.
pub(crate) struct Fill<'a> {
    guard: Guard<'a>,
}

impl SharedCache {
    /// A cache of about `capacity` entries and `size_max` bytes.
    pub(crate) fn new(capacity: usize, size_max: u64) -> Self {
        let capacity = capacity.max(1);
        let size_max = size_max.max(capacity as u64);
        let weight_min = (size_max / capacity as u64)
            .min(size_max * HOT_PERCENT / 100)
            .max(1);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(capacity)
            .weight_capacity(size_max)
            .hot_allocation(HOT_PERCENT as f64 / 100.0)
            .build()
            .expect("both capacities are set");
        Self {
            cache: Cache::with_options(
                options,
                WeightOf { weight_min },
                Prehashed::default(),
                Lifecycle::default(),
            ),
            capacity,
        }
    }

    /// The fresh entry of a key.
    #[inline]
    pub(crate) fn find(&self, key: &KeyRef<'_>, now: Ticks) -> Option<Entry> {
        self.cache.get(key).filter(|entry| entry.is_fresh(now))
    }

    /// Waits until another caller has brought the answer, or until it is our turn to ask for it.
    pub(crate) fn turn(&self, key: &Key, now: Ticks) -> Turn<'_> {
        match self.turn_within(key, now, None) {
            TryTurn::Answered(entry) => Turn::Answered(entry),
            TryTurn::Ask(fill) => Turn::Ask(fill),
            TryTurn::Busy => unreachable!("the wait has no end"),
        }
    }

    /// As [`Self::turn`], but without waiting for another caller.
    pub(crate) fn try_turn(&self, key: &Key, now: Ticks) -> TryTurn<'_> {
        self.turn_within(key, now, Some(Duration::ZERO))
    }

    /// As [`Self::turn`], without holding up a thread: the answer, or the turn to ask.
    pub(crate) async fn wait_turn(&self, key: &Key, now: Ticks) -> Result<Entry, Fill<'_>> {
        match self.cache.get_value_or_guard_async(key).await {
            Ok(entry) if entry.is_fresh(now) => return Ok(entry),
            Err(guard) => return Err(Fill { guard }),
            Ok(_) => {}
        }
        match self.cache.entry_async(key, retain_fresh(now)).await {
            EntryResult::Retained(entry) => Ok(entry),
            EntryResult::Replaced(guard, _) | EntryResult::Vacant(guard) => Err(Fill { guard }),
            EntryResult::Removed(..) => unreachable!("nothing was to be removed"),
            EntryResult::Timeout => unreachable!("the wait has no end"),
        }
    }

    fn turn_within(&self, key: &Key, now: Ticks, timeout: Option<Duration>) -> TryTurn<'_> {
        match self.cache.get_value_or_guard(key, timeout) {
            GuardResult::Value(entry) if entry.is_fresh(now) => return TryTurn::Answered(entry),
            GuardResult::Guard(guard) => return TryTurn::Ask(Fill { guard }),
            GuardResult::Timeout => return TryTurn::Busy,
            GuardResult::Value(_) => {}
        }
        match self.cache.entry(key, timeout, retain_fresh(now)) {
            EntryResult::Retained(entry) => TryTurn::Answered(entry),
            EntryResult::Replaced(guard, _) | EntryResult::Vacant(guard) => {
                TryTurn::Ask(Fill { guard })
            }
            EntryResult::Timeout => TryTurn::Busy,
            EntryResult::Removed(..) => unreachable!("nothing was to be removed"),
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }

    /// How many entries there may be.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of the entries; small ones count with their share of the room.
    pub(crate) fn weight(&self) -> u64 {
        self.cache.weight()
    }

    /// How many bytes there may be.
    pub(crate) fn size_max(&self) -> u64 {
        self.cache.capacity()
    }
}

/// Gives out an entry that is fresh, and makes room for another one in place of an old one.
fn retain_fresh(now: Ticks) -> impl FnMut(&Key, &mut Entry) -> EntryAction<Entry> {
    move |_, entry| match entry.is_fresh(now) {
        true => EntryAction::Retain(entry.clone()),
        false => EntryAction::ReplaceWithGuard,
    }
}

impl Fill<'_> {
    /// Gives the answer to the cache and to all callers who wait for it.
    pub(crate) fn put(self, entry: Entry) {
        // An entry that was removed meanwhile is not put back; nothing removes entries by key.
        let _ = self.guard.insert(entry);
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

    fn fill(cache: &SharedCache, int: i64, text: &str) {
        let value = [Value::Int(int)];
        let key = key(&value, (int as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match cache.turn(&key.to_key(), Clock::manual().now()) {
            Turn::Ask(fill) => fill.put(entry(key, text)),
            Turn::Answered(_) => panic!("{int} is there already"),
        }
    }

    #[test]
    fn entries_are_bounded() {
        for capacity in [1, 2, 10, 1000] {
            let cache = SharedCache::new(capacity, 64 << 20);
            for int in 0..4 * capacity as i64 {
                fill(&cache, int, "x");
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
            fill(&cache, int, &"x".repeat(4000));
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
        let Turn::Ask(fill) = cache.turn(&key.to_key(), now) else {
            panic!("the cache is empty");
        };
        let lifetime = Duration::from_secs(1);
        fill.put(Entry::new(
            &key,
            rows.build(),
            now.after(lifetime),
            lifetime,
        ));
        assert!(cache.find(&key, now).is_none());
        assert!(matches!(cache.turn(&key.to_key(), now), Turn::Ask(_)));
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
                        match cache.turn(&key.to_key(), now) {
                            Turn::Answered(entry) => assert!(entry.is_fresh(now)),
                            Turn::Ask(fill) => {
                                asked.fetch_add(1, Ordering::Relaxed);
                                let rows = RowSetBuilder::new(["v"]).build();
                                let lifetime = Duration::from_secs(1);
                                let expires = now.after(lifetime);
                                fill.put(Entry::new(&key, rows, expires, lifetime));
                            }
                        }
                    });
                }
            });
        };
        round(8);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        clock.advance(std::time::Duration::from_secs(1));
        assert!(cache.find(&key, clock.now()).is_none());
        round(8);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_failed_or_panicking_asker_passes_the_turn_on() {
        let cache = SharedCache::new(100, 1 << 20);
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let now = Clock::manual().now();
        let leader = cache.turn(&key.to_key(), now);
        assert!(matches!(leader, Turn::Ask(_)));
        thread::scope(|scope| {
            let waiter = scope.spawn(|| matches!(cache.turn(&key.to_key(), now), Turn::Ask(_)));
            drop(leader);
            assert!(waiter.join().unwrap());
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = cache.turn(&key.to_key(), now);
            panic!("the database is gone");
        }));
        assert!(result.is_err());
        assert!(matches!(cache.turn(&key.to_key(), now), Turn::Ask(_)));
    }
}
