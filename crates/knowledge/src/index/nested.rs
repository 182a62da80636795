//! The index over keys that contain each other, as a domain contains the names under it and a path
//! its subpaths.
//!
//! A caller looks up the keys that may contain its own, the longest first. The list of the first
//! that is found also holds the rows of all shorter ones, so that one hash probe per level is
//! enough.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::TooLarge;
use super::key::{hash_bytes, upper};
use super::open::OpenTable;
use super::slots::{ListOrder, Lists, ROW_COUNT_MAX, Rows, Slot};

/// An immutable index of nested keys.
#[derive(Debug)]
pub(crate) struct NestedIndex {
    /// A bit for the hash of each key. Most keys that a caller looks up are not in the index, and
    /// this is small enough to stay in the core's cache.
    filter: Box<[u64]>,
    keys: OpenTable<NestedKey>,
    arena: Box<[u8]>,
    lists: Lists,
    key_count: usize,
}

/// `arena[start..end]` is the key.
#[derive(Clone, Copy, Debug, Default)]
struct NestedKey {
    /// The upper half of its hash, so that few other keys have to be compared in the arena.
    hash: u32,
    start: u32,
    end: u32,
}

impl NestedIndex {
    /// The rows of a key and of all keys that contain it, if rows have this key itself.
    #[inline]
    pub(crate) fn rows(&self, key: &str, order: ListOrder) -> Option<Rows<'_>> {
        let hash = hash_bytes(key.as_bytes());
        let (word, bit) = filter_place(hash, self.filter.len());
        if self.filter[word] & bit == 0 {
            return None;
        }
        let slot = self.keys.slot(hash, |other, _| {
            other.hash == upper(hash)
                && self.arena[other.start as usize..other.end as usize] == *key.as_bytes()
        });
        (slot != Slot::NONE).then(|| self.lists.rows(slot, order))
    }

    /// Whether any key has several rows, its own or those of keys that contain it.
    pub(crate) fn has_several(&self) -> bool {
        self.lists.has_several()
    }

    /// Whether [`ListOrder::LowDescending`] leaves the order of any two of them open.
    pub(crate) fn has_ties(&self) -> bool {
        self.lists.has_ties()
    }

    /// How many different keys there are.
    pub(crate) fn len(&self) -> usize {
        self.key_count
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.filter) + self.keys.size() + self.arena.len() + self.lists.size()
    }
}

/// Bits of the filter for each key: one false positive in about sixteen.
const FILTER_BITS_PER_KEY: usize = 16;

/// The word and the bit of a hash, in a filter whose size is a power of two.
#[inline]
fn filter_place(hash: u64, word_count: usize) -> (usize, u64) {
    // The table uses the lower bits, and the upper ones are compared.
    let place = hash.rotate_left(20);
    let word = (place >> 6) as usize & (word_count - 1);
    (word, 1 << (place & 63))
}

/// Collects rows with their keys.
#[derive(Debug, Default)]
pub(crate) struct NestedIndexBuilder {
    /// Positions and ranks of the rows of each key, in the table's scan order.
    keys: HashMap<String, Vec<(u32, u32)>, FixedState>,
}

impl NestedIndexBuilder {
    /// Adds a row with this key. In [`ListOrder::LowDescending`], rows with the greatest
    /// `length` are first.
    pub(crate) fn push(&mut self, row: usize, key: &str, length: usize) -> Result<(), TooLarge> {
        if row >= ROW_COUNT_MAX {
            return Err(TooLarge::Rows);
        }
        let rank = u32::MAX - u32::try_from(length).map_err(|_| TooLarge::Keys)?;
        self.keys
            .entry_ref(key)
            .or_default()
            .push((rank, row as u32));
        Ok(())
    }

    /// The finished index; `parents` returns the keys that contain a key, without the key itself.
    pub(crate) fn build<'k, I>(
        &'k self,
        parents: impl Fn(&'k str) -> I,
    ) -> Result<NestedIndex, TooLarge>
    where
        I: Iterator<Item = &'k str>,
    {
        let mut lists = Lists::default();
        let mut arena = Vec::new();
        let mut entries: Vec<(u64, NestedKey, Slot)> = Vec::with_capacity(self.keys.len());
        let mut rows = Vec::new();
        for (key, own) in &self.keys {
            rows.clear();
            rows.extend_from_slice(own);
            for parent in parents(key) {
                rows.extend(self.keys.get(parent).into_iter().flatten());
            }
            rows.sort_unstable_by_key(|(_, row)| *row);
            let slot = lists.push_ranked(&mut rows)?;
            let start = arena.len() as u32;
            arena.extend_from_slice(key.as_bytes());
            let end = u32::try_from(arena.len()).map_err(|_| TooLarge::Keys)?;
            let hash = hash_bytes(key.as_bytes());
            let key = NestedKey {
                hash: upper(hash),
                start,
                end,
            };
            entries.push((hash, key, slot));
        }
        let word_count = (entries.len() * FILTER_BITS_PER_KEY / 64).next_power_of_two();
        let mut filter = vec![0; word_count].into_boxed_slice();
        for (hash, ..) in &entries {
            let (word, bit) = filter_place(*hash, word_count);
            filter[word] |= bit;
        }
        let key_count = entries.len();
        let mut keys = OpenTable::with_room_for(key_count);
        for (hash, key, slot) in entries {
            keys.insert_new(hash, key, slot);
        }
        Ok(NestedIndex {
            filter,
            key_count,
            keys,
            arena: arena.into_boxed_slice(),
            lists,
        })
    }
}
