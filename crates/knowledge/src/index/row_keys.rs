//! A hash table over the keys of rows, which has no copy of the keys: it compares them with the rows.

use std::convert::Infallible;
use std::fmt;
use std::hint::black_box;
use std::num::NonZero;
use std::sync::Arc;

use super::TooLarge;
use super::key::{Key, hash_parts, hash_with, upper};
use super::open::OpenTable;
use super::slots::{Lists, ROW_COUNT_MAX, Repeated, Slot};
use crate::threads;

/// The keys of the rows of a table, which never change.
pub(crate) trait RowKeys: fmt::Debug + Send + Sync {
    /// How many rows there are.
    fn row_count(&self) -> usize;

    /// How many parts each key has.
    fn part_count(&self) -> usize;

    /// A part of the key of a row; `None` if it is NULL, so that the row has no key.
    ///
    /// # Panics
    /// If the row or the part does not exist.
    fn part(&self, row: u32, part: usize) -> Option<Key<'_>>;
}

/// Rows that are hashed at once by a thread.
const CHUNK_ROW_COUNT: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Keys whose places are loaded at once before they are inserted, so that their cache misses overlap.
const PREFETCH_COUNT: usize = 32;

/// Places with the upper halves of the hashes, so that few other rows have to be read.
#[derive(Debug)]
pub(super) struct RowKeyTable {
    places: Arc<OpenTable<u32>>,
    keys: Arc<dyn RowKeys>,
}

impl RowKeyTable {
    /// A table of all rows that have a key, and the number of different keys. Further rows of a key are
    /// added to the lists.
    pub(super) fn build(
        keys: Arc<dyn RowKeys>,
        lists: &mut Lists,
    ) -> Result<(Self, usize), TooLarge> {
        let row_count = keys.row_count();
        if row_count > ROW_COUNT_MAX {
            return Err(TooLarge::Rows);
        }
        let mut places = OpenTable::with_room_for(row_count);
        let (mut inserted_count, mut repeated) = (0, Repeated::new());
        let mut row = 0;
        for hashes in hashes(&*keys)
            .iter()
            .flat_map(|it| it.chunks(PREFETCH_COUNT))
        {
            places.prefetch(hashes.iter().flatten().map(|hash| hash.get()));
            for hash in hashes {
                if let Some(hash) = hash.map(NonZero::get) {
                    let is_same = |other: &u32, slot: Slot| {
                        *other == upper(hash)
                            && slot.row().is_some_and(|other| is_same(&*keys, other, row))
                    };
                    match places.insert(hash, upper(hash), Slot::one(row), is_same) {
                        Ok(()) => inserted_count += 1,
                        Err(place) => repeated.push((place, row)),
                    }
                }
                row += 1;
            }
        }
        for (place, slot) in lists.push_repeated(repeated, |place| places.slot_at(place))? {
            places.set_slot(place, slot);
        }
        let hash = |_: &u32, slot| {
            let hash = row_hash(&*keys, lists.first_of_some(slot));
            hash.map_or(0, NonZero::get)
        };
        let places = Arc::new(places.shrunk(inserted_count, hash));
        Ok((Self { places, keys }, inserted_count))
    }

    /// A table of places that were read, whose rows are among those of `keys`.
    pub(super) fn of_places(places: OpenTable<u32>, keys: Arc<dyn RowKeys>) -> Self {
        let places = Arc::new(places);
        Self { places, keys }
    }

    /// The same table for other rows, whose keys are the same, one by one.
    pub(super) fn with_keys(&self, keys: Arc<dyn RowKeys>) -> Self {
        let places = Arc::clone(&self.places);
        Self { places, keys }
    }

    pub(super) fn places(&self) -> &OpenTable<u32> {
        &self.places
    }

    // Not inlined, so that the search for an integer in an index without texts is.
    #[inline(never)]
    pub(super) fn slot(&self, parts: &[Key<'_>], lists: &Lists) -> Slot {
        let hash = key_hash(parts).get();
        self.places.slot(hash, |other, slot| {
            *other == upper(hash) && self.has_key(lists.first_of_some(slot), parts)
        })
    }

    #[inline]
    fn has_key(&self, row: u32, parts: &[Key<'_>]) -> bool {
        let mut parts = parts.iter().enumerate();
        parts.all(|(index, part)| self.keys.part(row, index) == Some(*part))
    }

    pub(super) fn prefetch(&self, hashes: &[u64], lists: &Lists) {
        self.places.prefetch(hashes.iter().copied());
        let slots = hashes.iter().map(|hash| self.places.first_place(*hash).1);
        let rows = slots.filter(|slot| *slot != Slot::NONE);
        let has_key = |row| self.keys.part(row, 0).is_some();
        black_box(rows.fold(false, |read, slot| {
            read ^ has_key(lists.first_of_some(slot))
        }));
    }
}

/// The hash of each row's key, in chunks of [`CHUNK_ROW_COUNT`] rows; `None` for a row without a key.
fn hashes(keys: &dyn RowKeys) -> Vec<Vec<Option<NonZero<u64>>>> {
    let row_count = keys.row_count();
    let hashed = threads::map(row_count.div_ceil(CHUNK_ROW_COUNT), |(): &mut (), chunk| {
        let start = chunk * CHUNK_ROW_COUNT;
        let rows = start as u32..row_count.min(start + CHUNK_ROW_COUNT) as u32;
        Ok::<_, Infallible>(rows.map(|row| row_hash(keys, row)).collect())
    });
    let Ok(hashed) = hashed;
    hashed
}

/// The hash of the key of a row, if it has one: as [`key_hash`].
#[inline]
fn row_hash(keys: &dyn RowKeys, row: u32) -> Option<NonZero<u64>> {
    let mut parts = (0..keys.part_count()).map(|part| keys.part(row, part));
    let hash = parts.try_fold(0, |hash, part| Some(hash_with(hash, part?)));
    hash.map(not_zero)
}

#[inline]
pub(super) fn key_hash(parts: &[Key<'_>]) -> NonZero<u64> {
    not_zero(hash_parts(parts))
}

/// The hash, or another one for zero, so that an absent hash takes no room.
#[inline]
fn not_zero(hash: u64) -> NonZero<u64> {
    NonZero::new(hash).unwrap_or(NonZero::<u64>::MIN)
}

/// Whether two rows have the same key.
fn is_same(keys: &dyn RowKeys, row: u32, other: u32) -> bool {
    (0..keys.part_count()).all(|part| keys.part(row, part) == keys.part(other, part))
}

/// Keys in memory.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct TestKeys {
    /// By row; `None` for NULL.
    pub(crate) rows: Vec<Vec<Option<Key<'static>>>>,
    pub(crate) part_count: usize,
}

#[cfg(test)]
impl RowKeys for TestKeys {
    fn row_count(&self) -> usize {
        self.rows.len()
    }

    fn part_count(&self) -> usize {
        self.part_count
    }

    fn part(&self, row: u32, part: usize) -> Option<Key<'_>> {
        self.rows[row as usize][part]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HashIndex, Rows};
    use super::*;

    /// Compares what an index finds with a scan of the rows.
    fn check(part_count: usize, rows: Vec<Vec<Option<Key<'static>>>>, absent: &[Vec<Key<'_>>]) {
        let scan = |key: &[Key<'_>]| -> Vec<u32> {
            let is_key = |row: &u32| {
                let row = &rows[*row as usize];
                row.iter().copied().eq(key.iter().copied().map(Some))
            };
            (0..rows.len() as u32).filter(is_key).collect()
        };
        let keys = TestKeys {
            rows: rows.clone(),
            part_count,
        };
        let index = HashIndex::of_rows(Arc::new(keys)).unwrap();
        let whole = |row: &Vec<Option<Key<'static>>>| row.iter().copied().collect();
        let mut present: Vec<Vec<Key<'_>>> = rows.iter().filter_map(whole).collect();
        for key in present.iter().chain(absent) {
            assert_eq!(index.rows(key).to_vec(), scan(key), "{key:?} in {rows:?}");
        }
        present.sort_unstable();
        present.dedup();
        assert_eq!(index.len(), present.len(), "{rows:?}");
    }

    #[test]
    fn random_keys_are_found_in_the_rows_that_have_them() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let words: [&'static [u8]; 4] = [b"", b"a", b"aa", b"a longer text than eight bytes"];
            let spread = [3, 1000][seed as usize % 2];
            let mut part = || match random.u8(0..5) {
                0 => Key::Int(random.i64(0..spread)),
                1 => Key::Real(random.u64(0..3)),
                2 => Key::Text(words[random.usize(0..4)]),
                _ => Key::Blob(words[random.usize(0..4)]),
            };
            let part_count = 1 + seed as usize % 3;
            let mut key = || -> Vec<Key<'static>> { (0..part_count).map(|_| part()).collect() };
            let mut rows: Vec<Vec<Option<Key<'static>>>> = (0..seed * 2)
                .map(|_| key().into_iter().map(Some).collect())
                .collect();
            let absent: Vec<_> = (0..50).map(|_| key()).collect();
            for row in rows.iter_mut().step_by(7) {
                row[part_count - 1] = None;
            }
            check(part_count, rows, &absent);
        }
    }

    #[test]
    fn keys_with_equal_hashes_are_told_apart_by_the_rows() {
        // The hash ignores the types of keys.
        let same = [Key::Int(7), Key::Real(7), Key::Text(b"x"), Key::Blob(b"x")];
        let rows = same.iter().chain(&same[1..]);
        let rows = rows.map(|key| vec![Some(*key)]).collect();
        check(1, rows, &[vec![Key::Int(8)], vec![Key::Text(b"y")]]);
        let index = HashIndex::of_rows(Arc::new(TestKeys {
            rows: Vec::new(),
            part_count: 1,
        }));
        assert_eq!(index.unwrap().rows(&[Key::Int(7)]), Rows::None);
    }
}
