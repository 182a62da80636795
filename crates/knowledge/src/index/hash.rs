//! The hash index, which finds the rows with exactly a given key.
//!
//! It has one of four layouts: a plain array for dense integer keys (such as a sequential primary
//! key), a table of integers for other single integer keys, and for everything else, including keys of
//! several columns, a table of rows, with which keys are compared, or of encoded keys in one arena.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;

use super::key::{Key, hash_bytes, hash_int, hash_parts, upper};
use super::open::OpenTable;
use super::row_keys::{RowKeyTable, RowKeys, key_hash};
use super::slots::{ListOrder, Lists, ROW_COUNT_MAX, Repeated, Rows, Slot};
use super::{BLOCK_SIZE, TooLarge};

/// An array is used if it has at most this many places per key.
const DENSE_PLACES_PER_KEY_MAX: u64 = 4;

/// An immutable hash index.
#[derive(Debug)]
pub(crate) struct HashIndex {
    table: Table,
    pub(super) lists: Lists,
    key_count: usize,
}

#[derive(Debug)]
pub(super) enum Table {
    Dense {
        min: i64,
        slots: Box<[Slot]>,
    },
    /// Differences from the least key, if all have 32 bits.
    NarrowInts {
        min: i64,
        table: OpenTable<u32>,
    },
    Ints(OpenTable<i64>),
    Encoded(EncodedTable),
    Rows(RowKeyTable),
}

#[derive(Debug)]
pub(super) struct EncodedTable {
    pub(super) keys: OpenTable<EncodedKey>,
    pub(super) arena: Box<[u8]>,
}

/// `arena[start..end]` is the encoded key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EncodedKey {
    /// The upper half of its hash, so that few other keys have to be compared in the arena.
    pub(super) hash: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl HashIndex {
    pub(super) fn new(table: Table, lists: Lists, key_count: usize) -> Self {
        Self {
            table,
            lists,
            key_count,
        }
    }

    /// An index of the keys of all rows, which refers to the rows.
    pub(crate) fn of_rows(keys: Arc<dyn RowKeys>) -> Result<Self, TooLarge> {
        let mut lists = Lists::default();
        let (table, key_count) = RowKeyTable::build(keys, &mut lists)?;
        Ok(Self::new(Table::Rows(table), lists, key_count))
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The rows whose key has these parts; there must be as many parts as when the index was built.
    #[inline(always)]
    pub(crate) fn rows(&self, parts: &[Key<'_>]) -> Rows<'_> {
        let slot = match (&self.table, parts) {
            (Table::Dense { min, slots }, [Key::Int(key)]) => slot_of_dense(slots, *min, *key),
            (Table::NarrowInts { min, table }, [Key::Int(key)]) => {
                slot_of_narrow(table, *min, *key)
            }
            (Table::Ints(table), [Key::Int(key)]) => slot_of_int(table, *key),
            (Table::Dense { .. } | Table::NarrowInts { .. } | Table::Ints(_), _) => Slot::NONE,
            (Table::Encoded(table), parts) => table.slot(parts),
            (Table::Rows(table), parts) => table.slot(parts, &self.lists),
        };
        self.lists.rows(slot, ListOrder::Scan)
    }

    /// Loads the cache lines that the probes of these keys read: the places, and then the keys there, most of
    /// which are those that are searched. There are up to [`BLOCK_SIZE`] keys.
    pub(crate) fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>>) {
        let (mut hashes, mut count) = ([0; BLOCK_SIZE], 0);
        match &self.table {
            Table::Dense { .. } | Table::NarrowInts { .. } | Table::Ints(_) => {}
            Table::Encoded(table) => {
                for (hash, key) in hashes.iter_mut().zip(keys) {
                    (*hash, count) = (hash_parts(&[key]), count + 1);
                }
                table.prefetch(&hashes[..count]);
            }
            Table::Rows(table) => {
                for (hash, key) in hashes.iter_mut().zip(keys) {
                    (*hash, count) = (key_hash(&[key]).get(), count + 1);
                }
                table.prefetch(&hashes[..count], &self.lists);
            }
        }
    }

    /// Whether all keys are single integers.
    pub(crate) fn has_int_keys(&self) -> bool {
        !matches!(self.table, Table::Encoded(_) | Table::Rows(_))
    }

    /// The index for other rows, whose keys are the same, one by one, if it refers to those that it was built
    /// of.
    pub(crate) fn with_keys(&self, keys: Arc<dyn RowKeys>) -> Option<Self> {
        let Table::Rows(table) = &self.table else {
            return None;
        };
        Some(Self {
            table: Table::Rows(table.with_keys(keys)),
            lists: self.lists.clone(),
            key_count: self.key_count,
        })
    }

    /// The first row of each of up to [`BLOCK_SIZE`] keys, as [`Self::rows`] finds it; none if the keys of the
    /// index are not integers.
    pub(crate) fn first_of_ints(&self, keys: &[i64], rows: &mut [Option<u32>]) {
        let mut found = [Slot::NONE; BLOCK_SIZE];
        let searches = keys.iter().zip(&mut found);
        match &self.table {
            Table::Dense { min, slots } => {
                searches.for_each(|(key, slot)| *slot = slot_of_dense(slots, *min, *key));
            }
            Table::NarrowInts { min, table } => {
                let places = keys.iter().filter_map(|key| narrow(*key, *min));
                table.prefetch(places.map(hash_narrow));
                searches.for_each(|(key, slot)| *slot = slot_of_narrow(table, *min, *key));
            }
            Table::Ints(table) => {
                table.prefetch(keys.iter().map(|key| hash_int(*key)));
                searches.for_each(|(key, slot)| *slot = slot_of_int(table, *key));
            }
            Table::Encoded(_) | Table::Rows(_) => {}
        }
        for (slot, row) in found.iter().zip(rows) {
            *row = self.lists.first(*slot, ListOrder::Scan);
        }
    }

    /// The rows of each key that has several.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &[u32]> {
        self.lists.iter()
    }

    /// Whether any key has several rows.
    pub(crate) fn has_several(&self) -> bool {
        self.lists.has_several()
    }

    /// How many different keys there are.
    pub(crate) fn len(&self) -> usize {
        self.key_count
    }

    /// Bytes of memory, without those of rows that keys are compared with.
    pub(crate) fn size(&self) -> usize {
        self.lists.size()
            + match &self.table {
                Table::Dense { slots, .. } => size_of_val(&**slots),
                Table::NarrowInts { table, .. } => table.size(),
                Table::Ints(table) => table.size(),
                Table::Encoded(table) => table.keys.size() + table.arena.len(),
                Table::Rows(table) => table.places().size(),
            }
    }
}

impl EncodedTable {
    fn prefetch(&self, hashes: &[u64]) {
        self.keys.prefetch(hashes.iter().copied());
        let first_byte = |hash: &u64| {
            self.arena
                .get(self.keys.first_place(*hash).0.start as usize)
        };
        let bytes = hashes.iter().filter_map(first_byte);
        black_box(bytes.fold(0, |read, byte| read ^ byte));
    }

    #[inline(never)]
    fn slot(&self, parts: &[Key<'_>]) -> Slot {
        let hash = hash_parts(parts);
        self.keys.slot(hash, |key, _| {
            key.hash == upper(hash)
                && is_encoded(parts, &self.arena[key.start as usize..key.end as usize])
        })
    }
}

/// The slot of a key in an array.
#[inline]
fn slot_of_dense(slots: &[Slot], min: i64, key: i64) -> Slot {
    let place = usize::try_from((key as u64).wrapping_sub(min as u64));
    let slot = place.ok().and_then(|place| slots.get(place));
    slot.copied().unwrap_or(Slot::NONE)
}

#[inline]
fn slot_of_narrow(table: &OpenTable<u32>, min: i64, key: i64) -> Slot {
    match narrow(key, min) {
        Some(key) => table.slot(hash_narrow(key), |other, _| *other == key),
        None => Slot::NONE,
    }
}

#[inline]
fn slot_of_int(table: &OpenTable<i64>, key: i64) -> Slot {
    table.slot(hash_int(key), |other, _| *other == key)
}

/// A key of [`Table::NarrowInts`].
#[inline]
fn narrow(key: i64, min: i64) -> Option<u32> {
    u32::try_from((key as u64).wrapping_sub(min as u64)).ok()
}

#[inline]
fn hash_narrow(key: u32) -> u64 {
    hash_int(i64::from(key))
}

const INT: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// Appends the parts, each as a type byte and eight bytes of number or length, then the bytes.
fn encode(parts: &[Key<'_>], out: &mut Vec<u8>) {
    for part in parts {
        let (tag, word, bytes) = split(*part);
        out.push(tag);
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Whether these bytes equal [`encode`] of the parts, without encoding them.
#[inline]
fn is_encoded(parts: &[Key<'_>], mut encoded: &[u8]) -> bool {
    for part in parts {
        let (tag, word, bytes) = split(*part);
        let Some((head, rest)) = encoded.split_first_chunk::<9>() else {
            return false;
        };
        if head[0] != tag || head[1..] != word.to_le_bytes() || !rest.starts_with(bytes) {
            return false;
        }
        encoded = &rest[bytes.len()..];
    }
    encoded.is_empty()
}

#[inline]
fn split(part: Key<'_>) -> (u8, u64, &[u8]) {
    match part {
        Key::Int(int) => (INT, int as u64, &[]),
        Key::Real(bits) => (REAL, bits, &[]),
        Key::Text(bytes) => (TEXT, bytes.len() as u64, bytes),
        Key::Blob(bytes) => (BLOB, bytes.len() as u64, bytes),
    }
}

/// Collects rows with their keys, in the table's scan order.
#[derive(Debug)]
pub(crate) struct HashIndexBuilder {
    part_count: usize,
    row_count: usize,
    /// Rows whose key is one integer, as long as no other key needs them to be encoded.
    ints: Vec<i64>,
    int_rows: Vec<u32>,
    encoded: EncodedKeys,
}

/// Different encoded keys, each with its first row.
#[derive(Debug, Default)]
struct EncodedKeys {
    arena: Vec<u8>,
    /// By key: where it ends in the arena, and its first row.
    keys: Vec<(u32, u32)>,
    /// Positions of keys by their hashes.
    known: HashTable<u32>,
    repeated: Repeated,
}

impl HashIndexBuilder {
    /// An index over keys of `part_count` parts, of up to `row_count` rows.
    pub(crate) fn new(part_count: usize, row_count: usize) -> Self {
        Self {
            part_count,
            row_count,
            ints: Vec::new(),
            int_rows: Vec::new(),
            encoded: EncodedKeys::default(),
        }
    }

    /// Adds a row whose key has these parts. The rows of a key come in scan order.
    pub(crate) fn push(&mut self, row: usize, parts: &[Key<'_>]) -> Result<(), TooLarge> {
        assert_eq!(parts.len(), self.part_count, "a part a column");
        if row >= ROW_COUNT_MAX {
            return Err(TooLarge::Rows);
        }
        match parts {
            [Key::Int(key)] => {
                if self.ints.is_empty() {
                    self.ints.reserve_exact(self.row_count);
                }
                // Rows without gaps need no list.
                if !self.int_rows.is_empty() || row != self.ints.len() {
                    if self.int_rows.is_empty() {
                        self.int_rows.extend(0..self.ints.len() as u32);
                    }
                    self.int_rows.push(row as u32);
                }
                self.ints.push(*key);
                Ok(())
            }
            parts => self.encoded.push(row as u32, parts),
        }
    }

    /// The finished index.
    pub(crate) fn build(self) -> Result<HashIndex, TooLarge> {
        let mut lists = Lists::default();
        let rows = self.int_rows.iter().copied();
        let without_gaps = (self.ints.len() * usize::from(self.int_rows.is_empty())) as u32;
        let ints = self.ints.iter().copied().zip(rows.chain(0..without_gaps));
        if self.part_count > 1 || !self.encoded.keys.is_empty() {
            let mut encoded = self.encoded;
            for (key, row) in ints {
                encoded.push(row, &[Key::Int(key)])?;
            }
            return encoded.build();
        }
        let (table, key_count) = match dense_bounds(&self.ints) {
            Some((min, place_count)) => {
                let mut slots = vec![Slot::NONE; place_count].into_boxed_slice();
                let mut repeated = Repeated::new();
                for (key, row) in ints {
                    let place = (key as u64).wrapping_sub(min as u64) as usize;
                    match slots[place] {
                        Slot::NONE => slots[place] = Slot::one(row),
                        _ => repeated.push((place as u32, row)),
                    }
                }
                let key_count = self.ints.len() - repeated.len();
                for (place, slot) in lists.push_repeated(repeated, |it| slots[it as usize])? {
                    slots[place as usize] = slot;
                }
                (Table::Dense { min, slots }, key_count)
            }
            None => {
                let min = self.ints.iter().copied().min().unwrap_or_default();
                let max = self.ints.iter().copied().max().unwrap_or_default();
                let count = self.ints.len();
                if narrow(max, min).is_some() {
                    let keys = ints.map(|(key, row)| (narrow(key, min).unwrap_or_default(), row));
                    let hash = |key: &u32| hash_narrow(*key);
                    let (table, key_count) = open_table(keys, count, hash, &mut lists)?;
                    (Table::NarrowInts { min, table }, key_count)
                } else {
                    let hash = |key: &i64| hash_int(*key);
                    let (table, key_count) = open_table(ints, count, hash, &mut lists)?;
                    (Table::Ints(table), key_count)
                }
            }
        };
        Ok(HashIndex {
            table,
            lists,
            key_count,
        })
    }
}

/// A table of the keys of `count` rows, and the number of different keys.
fn open_table<K: Copy + Default + Eq>(
    keys: impl Iterator<Item = (K, u32)>,
    count: usize,
    hash: impl Fn(&K) -> u64,
    lists: &mut Lists,
) -> Result<(OpenTable<K>, usize), TooLarge> {
    let mut table = OpenTable::with_room_for(count);
    let mut repeated = Repeated::new();
    for (key, row) in keys {
        let is_key = |other: &K, _| *other == key;
        if let Err(place) = table.insert(hash(&key), key, Slot::one(row), is_key) {
            repeated.push((place, row));
        }
    }
    let key_count = count - repeated.len();
    for (place, slot) in lists.push_repeated(repeated, |it| table.slot_at(it))? {
        table.set_slot(place, slot);
    }
    Ok((table.shrunk(key_count, |key, _| hash(key)), key_count))
}

impl EncodedKeys {
    fn push(&mut self, row: u32, parts: &[Key<'_>]) -> Result<(), TooLarge> {
        let hash = hash_parts(parts);
        let (arena, keys) = (&self.arena, &self.keys);
        let known = self.known.find(hash, |&position| {
            is_encoded(parts, &arena[range(keys, position)])
        });
        if let Some(position) = known {
            self.repeated.push((*position, row));
            return Ok(());
        }
        encode(parts, &mut self.arena);
        let end = u32::try_from(self.arena.len()).map_err(|_| TooLarge::Keys)?;
        let position = self.keys.len() as u32;
        self.keys.push((end, row));
        let (arena, keys) = (&self.arena, &self.keys);
        self.known.insert_unique(hash, position, |&position| {
            hash_encoded(&arena[range(keys, position)])
        });
        Ok(())
    }

    fn build(self) -> Result<HashIndex, TooLarge> {
        let (arena, keys) = (self.arena.into_boxed_slice(), self.keys);
        drop(self.known);
        let mut slots: Vec<Slot> = keys.iter().map(|(_, row)| Slot::one(*row)).collect();
        let mut lists = Lists::default();
        for (position, slot) in lists.push_repeated(self.repeated, |it| slots[it as usize])? {
            slots[position as usize] = slot;
        }
        let mut table = OpenTable::with_room_for(keys.len());
        for (position, slot) in (0..).zip(slots) {
            let range = range(&keys, position);
            let hash = hash_encoded(&arena[range.clone()]);
            let key = EncodedKey {
                hash: upper(hash),
                start: range.start as u32,
                end: range.end as u32,
            };
            table.insert_new(hash, key, slot);
        }
        Ok(HashIndex {
            table: Table::Encoded(EncodedTable { keys: table, arena }),
            lists,
            key_count: keys.len(),
        })
    }
}

/// Where a key is in the arena.
fn range(keys: &[(u32, u32)], position: u32) -> Range<usize> {
    let position = position as usize;
    let start = match position {
        0 => 0,
        position => keys[position - 1].0,
    };
    start as usize..keys[position].0 as usize
}

/// [`hash_parts`] of an encoded key.
fn hash_encoded(mut encoded: &[u8]) -> u64 {
    let mut hash = 0_u64;
    while let Some((head, rest)) = encoded.split_first_chunk::<9>() {
        let word = u64::from_le_bytes(head[1..].try_into().expect("nine bytes less one"));
        let (part, size) = match head[0] {
            INT | REAL => (hash_int(word as i64), 0),
            _ => (hash_bytes(&rest[..word as usize]), word as usize),
        };
        hash = hash.rotate_left(5) ^ part;
        encoded = &rest[size..];
    }
    hash
}

/// The least key and the number of places of an array, if the keys are dense enough for one.
fn dense_bounds(keys: &[i64]) -> Option<(i64, usize)> {
    let (min, max) = (*keys.iter().min()?, *keys.iter().max()?);
    let span = (max as u64).wrapping_sub(min as u64);
    (span < keys.len() as u64 * DENSE_PLACES_PER_KEY_MAX).then(|| (min, span as usize + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[Vec<Key<'_>>], absent: &[Vec<Key<'_>>]) {
        let mut builder = HashIndexBuilder::new(keys.first().map_or(1, Vec::len), keys.len());
        for (row, key) in keys.iter().enumerate() {
            builder.push(row, key).unwrap();
        }
        let index = builder.build().unwrap();
        for key in keys.iter().chain(absent) {
            let expected: Vec<u32> = (0..keys.len() as u32)
                .filter(|row| keys[*row as usize] == *key)
                .collect();
            assert_eq!(index.rows(key).to_vec(), expected, "{key:?} in {keys:?}");
        }
        let int = |key: &Vec<Key<'_>>| match key.as_slice() {
            [Key::Int(int)] => Some(*int),
            _ => None,
        };
        let ints: Vec<i64> = keys.iter().chain(absent).filter_map(int).collect();
        let mut rows = vec![None; ints.len()];
        let blocks = ints.chunks(BLOCK_SIZE);
        for (keys, rows) in blocks.zip(rows.chunks_mut(BLOCK_SIZE)) {
            index.first_of_ints(keys, rows);
        }
        let first = |int: &i64| match index.has_int_keys() {
            true => index.rows(&[Key::Int(*int)]).to_vec().first().copied(),
            false => None,
        };
        let expected: Vec<Option<u32>> = ints.iter().map(first).collect();
        assert_eq!(rows, expected, "{ints:?} in {keys:?}");
    }

    #[test]
    fn keys_lead_to_their_rows() {
        let ints = |keys: &[i64]| -> Vec<Vec<Key<'static>>> {
            keys.iter().map(|key| vec![Key::Int(*key)]).collect()
        };
        let other = [
            vec![Key::Text(b"1")],
            vec![Key::Blob(b"1")],
            vec![Key::Real(1)],
            vec![Key::Text(b"")],
        ];
        let absent = [ints(&[-1, 0, 5, 9, i64::MIN, i64::MAX]), other.to_vec()].concat();
        check(&[], &absent);
        check(&ints(&[1, 2, 3, 3, 7]), &absent);
        check(&ints(&[i64::MAX, i64::MIN, 0, 0, 1 << 40]), &absent);
        check(&ints(&[i64::MAX, i64::MAX - 1]), &absent);
        let narrow = [-7, 70_000, 5_000_000, -7, i64::from(u32::MAX) - 7];
        check(&ints(&narrow), &absent);
        check(
            &ints(&narrow),
            &ints(&[-8, i64::from(u32::MAX) - 6, 1 << 32]),
        );
        check(
            &[ints(&[1, 2, 1]), other.to_vec(), other.to_vec()].concat(),
            &absent,
        );
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let (a, ab, b) = (Key::Text(b"a"), Key::Text(b"ab"), Key::Text(b"b"));
        let empty = Key::Text(b"");
        check(
            &[vec![a, b], vec![ab, empty], vec![a, b], vec![b, a]],
            &[vec![empty, ab], vec![a, a], vec![Key::Blob(b"a"), b]],
        );
        check(
            &[
                vec![Key::Int(1), Key::Int(2)],
                vec![Key::Int(2), Key::Int(1)],
            ],
            &[vec![Key::Int(1), Key::Int(1)]],
        );
    }

    #[test]
    fn random_keys() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let words: [&[u8]; 5] = [b"", b"a", b"aa", b"\0", b"a longer text than eight bytes"];
            let mut part = || match random.u8(0..4) {
                0 => Key::Int(random.i64(-3..4)),
                1 => Key::Real(random.u64(0..3)),
                2 => Key::Text(words[random.usize(0..5)]),
                _ => Key::Blob(words[random.usize(0..5)]),
            };
            let width = 1 + seed as usize % 3;
            let mut any = || -> Vec<Key<'_>> { (0..width).map(|_| part()).collect() };
            let keys: Vec<_> = (0..seed).map(|_| any()).collect();
            let absent: Vec<_> = (0..50).map(|_| any()).collect();
            check(&keys, &absent);
        }
    }
}
