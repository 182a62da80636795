//! Hash indexes as bytes; `docs/COMPILED.md` has the layout.

use std::sync::Arc;

use super::hash::{EncodedKey, EncodedTable, HashIndex, Table};
use super::open::OpenTable;
use super::row_keys::{RowKeyTable, RowKeys};
use super::slots::{Lists, Slot};
use crate::le_bytes::{LeReader, Malformed};

/// The first byte of an index.
mod tag {
    pub(super) const DENSE: u8 = 0;
    pub(super) const INTS: u8 = 1;
    pub(super) const ENCODED: u8 = 2;
    pub(super) const NARROW_INTS: u8 = 3;
    pub(super) const ROWS: u8 = 4;
}

impl HashIndex {
    /// Appends the index.
    pub(crate) fn serialize(&self, out: &mut Vec<u8>) {
        out.reserve(self.size());
        self.lists.serialize(out);
        match self.table() {
            Table::Dense { min, slots } => {
                out.push(tag::DENSE);
                out.extend_from_slice(&min.to_le_bytes());
                out.extend_from_slice(&(slots.len() as u64).to_le_bytes());
                slots.iter().for_each(|slot| slot.serialize(out));
            }
            Table::NarrowInts { min, table } => {
                out.push(tag::NARROW_INTS);
                out.extend_from_slice(&min.to_le_bytes());
                table.serialize(out, |key, out| out.extend_from_slice(&key.to_le_bytes()));
            }
            Table::Ints(table) => {
                out.push(tag::INTS);
                table.serialize(out, |key, out| out.extend_from_slice(&key.to_le_bytes()));
            }
            Table::Encoded(table) => {
                out.push(tag::ENCODED);
                table.keys.serialize(out, |key, out| {
                    for part in [key.hash, key.start, key.end] {
                        out.extend_from_slice(&part.to_le_bytes());
                    }
                });
                out.extend_from_slice(&(table.arena.len() as u64).to_le_bytes());
                out.extend_from_slice(&table.arena);
            }
            Table::Rows(table) => {
                out.push(tag::ROWS);
                let put_key = |hash: &u32, out: &mut Vec<u8>| {
                    out.extend_from_slice(&hash.to_le_bytes());
                };
                table.places().serialize(out, put_key);
            }
        }
    }

    /// Reads an index of a table with these keys. What it returns can be searched without a panic, whatever
    /// the bytes are, and finds only rows of the table.
    pub(crate) fn deserialize(
        reader: &mut LeReader<'_>,
        keys: Arc<dyn RowKeys>,
    ) -> Result<Self, Malformed> {
        let row_count = keys.row_count();
        let (lists, starts) = Lists::deserialize(reader, row_count)?;
        let is_valid = |slot: Slot| match slot.list() {
            _ if slot == Slot::NONE => true,
            Some(start) => starts.binary_search(&start).is_ok(),
            None => slot.row().is_some_and(|row| (row as usize) < row_count),
        };
        let check = |are_valid: bool| match are_valid {
            true => Ok(()),
            false => Err(Malformed("a key refers to a row that does not exist")),
        };
        let (table, key_count) = match reader.u8()? {
            tag::DENSE => {
                let min = reader.i64()?;
                let count = reader.size()?;
                let bytes = reader.items(count, size_of::<u32>())?;
                let slots: Box<[Slot]> = bytes
                    .chunks_exact(size_of::<u32>())
                    .map(|slot| Slot::of_bits(u32_of(slot)))
                    .collect();
                check(slots.iter().all(|slot| is_valid(*slot)))?;
                let key_count = slots.iter().filter(|slot| **slot != Slot::NONE).count();
                (Table::Dense { min, slots }, key_count)
            }
            tag::NARROW_INTS => {
                let min = reader.i64()?;
                let table = OpenTable::deserialize(reader, size_of::<u32>(), u32_of)?;
                check(table.slots().all(is_valid))?;
                let key_count = table.slots().filter(|slot| *slot != Slot::NONE).count();
                (Table::NarrowInts { min, table }, key_count)
            }
            tag::INTS => {
                let read = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("8 bytes"));
                let table = OpenTable::deserialize(reader, size_of::<i64>(), read)?;
                check(table.slots().all(is_valid))?;
                let key_count = table.slots().filter(|slot| *slot != Slot::NONE).count();
                (Table::Ints(table), key_count)
            }
            tag::ENCODED => {
                let read = |bytes: &[u8]| EncodedKey {
                    hash: u32_of(&bytes[..4]),
                    start: u32_of(&bytes[4..8]),
                    end: u32_of(&bytes[8..12]),
                };
                let keys = OpenTable::deserialize(reader, 3 * size_of::<u32>(), read)?;
                check(keys.slots().all(is_valid))?;
                let key_count = keys.slots().filter(|slot| *slot != Slot::NONE).count();
                let size = reader.size()?;
                let arena: Box<[u8]> = reader.bytes(size)?.into();
                let is_within =
                    |key: &EncodedKey| key.start <= key.end && key.end as usize <= arena.len();
                if !keys.keys().all(is_within) {
                    return Err(Malformed("a key is not within its index"));
                }
                (Table::Encoded(EncodedTable { keys, arena }), key_count)
            }
            tag::ROWS => {
                let places = OpenTable::deserialize(reader, size_of::<u32>(), u32_of)?;
                check(places.slots().all(is_valid))?;
                let key_count = places.slots().filter(|slot| *slot != Slot::NONE).count();
                let table = RowKeyTable::of_places(places, keys);
                (Table::Rows(table), key_count)
            }
            _ => return Err(Malformed("a kind of index is unknown")),
        };
        Ok(Self::new(table, lists, key_count))
    }
}

impl Slot {
    fn serialize(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bits().to_le_bytes());
    }
}

impl<K: Copy + Default> OpenTable<K> {
    fn serialize(&self, out: &mut Vec<u8>, put_key: impl Fn(&K, &mut Vec<u8>)) {
        out.extend_from_slice(&(self.places().len() as u64).to_le_bytes());
        for (key, slot) in self.places() {
            put_key(key, out);
            slot.serialize(out);
        }
    }

    /// Reads places whose keys have `key_size` bytes.
    fn deserialize(
        reader: &mut LeReader<'_>,
        key_size: usize,
        key: impl Fn(&[u8]) -> K,
    ) -> Result<Self, Malformed> {
        let count = reader.size()?;
        let place_size = key_size + size_of::<u32>();
        let bytes = reader.items(count, place_size)?;
        let places = bytes.chunks_exact(place_size).map(|place| {
            let (head, slot) = place.split_at(key_size);
            (key(head), Slot::of_bits(u32_of(slot)))
        });
        let table = Self::of_places(places.collect());
        table.ok_or(Malformed("an index has no free place"))
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        self.places().iter().map(|(_, slot)| *slot)
    }

    fn keys(&self) -> impl Iterator<Item = &K> {
        self.places().iter().map(|(key, _)| key)
    }
}

impl Lists {
    fn serialize(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.words().len() as u64).to_le_bytes());
        for word in self.words() {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads lists, and returns them with the offset of each.
    fn deserialize(
        reader: &mut LeReader<'_>,
        row_count: usize,
    ) -> Result<(Self, Vec<u32>), Malformed> {
        const INVALID: Malformed = Malformed("a list of rows is invalid");
        let count = reader.size()?;
        let bytes = reader.items(count, size_of::<u32>())?;
        let words: Vec<u32> = bytes.chunks_exact(size_of::<u32>()).map(u32_of).collect();
        let (mut starts, mut at) = (Vec::new(), 0);
        while let Some(length) = words.get(at) {
            let end = at + 1 + *length as usize;
            let rows = words.get(at + 1..end).ok_or(INVALID)?;
            if rows.len() < 2 || rows.iter().any(|row| *row as usize >= row_count) {
                return Err(INVALID);
            }
            starts.push(at as u32);
            at = end;
        }
        Ok((Self::of_words(words).ok_or(INVALID)?, starts))
    }
}

/// The number in four bytes.
fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes"))
}
