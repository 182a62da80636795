//! A hash table that is filled once and then only read.
//!
//! Open addressing with linear probing: finding a key costs one cache line, whereas a table with
//! separate control bytes costs two, one after the other.

use std::hint::black_box;

use super::slots::Slot;

/// A map from keys to slots, at most four fifths full, so that every search ends.
#[derive(Debug)]
pub(super) struct OpenTable<K> {
    /// The places, a power of two; those with [`Slot::NONE`] are empty.
    places: Box<[(K, Slot)]>,
}

impl<K: Copy + Default> OpenTable<K> {
    /// An empty table for this many keys.
    pub(super) fn with_room_for(key_count: usize) -> Self {
        let place_count = (key_count + key_count / 4 + 1).next_power_of_two();
        Self {
            places: vec![(K::default(), Slot::NONE); place_count].into_boxed_slice(),
        }
    }

    /// Inserts a key that is not in the table.
    pub(super) fn insert_new(&mut self, hash: u64, key: K, slot: Slot) {
        assert!(slot != Slot::NONE, "a key that is stored has rows");
        let mut at = hash as usize & (self.places.len() - 1);
        while self.places[at].1 != Slot::NONE {
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = (key, slot);
    }

    /// The slot of the key that `is_key` accepts; [`Slot::NONE`] if there is none.
    #[inline]
    pub(super) fn slot(&self, hash: u64, is_key: impl Fn(&K, Slot) -> bool) -> Slot {
        let mut at = hash as usize & (self.places.len() - 1);
        loop {
            let (key, slot) = &self.places[at];
            if *slot == Slot::NONE || is_key(key, *slot) {
                return *slot;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    /// Loads the places at which the searches for some keys begin, so that their cache misses overlap.
    #[inline]
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        black_box(hashes.fold(0, |read, hash| read ^ self.first_place(hash).1.bits()));
    }

    /// The place at which the search for a key begins.
    #[inline]
    pub(super) fn first_place(&self, hash: u64) -> &(K, Slot) {
        &self.places[hash as usize & (self.places.len() - 1)]
    }

    /// A table of these places; `None` if their number is not a power of two, or none of them is empty, so
    /// that a search would not end.
    pub(super) fn of_places(places: Box<[(K, Slot)]>) -> Option<Self> {
        let has_room = places.iter().any(|(_, slot)| *slot == Slot::NONE);
        (places.len().is_power_of_two() && has_room).then_some(Self { places })
    }

    /// The places, of which those with [`Slot::NONE`] are empty.
    pub(super) fn places(&self) -> &[(K, Slot)] {
        &self.places
    }

    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Inserts a key, unless there is one that `is_key` accepts; then returns its place.
    #[inline]
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: K,
        slot: Slot,
        is_key: impl Fn(&K, Slot) -> bool,
    ) -> Result<(), u32> {
        let mut at = hash as usize & (self.places.len() - 1);
        loop {
            let (other, other_slot) = &self.places[at];
            if *other_slot == Slot::NONE {
                break;
            }
            if is_key(other, *other_slot) {
                return Err(at as u32);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = (key, slot);
        Ok(())
    }

    /// The slot at a place of [`Self::insert`].
    pub(super) fn slot_at(&self, place: u32) -> Slot {
        self.places[place as usize].1
    }

    /// Replaces the slot at a place.
    pub(super) fn set_slot(&mut self, place: u32, slot: Slot) {
        self.places[place as usize].1 = slot;
    }

    /// The table with no more places than its `key_count` keys need.
    pub(super) fn shrunk(self, key_count: usize, hash: impl Fn(&K, Slot) -> u64) -> Self {
        let mut smaller = Self::with_room_for(key_count);
        if smaller.places.len() == self.places.len() {
            return self;
        }
        for (key, slot) in self.places.iter().filter(|(_, slot)| *slot != Slot::NONE) {
            smaller.insert_new(hash(key, *slot), *key, *slot);
        }
        smaller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64], hash: impl Fn(i64) -> u64) {
        let entries = keys.iter().zip(0_u32..keys.len() as u32);
        let mut table = OpenTable::with_room_for(keys.len() * 4);
        for (key, row) in entries {
            assert_eq!(
                table.insert(hash(*key), *key, Slot::one(row), |other, _| other == key),
                Ok(())
            );
        }
        let table = table.shrunk(keys.len(), |key, _| hash(*key));
        assert!(table.places.len() <= 2 * keys.len() + keys.len() / 2 + 2);
        for (key, row) in keys.iter().zip(0..) {
            assert_eq!(
                table.slot(hash(*key), |other, _| other == key),
                Slot::one(row)
            );
        }
        assert_eq!(table.slot(hash(-1), |other, _| *other == -1), Slot::NONE);
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
