//! A hash table that is filled once and then only read.
//!
//! Open addressing with linear probing: finding a key costs one cache line, whereas a table with
//! separate control bytes costs two, one after the other.

use super::slots::Slot;

/// A map from keys to slots, at most four fifths full, so that every search ends.
#[derive(Debug)]
pub(super) struct OpenTable<K> {
    /// The places, a power of two; those with [`Slot::NONE`] are empty.
    places: Box<[(K, Slot)]>,
}

impl<K: Copy + Default> OpenTable<K> {
    /// A table of entries with distinct keys, given with their hashes.
    pub(super) fn new(entries: impl ExactSizeIterator<Item = (u64, K, Slot)>) -> Self {
        let place_count = (entries.len() + entries.len() / 4 + 1).next_power_of_two();
        let mut places = vec![(K::default(), Slot::NONE); place_count].into_boxed_slice();
        for (hash, key, slot) in entries {
            assert!(slot != Slot::NONE, "a key that is stored has rows");
            let mut at = hash as usize & (place_count - 1);
            while places[at].1 != Slot::NONE {
                at = (at + 1) & (place_count - 1);
            }
            places[at] = (key, slot);
        }
        Self { places }
    }

    /// The slot of the key that `is_key` accepts; [`Slot::NONE`] if there is none.
    #[inline]
    pub(super) fn slot(&self, hash: u64, is_key: impl Fn(&K) -> bool) -> Slot {
        let mut at = hash as usize & (self.places.len() - 1);
        loop {
            let (key, slot) = &self.places[at];
            if *slot == Slot::NONE || is_key(key) {
                return *slot;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64], hash: impl Fn(i64) -> u64) {
        let entries = keys.iter().zip(0_u32..keys.len() as u32);
        let table = OpenTable::new(entries.map(|(key, row)| (hash(*key), *key, Slot::one(row))));
        for (key, row) in keys.iter().zip(0..) {
            assert_eq!(table.slot(hash(*key), |other| other == key), Slot::one(row));
        }
        assert_eq!(table.slot(hash(-1), |other| *other == -1), Slot::NONE);
    }

    #[test]
    fn keys_are_found_also_when_all_collide() {
        for count in [0, 1, 2, 3, 100] {
            let keys: Vec<i64> = (0..count).collect();
            check(&keys, |key| key as u64);
            check(&keys, |_| 7);
            check(&keys, |_| u64::MAX);
        }
    }
}
