//! The hash index, which finds the rows with exactly a given key.
//!
//! It has one of three layouts: a plain array for dense integer keys (such as a sequential primary
//! key), a table of integers for other single integer keys, and a table of encoded keys in one
//! arena for everything else, including keys of several columns.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::TooLarge;
use super::open::OpenTable;
use super::slots::{ListOrder, Lists, ROW_COUNT_MAX, Rows, Slot};

/// An array is used if it has at most this many places per key.
const DENSE_PLACES_PER_KEY_MAX: u64 = 4;

/// The hash needs no secret seed: the stored keys come from the owner of the tables only.
const HASHER: FixedState = FixedState::with_seed(0x6c6f_6f6b_6173_6964);

/// One column's part of a key. Two keys are the same if SQLite's `=` is true for them, which is
/// when they are equal here: numbers are already normalised, and NULL is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    /// An integer, or a real number that is one.
    Int(i64),
    /// The bits of any other real number.
    Real(u64),
    /// Text in UTF-8, as it is stored, valid or not.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

/// An immutable hash index.
#[derive(Debug)]
pub(crate) struct HashIndex {
    table: Table,
    lists: Lists,
    key_count: usize,
}

#[derive(Debug)]
enum Table {
    Dense { min: i64, slots: Box<[Slot]> },
    Ints(OpenTable<i64>),
    Encoded(EncodedTable),
}

#[derive(Debug)]
struct EncodedTable {
    keys: OpenTable<EncodedKey>,
    arena: Box<[u8]>,
}

/// `arena[start..end]` is the encoded key.
#[derive(Clone, Copy, Debug, Default)]
struct EncodedKey {
    /// The upper half of its hash, so that few other keys have to be compared in the arena.
    hash: u32,
    start: u32,
    end: u32,
}

impl HashIndex {
    /// The rows whose key has these parts; there must be as many parts as when the index was built.
    #[inline]
    pub(crate) fn rows(&self, parts: &[Key<'_>]) -> Rows<'_> {
        let slot = match (&self.table, parts) {
            (Table::Dense { min, slots }, [Key::Int(key)]) => {
                let place = (*key as u64).wrapping_sub(*min as u64);
                let slot = usize::try_from(place)
                    .ok()
                    .and_then(|place| slots.get(place));
                slot.copied().unwrap_or(Slot::NONE)
            }
            (Table::Ints(table), [Key::Int(key)]) => {
                table.slot(hash_int(*key), |other| other == key)
            }
            (Table::Dense { .. } | Table::Ints(_), _) => Slot::NONE,
            (Table::Encoded(table), parts) => table.slot(parts),
        };
        self.lists.rows(slot, ListOrder::Scan)
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

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.lists.size()
            + match &self.table {
                Table::Dense { slots, .. } => size_of_val(&**slots),
                Table::Ints(table) => table.size(),
                Table::Encoded(table) => table.keys.size() + table.arena.len(),
            }
    }
}

impl EncodedTable {
    #[inline]
    fn slot(&self, parts: &[Key<'_>]) -> Slot {
        let hash = hash_parts(parts);
        self.keys.slot(hash, |key| {
            key.hash == upper(hash)
                && is_encoded(parts, &self.arena[key.start as usize..key.end as usize])
        })
    }
}

#[inline]
pub(super) fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[inline]
fn hash_int(key: i64) -> u64 {
    HASHER.hash_one(key)
}

#[inline]
fn hash_parts(parts: &[Key<'_>]) -> u64 {
    // One part, the common case, is hashed in one go. The hash ignores the types of parts; the
    // comparison distinguishes them.
    let mut hash = 0_u64;
    for part in parts {
        let part = match part {
            Key::Int(int) => hash_int(*int),
            Key::Real(bits) => hash_int(*bits as i64),
            Key::Text(bytes) | Key::Blob(bytes) => hash_bytes(bytes),
        };
        hash = hash.rotate_left(5) ^ part;
    }
    hash
}

#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let mut hasher = HASHER.build_hasher();
    hasher.write(bytes);
    hasher.finish()
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
    /// Keys seen so far, as long as each is one integer; positions in `groups`.
    ints: HashTable<(i64, u32)>,
    /// All other keys: range in the arena, position in `groups`.
    encoded: HashTable<(u32, u32, u32)>,
    arena: Vec<u8>,
    /// How many rows each key has.
    groups: Vec<u32>,
    /// Each row with the position of its key.
    rows: Vec<(u32, u32)>,
}

impl HashIndexBuilder {
    /// An index over keys of `part_count` parts.
    pub(crate) fn new(part_count: usize) -> Self {
        Self {
            part_count,
            ints: HashTable::new(),
            encoded: HashTable::new(),
            arena: Vec::new(),
            groups: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a row whose key has these parts.
    pub(crate) fn push(&mut self, row: usize, parts: &[Key<'_>]) -> Result<(), TooLarge> {
        assert_eq!(parts.len(), self.part_count, "a part a column");
        if row >= ROW_COUNT_MAX {
            return Err(TooLarge::Rows);
        }
        let new_group = self.groups.len() as u32;
        let group = match parts {
            [Key::Int(key)] => {
                let entry = self.ints.entry(
                    hash_int(*key),
                    |(other, _)| other == key,
                    |(other, _)| hash_int(*other),
                );
                entry.or_insert((*key, new_group)).get().1
            }
            parts => self.group_of_encoded(parts, new_group)?,
        };
        if group == new_group {
            self.groups.push(0);
        }
        self.groups[group as usize] += 1;
        self.rows.push((row as u32, group));
        Ok(())
    }

    fn group_of_encoded(&mut self, parts: &[Key<'_>], new_group: u32) -> Result<u32, TooLarge> {
        let hash = hash_parts(parts);
        let arena = &self.arena;
        let known = self.encoded.find(hash, |&(start, end, _)| {
            is_encoded(parts, &arena[start as usize..end as usize])
        });
        if let Some((.., group)) = known {
            return Ok(*group);
        }
        let start = self.arena.len() as u32;
        encode(parts, &mut self.arena);
        let end = u32::try_from(self.arena.len()).map_err(|_| TooLarge::Keys)?;
        let arena = &self.arena;
        self.encoded
            .insert_unique(hash, (start, end, new_group), |&(start, end, _)| {
                hash_encoded(&arena[start as usize..end as usize])
            });
        Ok(new_group)
    }

    /// The finished index.
    pub(crate) fn build(self) -> Result<HashIndex, TooLarge> {
        let key_count = self.groups.len();
        let mut lists = Lists::default();
        let slots = group_slots(&self.groups, &self.rows, &mut lists)?;
        let slot_of = |group: u32| slots[group as usize];
        let table = if self.encoded.is_empty() && self.part_count == 1 {
            match dense_bounds(&self.ints) {
                Some((min, place_count)) => {
                    let mut places = vec![Slot::NONE; place_count];
                    for (key, group) in &self.ints {
                        places[(*key as u64).wrapping_sub(min as u64) as usize] = slot_of(*group);
                    }
                    Table::Dense {
                        min,
                        slots: places.into_boxed_slice(),
                    }
                }
                None => {
                    let entries: Vec<_> = self.ints.iter().collect();
                    let entries = entries
                        .into_iter()
                        .map(|&(key, group)| (hash_int(key), key, slot_of(group)));
                    Table::Ints(OpenTable::new(entries))
                }
            }
        } else {
            self.encoded_table(slot_of)?
        };
        Ok(HashIndex {
            table,
            lists,
            key_count,
        })
    }

    /// A table of all encoded keys, including the integers that were collected separately.
    fn encoded_table(mut self, slot_of: impl Fn(u32) -> Slot) -> Result<Table, TooLarge> {
        for (key, group) in &self.ints {
            let start = self.arena.len() as u32;
            encode(&[Key::Int(*key)], &mut self.arena);
            let end = u32::try_from(self.arena.len()).map_err(|_| TooLarge::Keys)?;
            let arena = &self.arena;
            self.encoded
                .insert_unique(hash_int(*key), (start, end, *group), |&(start, end, _)| {
                    hash_encoded(&arena[start as usize..end as usize])
                });
        }
        let arena = self.arena.into_boxed_slice();
        let entries: Vec<_> = self.encoded.iter().collect();
        let entries = entries.into_iter().map(|&(start, end, group)| {
            let hash = hash_encoded(&arena[start as usize..end as usize]);
            let key = EncodedKey {
                hash: upper(hash),
                start,
                end,
            };
            (hash, key, slot_of(group))
        });
        let keys = OpenTable::new(entries);
        Ok(Table::Encoded(EncodedTable { keys, arena }))
    }
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
fn dense_bounds(ints: &HashTable<(i64, u32)>) -> Option<(i64, usize)> {
    let keys = || ints.iter().map(|(key, _)| *key);
    let (min, max) = (keys().min()?, keys().max()?);
    let span = (max as u64).wrapping_sub(min as u64);
    (span < ints.len() as u64 * DENSE_PLACES_PER_KEY_MAX).then(|| (min, span as usize + 1))
}

/// The slot of each key.
fn group_slots(
    groups: &[u32],
    rows: &[(u32, u32)],
    lists: &mut Lists,
) -> Result<Vec<Slot>, TooLarge> {
    // Counting sort by key keeps the scan order within a key.
    let mut at = 0;
    let mut next: Vec<u32> = groups
        .iter()
        .map(|count| {
            let start = at;
            at += count;
            start
        })
        .collect();
    let mut sorted = vec![0_u32; rows.len()];
    for (row, group) in rows {
        let at = &mut next[*group as usize];
        sorted[*at as usize] = *row;
        *at += 1;
    }
    let mut rest = sorted.as_slice();
    groups
        .iter()
        .map(|count| {
            let (group, others) = rest.split_at(*count as usize);
            rest = others;
            lists.push(group)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[Vec<Key<'_>>], absent: &[Vec<Key<'_>>]) {
        let mut builder = HashIndexBuilder::new(keys.first().map_or(1, Vec::len));
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
