//! A cache that belongs to a caller: for one request, one batch or one task.

use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

use super::{CacheEntry, Key, KeyRef, Prehashed};
use crate::clock::Ticks;

/// The default capacity in entries.
const CAPACITY: usize = 100;

/// A cache that is owned by one caller, for [`Policy::CallScope`](crate::Policy::CallScope).
///
/// It has no lock and may be used with any statement of one engine; used with another engine, or
/// after a reload, it starts empty. Its scope is its lifetime: [`Self::clear`] begins a new one.
#[derive(Debug)]
pub struct CallCache {
    cache: Cache<Key, CacheEntry, UnitWeighter, Prehashed, DefaultLifecycle<Key, CacheEntry>>,
    capacity: usize,
    /// The engine and the generation of its tables that the answers come from.
    origin: Option<(u64, u64)>,
}

impl CallCache {
    /// A cache of 100 answers.
    pub fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// A cache of `capacity` answers, at least one.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            cache: Cache::with(
                capacity,
                capacity as u64,
                UnitWeighter,
                Prehashed::default(),
                DefaultLifecycle::default(),
            ),
            capacity,
            origin: None,
        }
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Removes all answers.
    pub fn clear(&mut self) {
        self.cache.clear();
    }

    /// Removes all answers if they come from another engine or generation.
    pub(crate) fn enter(&mut self, engine: u64, generation: u64) {
        let origin = Some((engine, generation));
        if self.origin != origin {
            self.cache.clear();
            self.origin = origin;
        }
    }

    /// The maximal number of answers.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The fresh entry of a key.
    pub(crate) fn find(&self, key: &KeyRef<'_>, now: Ticks) -> Option<&CacheEntry> {
        self.cache.get(key).filter(|entry| entry.answers(key, now))
    }

    /// Inserts an entry, replacing an older one with the same key.
    pub(crate) fn insert(&mut self, key: Key, entry: CacheEntry) {
        self.cache.insert(key, entry);
    }
}

impl Default for CallCache {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Value;

    use super::super::tests::{entry, key};
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn answers_of_another_origin_are_forgotten() {
        let now = Clock::manual().now();
        let value = [Value::Int(1)];
        let key = key(&value, 1);
        let mut cache = CallCache::new();
        cache.enter(1, 1);
        cache.insert(key.to_key(), entry(key, "x"));
        cache.enter(1, 1);
        assert!(cache.find(&key, now).is_some());
        cache.enter(1, 2);
        assert!(cache.find(&key, now).is_none());
        cache.insert(key.to_key(), entry(key, "x"));
        cache.enter(2, 2);
        assert!(cache.is_empty());
    }

    #[test]
    fn the_capacity_holds() {
        let mut cache = CallCache::with_capacity(3);
        for int in 0..20 {
            let value = [Value::Int(int)];
            let key = key(&value, int as u64);
            cache.insert(key.to_key(), entry(key, "x"));
        }
        assert!((1..=3).contains(&cache.len()));
    }
}
