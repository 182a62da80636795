//! L0: the most recent answers of one session, without locks and without shared counters.

use std::sync::Arc;

use super::budget::Allowance;
use super::{CacheEntry, Key, KeyRef, LocalBudget};
use crate::clock::Ticks;

/// Sets of two entries each at first: 256 KiB of slots, made at the first entry. Measured over
/// Zipf-distributed keys (`examples/lookup.rs`): half as many sets cost a fifth more per lookup,
/// and more sets do not fit in the core's cache, which every single lookup waits for.
const SET_COUNT: usize = 2048;

/// The limit of [`LocalCache::widen`]: 8 MiB of slots.
const SET_COUNT_MAX: usize = 1 << 16;

/// The least number of slots: a cache for which less memory is left has none.
const SLOT_COUNT_MIN: usize = 64;

/// Larger answers stay in the shared layer only.
const ENTRY_SIZE_MAX: u64 = 4 * 1024;

/// If a set is full, one answer in this many replaces an entry. Keys that are looked up often are
/// admitted soon, and the long tail of the others does not evict them: over Zipf-distributed keys,
/// that gives more hits than admitting each answer, and avoids a miss of the core's cache for each
/// answer that is not replaced.
const ADMIT_ONE_IN: u32 = 8;

/// A two-way set-associative cache: an entry is in one of two slots; the one inserted or
/// [found](LocalCache::find) last comes first.
#[derive(Debug)]
pub(crate) struct LocalCache {
    /// Empty until the first entry: a session whose statements all have native plans needs no
    /// slots.
    slots: Box<[Option<Slot>]>,
    /// The heap size of the entries in bytes.
    size: u64,
    /// The budget for slots and entries; first used when the first entry is inserted. `None` if
    /// answers are not cached.
    budget: Option<Arc<LocalBudget>>,
    allowance: Option<Allowance>,
    /// The slot that is emptied next when the size exceeds the limit.
    hand: usize,
    /// State of the random generator for admission; never 0.
    rng_state: u32,
    /// The number of new entries that found their set full since the slots were made.
    conflict_count: usize,
}

/// One cache line, so that a miss reads two of them and a hit one or two.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    key: Key,
    entry: CacheEntry,
}

const _: () = assert!(size_of::<Option<Slot>>() == 64);

// A set is found by a mask, and `widen` doubles the first slots until there are the most.
const _: () = assert!(SET_COUNT.is_power_of_two());
const _: () = assert!(SET_COUNT_MAX.is_power_of_two());
const _: () = assert!(SET_COUNT <= SET_COUNT_MAX);
const _: () = assert!(SLOT_COUNT_MIN <= 2 * SET_COUNT);
// Empty slots without any entry have to leave room for one.
const _: () = assert!(ENTRY_SIZE_MAX as usize <= SLOT_COUNT_MIN * size_of::<Slot>());
const _: () = assert!(ADMIT_ONE_IN > 0);

/// The position of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SlotIndex(usize);

impl LocalCache {
    /// A cache that takes its bytes from a budget.
    pub(crate) fn new(budget: Option<Arc<LocalBudget>>) -> Self {
        Self {
            slots: Box::default(),
            size: 0,
            budget,
            allowance: None,
            hand: 0,
            rng_state: 0x9e37_79b9,
            conflict_count: 0,
        }
    }

    /// What holds after each change.
    fn check(&self) {
        let len = self.slots.len();
        assert!(
            len == 0 || len.is_power_of_two(),
            "a set is found by a mask"
        );
        assert!(
            len == 0 || self.hand < len,
            "the eviction position is a slot"
        );
        let kept = size_of_val(&*self.slots) as u64 + self.size;
        let taken = self.allowance.as_ref().map_or(0, Allowance::taken);
        assert!(kept <= taken, "the cache is within its allowance");
    }

    /// Whether the sizes of the entries add up, which costs a look at each slot.
    fn adds_up(&self) -> bool {
        let sizes = self.slots.iter().flatten().map(Slot::size);
        sizes.sum::<u64>() == self.size
    }

    /// The fresh entry of a key.
    #[inline]
    pub(crate) fn find(&mut self, key: &KeyRef<'_>, now: Ticks) -> Option<SlotIndex> {
        if self.slots.is_empty() {
            return None;
        }
        let first = self.first_slot(key.hash);
        if self.holds(first, key, now) {
            return Some(SlotIndex(first));
        }
        if self.holds(first + 1, key, now) {
            self.swap(first);
            return Some(SlotIndex(first));
        }
        None
    }

    // Not inlined: the registers for it would be saved at each hit.
    #[inline(never)]
    fn swap(&mut self, first: usize) {
        self.slots.swap(first, first + 1);
    }

    /// [`Self::find`] for batches: it does not move entries, so the positions that it returns are
    /// valid until a call of another method.
    #[inline]
    pub(crate) fn peek(&self, key: &KeyRef<'_>, now: Ticks) -> Option<SlotIndex> {
        if self.slots.is_empty() {
            return None;
        }
        let first = self.first_slot(key.hash);
        let holds = |slot: &usize| self.holds(*slot, key, now);
        [first, first + 1].into_iter().find(holds).map(SlotIndex)
    }

    #[inline]
    fn holds(&self, slot: usize, key: &KeyRef<'_>, now: Ticks) -> bool {
        let slot = self.slots[slot].as_ref();
        slot.is_some_and(|slot| key.is(&slot.key) && slot.entry.answers(key, now))
    }

    /// Inserts an entry if there is room for it or the random generator admits it; returns it
    /// otherwise.
    pub(crate) fn insert(
        &mut self,
        key: &KeyRef<'_>,
        mut entry: CacheEntry,
        now: Ticks,
    ) -> Result<SlotIndex, CacheEntry> {
        // An answer whose query took longer than its lifetime would never be found.
        if entry.size() > ENTRY_SIZE_MAX || !entry.is_fresh(now) {
            return Err(entry);
        }
        if self.slots.is_empty() && !self.make_slots() {
            return Err(entry);
        }
        let first = self.first_slot(key.hash);
        let is_free = |slot: &Option<Slot>| {
            slot.as_ref()
                .is_none_or(|old| key.is(&old.key) || !old.entry.is_fresh(now))
        };
        let is_room = is_free(&self.slots[first]);
        let is_crowded = !is_room && !is_free(&self.slots[first + 1]);
        self.conflict_count += usize::from(is_crowded);
        // Admission is decided first: it rejects most new entries at a lower cost than the size
        // check.
        if is_crowded && !self.admits() {
            return Err(entry);
        }
        let displaced = self.slots[first + usize::from(!is_room)].as_ref();
        let size = self.size - displaced.map_or(0, Slot::size);
        let is_heavy = !self.has_room(size + entry.size());
        if is_heavy && !is_crowded && !self.admits() {
            return Err(entry);
        }
        if !is_room {
            self.slots.swap(first, first + 1);
        }
        self.slots[first] = None;
        self.size = size;
        if is_heavy && !self.make_room(entry.size()) {
            return Err(entry);
        }
        self.size += entry.size();
        // The most frequent rows are in the L0 caches of all sessions: if they were shared, each
        // clone and drop of a row would take the cache line of its counter from another core.
        entry.rows = entry.rows.to_unshared();
        self.slots[first] = Some(Slot {
            key: key.to_key(),
            entry,
        });
        self.check();
        Ok(SlotIndex(first))
    }

    /// Makes the first slots, at most half of what this session may take; returns whether there are
    /// any.
    #[cold]
    fn make_slots(&mut self) -> bool {
        let Some(budget) = &self.budget else {
            return false;
        };
        let allowance = self
            .allowance
            .get_or_insert_with(|| Allowance::new(Arc::clone(budget)));
        let count_max = (allowance.share() / 2) as usize / size_of::<Slot>();
        if count_max < SLOT_COUNT_MIN {
            return false;
        }
        let count = (2 * SET_COUNT).min(1 << count_max.ilog2());
        if allowance.covers((count * size_of::<Slot>()) as u64) {
            self.slots = vec![None; count].into_boxed_slice();
            self.check();
        }
        !self.slots.is_empty()
    }

    /// Whether the slots and entries of `size` bytes are within what this session may take.
    #[inline]
    fn has_room(&mut self, size: u64) -> bool {
        let slots_size = size_of_val(&*self.slots) as u64;
        let allowance = self.allowance.as_mut();
        allowance.is_some_and(|it| !it.is_beyond_share() && it.covers(slots_size + size))
    }

    /// Empties slots in a cyclic order until `size` more bytes fit, and returns bytes to the budget
    /// that exceed the session's share, which shrinks as sessions are added; returns whether there
    /// is room. Without this, a cache full of large entries would keep them, because most new
    /// entries go into slots that are empty.
    fn make_room(&mut self, size: u64) -> bool {
        let slots_size = size_of_val(&*self.slots) as u64;
        let Some(allowance) = &mut self.allowance else {
            return false;
        };
        let share = allowance.share();
        if 2 * slots_size > share {
            // The share has become so small, by new sessions, that this session has to start over
            // with fewer slots.
            allowance.shrink(0);
            (self.slots, self.size, self.hand) = (Box::default(), 0, 0);
            return false;
        }
        let goal = allowance.taken().min(share);
        for _ in 0..self.slots.len() {
            if slots_size + self.size + size <= goal {
                break;
            }
            if let Some(slot) = self.slots[self.hand].take() {
                self.size -= slot.size();
            }
            self.hand = (self.hand + 1) & (self.slots.len() - 1);
        }
        allowance.shrink(goal);
        let has_room = slots_size + self.size + size <= goal;
        self.check();
        has_room
    }

    /// Doubles the slots if many new entries found no room and there are fewer than `entry_count`.
    ///
    /// For batch lookups: they do not depend on each other, so a processor loads the slots of
    /// several at once, and slots beyond the size of its cache are still faster than the shared
    /// cache. Single lookups would wait for each load.
    pub(crate) fn widen(&mut self, entry_count: usize) {
        let len = self.slots.len();
        if self.conflict_count < len || len == 0 || len >= entry_count.min(2 * SET_COUNT_MAX) {
            return;
        }
        self.conflict_count = 0;
        let size = (2 * len * size_of::<Slot>()) as u64 + self.size;
        // Slots are half of what the session may take, as at the beginning.
        let may_take = |it: &mut Allowance| size <= it.share() / 2 + self.size && it.covers(size);
        if !self.allowance.as_mut().is_some_and(may_take) {
            return;
        }
        let slots = vec![None; 2 * len].into_boxed_slice();
        let old = std::mem::replace(&mut self.slots, slots);
        // In reverse, so that the entry used last comes first again.
        for slot in old.into_iter().flatten().rev() {
            let first = self.first_slot(slot.key.hash);
            self.slots.swap(first, first + 1);
            self.slots[first] = Some(slot);
        }
        self.check();
        debug_assert!(self.adds_up(), "the sizes of the entries add up");
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        let set_count = self.slots.len() / 2;
        debug_assert!(set_count.is_power_of_two(), "a set is found by a mask");
        // `set_count` is a power of two.
        2 * (hash as usize & (set_count - 1))
    }

    /// Marsaglia's xorshift: three shifts are random enough not to correlate with the pattern of
    /// the keys.
    fn admits(&mut self) -> bool {
        self.rng_state ^= self.rng_state << 13;
        self.rng_state ^= self.rng_state >> 17;
        self.rng_state ^= self.rng_state << 5;
        debug_assert!(self.rng_state != 0, "the generator never stops");
        self.rng_state.is_multiple_of(ADMIT_ONE_IN)
    }

    /// The entry at a position that this cache returned, if only [`Self::peek`] was called since.
    #[inline]
    pub(crate) fn entry(&self, index: SlotIndex) -> &CacheEntry {
        let slot = self.slots[index.0].as_ref();
        &slot.expect("the place was given out with its entry").entry
    }

    /// Removes all entries and uses another budget from now on.
    pub(crate) fn clear(&mut self, budget: Option<Arc<LocalBudget>>) {
        *self = Self {
            rng_state: self.rng_state,
            ..Self::new(budget)
        };
    }
}

impl Slot {
    fn size(&self) -> u64 {
        self.entry.size()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lookaside_value::{RowSetBuilder, Value};

    use super::super::tests::{entry, key};
    use super::*;
    use crate::clock::Clock;

    /// The most that one session may take.
    const SHARE: u64 = 40 << 20;

    fn budget() -> Arc<LocalBudget> {
        Arc::new(LocalBudget::new(2 * SHARE))
    }

    fn kept(cache: &LocalCache) -> u64 {
        cache.size + size_of_val(&*cache.slots) as u64
    }

    fn cache() -> LocalCache {
        LocalCache::new(Some(budget()))
    }

    fn text(cache: &mut LocalCache, key: &KeyRef<'_>, now: Ticks) -> Option<Value> {
        let index = cache.find(key, now)?;
        Some(cache.entry(index).rows.row(0)[0].clone())
    }

    fn insert(cache: &mut LocalCache, key: KeyRef<'_>, text: &str) -> bool {
        let now = Clock::manual().now();
        cache.insert(&key, entry(key, text), now).is_ok()
    }

    #[test]
    fn two_entries_share_a_set_and_the_unused_one_goes() {
        let now = Clock::manual().now();
        let values = [[Value::Int(1)], [Value::Int(2)], [Value::Int(3)]];
        // All three have the same set; the last two have the same hash.
        let hashes = [5, 5 + SET_COUNT as u64, 5 + SET_COUNT as u64];
        let keys: Vec<KeyRef<'_>> = (values.iter().zip(hashes))
            .map(|(value, hash)| key(value, hash))
            .collect();
        let mut cache = cache();
        assert_eq!(text(&mut cache, &keys[0], now), None);
        assert!(insert(&mut cache, keys[0], "one"));
        assert!(insert(&mut cache, keys[1], "two"));
        assert_eq!(text(&mut cache, &keys[0], now), Some("one".into()));
        let tries = (1..)
            .find(|_| insert(&mut cache, keys[2], "three"))
            .unwrap();
        assert!(tries < 100, "a full set takes in one of a few");
        assert_eq!(text(&mut cache, &keys[1], now), None, "used least recently");
        assert_eq!(text(&mut cache, &keys[0], now), Some("one".into()));
        assert_eq!(text(&mut cache, &keys[2], now), Some("three".into()));
        assert!(
            insert(&mut cache, keys[2], "three again"),
            "its own place is free"
        );
        assert_eq!(text(&mut cache, &keys[2], now), Some("three again".into()));
        assert_eq!(text(&mut cache, &keys[0], now), Some("one".into()));
        cache.clear(Some(budget()));
        assert_eq!(text(&mut cache, &keys[0], now), None);
    }

    #[test]
    fn most_newcomers_leave_a_full_set_alone() {
        let mut cache = cache();
        let admitted = (0..4000_i64)
            .filter(|int| insert(&mut cache, key(&[Value::Int(*int)], 1), "x"))
            .count();
        assert!((400..600).contains(&admitted), "{admitted} of 4000");
    }

    #[test]
    fn a_crowded_cache_is_widened_and_loses_nothing() {
        let now = Clock::manual().now();
        let values: Vec<[Value; 1]> = (0..20_000).map(|int| [Value::Int(int)]).collect();
        let keys: Vec<KeyRef<'_>> = (0_u64..)
            .zip(&values)
            .map(|(int, value)| key(value, int.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40))
            .collect();
        let held = |cache: &LocalCache| -> Vec<bool> {
            let keys = keys.iter();
            keys.map(|key| cache.peek(key, now).is_some()).collect()
        };
        let room = 4 * SET_COUNT;
        let mut cache = cache();
        for len in [2 * SET_COUNT, room] {
            for key in &keys {
                insert(&mut cache, *key, "x");
            }
            assert_eq!(cache.slots.len(), len);
            let before = held(&cache);
            for _ in 0..2 {
                cache.widen(room);
                assert_eq!(cache.slots.len(), room, "not before it is crowded again");
            }
            assert_eq!(held(&cache), before);
        }
        cache.clear(Some(budget()));
        insert(&mut cache, keys[0], "x");
        assert_eq!(cache.slots.len(), 2 * SET_COUNT);
    }

    #[test]
    fn bytes_are_bounded() {
        let texts = "x".repeat(ENTRY_SIZE_MAX as usize - 512);
        let mut cache = cache();
        let mut largest = 0;
        for int in 0..30_000_u64 {
            let value = [Value::Int(int as i64)];
            insert(&mut cache, key(&value, int), &texts);
            cache.widen(usize::MAX);
            largest = largest.max(kept(&cache));
            assert!(kept(&cache) <= SHARE);
        }
        let sizes = cache.slots.iter().flatten().map(Slot::size);
        assert_eq!(sizes.sum::<u64>(), cache.size);
        assert!(largest > SHARE - (128 << 10), "{largest}");
    }

    #[test]
    fn a_cache_full_of_bytes_takes_in_what_is_asked_for_now() {
        let text = "x".repeat(ENTRY_SIZE_MAX as usize - 512);
        let mut cache = cache();
        // Small answers widen it, and then large ones fill it to the byte.
        for int in 0..200_000_u64 {
            insert(&mut cache, key(&[Value::Int(int as i64)], int), "x");
            cache.widen(usize::MAX);
        }
        for int in 0..200_000_u64 {
            insert(&mut cache, key(&[Value::Int(-(int as i64))], int), &text);
        }
        assert!(kept(&cache) > SHARE - (128 << 10));
        // Then other keys are looked up, each often.
        let others: Vec<[Value; 1]> = (0..1000).map(|int| [Value::Int(1_000_000 + int)]).collect();
        let others: Vec<KeyRef<'_>> = (others.iter().zip(70_000..))
            .map(|(value, hash)| key(value, hash))
            .collect();
        let now = Clock::manual().now();
        for _ in 0..100 {
            for key in &others {
                if cache.peek(key, now).is_none() {
                    insert(&mut cache, *key, &text);
                }
            }
        }
        let held = others.iter().filter(|key| cache.peek(key, now).is_some());
        assert_eq!(held.count(), others.len());
        let sizes = cache.slots.iter().flatten().map(Slot::size);
        assert_eq!(sizes.sum::<u64>(), cache.size);
        assert!(kept(&cache) <= SHARE);
    }

    #[test]
    fn looking_at_many_moves_nothing() {
        let now = Clock::manual().now();
        let values = [[Value::Int(1)], [Value::Int(2)]];
        let keys = values.each_ref().map(|value| key(value, 5));
        let mut cache = cache();
        assert_eq!(cache.peek(&keys[0], now), None);
        for key in keys {
            assert!(insert(&mut cache, key, "x"));
        }
        let places = keys.map(|key| cache.peek(&key, now).unwrap());
        for (key, place) in keys.iter().zip(places) {
            assert!(key.is(&cache.slots[place.0].as_ref().unwrap().key));
        }
    }

    #[test]
    fn an_entry_expires_at_its_moment() {
        let clock = Clock::manual();
        let value = [Value::Int(1)];
        let mut cache = cache();
        assert!(insert(&mut cache, key(&value, 1), "x"));
        clock.advance(Duration::from_millis(999));
        assert!(cache.find(&key(&value, 1), clock.now()).is_some());
        // Two, because ticks round down.
        clock.advance(Duration::from_millis(2));
        assert!(cache.find(&key(&value, 1), clock.now()).is_none());
    }

    #[test]
    fn kept_rows_are_shared_with_nobody() {
        let value = [Value::Int(1)];
        let now = Clock::manual().now();
        let key = key(&value, 1);
        let shared = entry(key, "x");
        let mut cache = cache();
        let index = cache.insert(&key, shared.clone(), now).unwrap();
        let own = &cache.entry(index).rows;
        assert_eq!(*own, shared.rows);
        assert!(!std::ptr::eq(own.row(0), shared.rows.row(0)));
    }

    #[test]
    fn a_large_answer_is_not_kept() {
        let value = [Value::Int(1)];
        let mut rows = RowSetBuilder::new(["v"]);
        rows.push([Value::from("x".repeat(ENTRY_SIZE_MAX as usize))]);
        let now = Clock::manual().now();
        let key = key(&value, 1);
        let lifetime = Duration::from_secs(1);
        let large = CacheEntry::new(&key, rows.build(), now.after(lifetime), lifetime);
        assert!(cache().insert(&key, large, now).is_err());
    }
}
