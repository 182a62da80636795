//! A cache with bounded heap usage: of its entries and of the slots that hold them.
//!
//! quick_cache bounds a sum of weights. The weight of an entry here is the heap of its key and its
//! value, and its share of the slots. Slots grow by doubling, are never freed, and evicted keys
//! occupy some of them for a while, so the share is only right on average. The slots are therefore
//! counted from time to time, and what they take beyond their share is deducted from the capacity
//! for entries.

use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_value::{RowSet, Value};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::{Key, KeyRef, Prehashed};

/// The part of the capacity that quick_cache reserves for entries used more than once; its default,
/// repeated here because no single entry may weigh more than that.
const HOT_PERCENT: u64 = 97;

const _: () = assert!(0 < HOT_PERCENT);
const _: () = assert!(HOT_PERCENT < 100);

/// The number of evicted keys that are remembered per entry of the capacity; quick_cache's default.
const GHOSTS_PER_ENTRY: f64 = 0.5;

/// Bytes of a slot beside key and value: two links, the state, and padding.
const SLOT_LINKS_SIZE: usize = 16;

/// Bytes of the hash table for each slot: five per bucket, of which 44 to 88 % are used.
const BUCKET_SIZE: usize = 8;

/// The minimal heap size of an entry: a set of rows.
const ENTRY_SIZE_MIN: u64 = 64;

/// Insertions after which the slots are counted again. Until then, they grow by less than the
/// precision of the bound.
const COUNT_EVERY: u64 = 64;

/// The heap size of an allocation of `size` bytes: allocators round up to size classes, by at most
/// an eighth, and less on average.
pub(crate) fn allocated(size: usize) -> usize {
    match size {
        0 => 0,
        size => (size + size / 16).next_multiple_of(16),
    }
}

/// The heap size of a value; shared text counts in full, as the other owners may drop it first.
pub(crate) fn value_size(value: &Value) -> usize {
    allocated(value.heap_size())
}

/// The heap size of rows without the column names, which all answers of a statement share.
pub(crate) fn rows_size(rows: &RowSet) -> usize {
    let width = rows.columns().len();
    let values: usize = rows.iter().flatten().map(value_size).sum();
    // A single value is stored in the set itself.
    let own = match (rows.len(), width) {
        (1, 1) => 0,
        (len, width) => allocated(len * width * size_of::<Value>()),
    };
    ENTRY_SIZE_MIN as usize + own + values
}

/// The heap size of a cache entry.
pub(crate) trait HeapSize {
    /// Bytes on the heap of the value and its key.
    fn heap_size(&self) -> u64;
}

pub(super) type Lifecycle<V> = DefaultLifecycle<Key, V>;

/// An entry weighs its bytes, but at least the capacity in bytes divided by the capacity in
/// entries. A single bound on the weight thus bounds the number of entries as well as the bytes.
#[derive(Clone, Debug)]
pub(super) struct WeightOf {
    weight_min: u64,
    slot_size: u64,
}

impl<V: HeapSize> Weighter<Key, V> for WeightOf {
    fn weight(&self, _: &Key, value: &V) -> u64 {
        self.weight_min.max(self.slot_size + value.heap_size())
    }
}

/// A cache of about `capacity` entries that keeps no more than `size_max` bytes.
#[derive(Debug)]
pub(crate) struct BoundedCache<V: HeapSize + Clone> {
    pub(super) cache: Cache<Key, V, WeightOf, Prehashed, Lifecycle<V>>,
    capacity: usize,
    slot_size: u64,
    // Relaxed throughout: the numbers do not order other accesses, and a slightly stale one does no
    // harm.
    size_max: AtomicU64,
    insert_count: AtomicU64,
}

impl<V: HeapSize + Clone> BoundedCache<V> {
    pub(crate) fn new(capacity: usize, size_max: u64) -> Self {
        let slot = size_of::<Key>() + size_of::<V>() + SLOT_LINKS_SIZE + BUCKET_SIZE;
        // Evicted keys occupy slots too, and a vector that grows by doubling is three quarters full
        // on average.
        let slot_size = (slot as f64 * (1.0 + GHOSTS_PER_ENTRY) / 0.75) as u64;
        let count_max = size_max / (slot_size + ENTRY_SIZE_MIN);
        let capacity = capacity.min(usize::try_from(count_max).unwrap_or(usize::MAX));
        let capacity = capacity.max(1);
        let weight_min = (size_max / capacity as u64)
            .min(size_max * HOT_PERCENT / 100)
            .max(1);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(capacity)
            .weight_capacity(size_max)
            .hot_allocation(HOT_PERCENT as f64 / 100.0)
            .ghost_allocation(GHOSTS_PER_ENTRY)
            .build()
            .expect("both capacities are set");
        assert!(
            weight_min <= size_max.max(1),
            "the smallest entry fits the bytes"
        );
        let weight = WeightOf {
            weight_min,
            slot_size,
        };
        Self {
            cache: Cache::with_options(options, weight, Prehashed::default(), Lifecycle::default()),
            capacity,
            slot_size,
            size_max: AtomicU64::new(size_max),
            insert_count: AtomicU64::new(0),
        }
    }

    /// The entry of a key.
    pub(crate) fn find(&self, key: &KeyRef<'_>) -> Option<V> {
        self.cache.get(key)
    }

    /// Inserts an entry, replacing an older one with the same key.
    pub(crate) fn insert(&self, key: Key, value: V) {
        self.cache.insert(key, value);
        self.note_insert();
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }

    /// The maximal number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The weight of all entries in bytes; small entries count as the minimal weight.
    pub(crate) fn weight(&self) -> u64 {
        self.cache.weight()
    }

    /// The maximal number of bytes.
    pub(crate) fn size_max(&self) -> u64 {
        self.size_max.load(Ordering::Relaxed)
    }

    /// Changes the bound and evicts entries that exceed it.
    pub(crate) fn set_size_max(&self, size_max: u64) {
        if self.size_max.swap(size_max, Ordering::Relaxed) != size_max {
            self.count_slots();
        }
    }

    /// Counts an insertion.
    #[inline]
    pub(crate) fn note_insert(&self) {
        if self.insert_count.fetch_add(1, Ordering::Relaxed) % COUNT_EVERY == COUNT_EVERY - 1 {
            self.count_slots();
        }
    }

    /// Reduces the capacity for entries by what the slots take beyond their share.
    #[cold]
    fn count_slots(&self) {
        let used = self.cache.memory_used();
        let slot = size_of::<Key>() + size_of::<V>() + SLOT_LINKS_SIZE;
        let shard_count = self.cache.num_shards();
        assert!(shard_count > 0, "the entries lie in shards");
        // The capacity of a vector of slots is the next power of two.
        let slot_count = (used.entries / slot / shard_count).next_power_of_two() * shard_count;
        let slots_size = (slot_count * slot + used.map) as u64;
        let size_max = self.size_max();
        let excess = slots_size.saturating_sub(self.slot_size * self.len() as u64);
        let room = size_max.saturating_sub(excess).max(size_max / 8);
        // Each change takes all locks, so small differences are ignored.
        if room.abs_diff(self.cache.capacity()) > size_max / 64 {
            self.cache.set_capacity(room);
        }
    }
}
