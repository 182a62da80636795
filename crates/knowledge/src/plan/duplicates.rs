//! Keys of packed tables with several rows.

use rusqlite::types::{Value as Owned, ValueRef};

use super::build::KeyPart;
use super::key::{Converted, convert};
use super::one_row::OneRowKey;
use super::operand::Scratch;
use super::reason::Reason;
use super::tables::{TableCache, Tables};
use crate::bind::SqlValue;
use crate::index::Key;

/// Keys that have several rows.
#[derive(Clone, Debug)]
pub(crate) struct DuplicateKeys {
    /// How many of them there are.
    pub(crate) count: u64,
    /// The values of the first one, in the order of the columns.
    pub(crate) example: Vec<Owned>,
    /// How many rows it has.
    pub(crate) example_row_count: u64,
}

impl Tables {
    /// Whether the rows of a table are packed.
    pub(crate) fn is_packed(&self, table: &str) -> bool {
        self.with(|tables| tables.is_packed(table))
    }

    /// The keys of a packed table with several rows; `None` if there are none, or they cannot be counted.
    pub(crate) fn duplicate_keys(&self, key: &OneRowKey) -> Option<DuplicateKeys> {
        self.with(|tables| tables.duplicate_keys(key).ok().flatten())
    }
}

impl TableCache {
    /// The index is that of the plans of statements with this key.
    fn duplicate_keys(&mut self, key: &OneRowKey) -> Result<Option<DuplicateKeys>, Reason> {
        let table = self.table(&key.table)?;
        let packed = self.packed(&table)?;
        let position = |name: &String| {
            let position = table.position(name).filter(|it| !table.is_rowid(*it));
            position.ok_or(Reason::fixed("it has no such column"))
        };
        let columns: Vec<usize> = key.columns.iter().map(position).collect::<Result<_, _>>()?;
        let mut constants = Vec::new();
        for (name, value) in &key.constants {
            constants.push((position(name)?, value));
        }
        let parts = columns
            .iter()
            .chain(constants.iter().map(|(column, _)| column));
        let index = self.hash(&table, parts.copied().map(KeyPart::from).collect())?;
        let is_wanted = |row: u32| {
            constants.iter().all(|(column, constant)| {
                let affinity = table.column(*column).affinity;
                let mut scratch = Scratch::new();
                let constant = match constant {
                    Owned::Integer(int) => SqlValue::Int(*int),
                    Owned::Text(text) => SqlValue::Text(text),
                    _ => return false,
                };
                let constant = convert(constant, affinity, &mut scratch);
                let value = packed.value_ref(row as usize, *column);
                matches!(constant, Converted::Key(constant) if Key::of(value) == Some(constant))
            })
        };
        let rank = |row: u32| packed.rank(row as usize);
        let mut found: Option<(u32, DuplicateKeys)> = None;
        for rows in index.lists().filter(|rows| is_wanted(rows[0])) {
            let (first, found) = found.get_or_insert_with(|| {
                let keys = DuplicateKeys {
                    count: 0,
                    example: Vec::new(),
                    example_row_count: 0,
                };
                (u32::MAX, keys)
            });
            found.count += 1;
            if *first == u32::MAX || rank(rows[0]) < rank(*first) {
                *first = rows[0];
                found.example_row_count = rows.len() as u64;
            }
        }
        Ok(found.map(|(first, mut found)| {
            let values = columns
                .iter()
                .map(|it| packed.value_ref(first as usize, *it));
            found.example = values.map(owned).collect();
            found
        }))
    }
}

fn owned(value: ValueRef<'_>) -> Owned {
    match value {
        ValueRef::Null => Owned::Null,
        ValueRef::Integer(int) => Owned::Integer(int),
        ValueRef::Real(real) => Owned::Real(real),
        ValueRef::Text(text) => Owned::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Owned::Blob(bytes.to_vec()),
    }
}
