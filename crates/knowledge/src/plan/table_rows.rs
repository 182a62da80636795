//! Reads the rows of tables, packed ones and those of SQLite.

use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use lookaside_value::{RowSetBuilder, Text, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::bool_words::BoolWords;
use super::reason::Reason;
use super::schema::Table;
use super::stored::StoredRows;
use crate::bind::value_of;
use crate::index::ROW_COUNT_MAX;
use crate::table::{
    KeyColumns, PackedRows, PackedTable, PackedTables, RowTooLarge, SegmentBuilder, TooManyRows,
};

/// The size limit of the packed copy of a table that SQLite has loaded, in bytes; SQLite answers for a
/// larger table.
const COPY_SIZE_MAX: usize = 4 << 30;

const TOO_LARGE: Reason = Reason::fixed("a copy of the table would be very large");

/// Texts up to this size are stored in the value itself; only longer ones are worth sharing.
const INLINE_TEXT_SIZE_MAX: usize = 23;

/// Columns whose values are read into an array.
const FEW: usize = 8;

/// How rows are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Numbering {
    /// In scan order.
    Scan,
    /// As in the packed table, if there is one, and by [`super::tables::TableCache::hash`].
    Packed,
}

/// Reads rows of the tables of one generation.
#[derive(Clone, Copy)]
pub(super) struct TableRows<'a> {
    /// Has the schema of all tables, and the rows of those that are not packed.
    pub(super) connection: &'a Connection,
    pub(super) packed: &'a PackedTables,
}

impl TableRows<'_> {
    /// Calls `visit` with the values of each row in these columns, in scan order, until it fails.
    pub(super) fn each(
        self,
        table: &Table,
        columns: &[usize],
        mut visit: impl FnMut(&[ValueRef<'_>]) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        if let Some(packed) = self.packed.get(&table.name) {
            return packed.each(&packed_columns(table, columns), visit);
        }
        let mut statement = self.connection.prepare(&table.scan_sql(columns))?;
        let mut scan = statement.query([])?;
        while let Some(row) = scan.next()? {
            match columns.len() {
                count @ ..=FEW => {
                    let mut values = [ValueRef::Null; FEW];
                    for (index, value) in values.iter_mut().take(count).enumerate() {
                        *value = row.get_ref(index)?;
                    }
                    visit(&values[..count])?;
                }
                count => {
                    let values = (0..count).map(|index| row.get_ref(index));
                    visit(&values.collect::<rusqlite::Result<Vec<_>>>()?)?;
                }
            }
        }
        Ok(())
    }

    /// The notation of the booleans of a column, by its first non-empty value.
    pub(super) fn bool_words(
        self,
        table: &Table,
        column: usize,
    ) -> Result<Option<BoolWords>, Reason> {
        const FOUND: Reason = Reason::fixed("a value is found");
        let mut words = None;
        let read = self.each(table, &[column], |values| match values[0] {
            ValueRef::Text(text) if !text.is_empty() => {
                words = Some(BoolWords::of(text));
                Err(FOUND)
            }
            _ => Ok(()),
        });
        match words {
            Some(words) => Ok(words),
            None => read.map(|()| None),
        }
    }

    /// How many rows a table has.
    pub(super) fn count(self, table: &Table) -> Result<usize, Reason> {
        if let Some(packed) = self.packed.get(&table.name) {
            return Ok(packed.row_count());
        }
        let sql = table.count_sql();
        let count: i64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The numbers of the rows in scan order, by which indexes and packed rows know them.
    pub(super) fn numbers(self, table: &Table) -> impl Iterator<Item = usize> {
        let packed = self.packed.get(&table.name);
        let scan = packed.map(|packed| packed.scan());
        let counted = if scan.is_none() {
            0..ROW_COUNT_MAX
        } else {
            0..0
        };
        scan.into_iter().flatten().chain(counted)
    }

    /// The rows of a table in these columns as values; `None` if they are too large. With
    /// [`Numbering::Packed`], there is a row for each number, also for those of removed rows.
    pub(super) fn values(
        self,
        table: &Table,
        columns: &[usize],
        names: &[Text],
        numbering: Numbering,
    ) -> Result<Option<StoredRows>, Reason> {
        let packed = self.packed.get(&table.name);
        let packed = packed.filter(|_| numbering == Numbering::Packed);
        let row_count = match packed {
            Some(packed) => packed.row_number_count(),
            None => self.count(table)?,
        };
        let size_max = self.packed.values_size_max();
        let mut size = row_count.saturating_mul(columns.len() * size_of::<Value>());
        if row_count > ROW_COUNT_MAX || size > size_max {
            return Ok(None);
        }
        let mut rows = RowSetBuilder::new(names.iter().cloned());
        rows.reserve(row_count);
        let mut texts: HashSet<Text, RandomState> = HashSet::default();
        let visit = |values: &[ValueRef<'_>]| {
            rows.push(values.iter().map(|value| {
                let value = match *value {
                    ValueRef::Text(bytes) if bytes.len() > INLINE_TEXT_SIZE_MAX => {
                        let text = String::from_utf8_lossy(bytes);
                        let text = texts.get_or_insert_with(&*text, |text| {
                            size += text.len();
                            text.into()
                        });
                        Value::Text(text.clone())
                    }
                    value => value_of(value),
                };
                if let Value::Bytes(bytes) = &value {
                    size += bytes.len();
                }
                value
            }));
            match size > size_max {
                true => Err(TOO_LARGE),
                false => Ok(()),
            }
        };
        let read = match packed {
            Some(packed) => packed.each_number(&packed_columns(table, columns), visit),
            None => self.each(table, columns, visit),
        };
        match read {
            Ok(()) => Ok(Some(StoredRows::Set(rows.build()))),
            Err(_) if size > size_max => Ok(None),
            Err(reason) => Err(reason),
        }
    }

    /// The keys in these columns, if the table is packed.
    pub(super) fn keys(self, table: &Table, columns: &[usize]) -> Option<Arc<KeyColumns>> {
        let packed = self.packed.get(&table.name)?;
        let columns = packed_columns(table, columns);
        Some(Arc::new(KeyColumns::new(Arc::clone(packed), &columns)))
    }

    /// A packed copy of a table that SQLite has loaded.
    pub(super) fn pack(self, table: &Table) -> Result<PackedTable, Reason> {
        let columns: Vec<usize> = (0..table.column_count()).collect();
        let (mut segments, mut size) = (Vec::new(), 0);
        let mut builder = SegmentBuilder::new(columns.len());
        self.each(table, &columns, |values| {
            let pushed = builder.push(values.iter().copied());
            pushed.map_err(|RowTooLarge| TOO_LARGE)?;
            if builder.is_full() {
                let segment = builder.build();
                size += segment.size();
                segments.push(Arc::new(segment));
            }
            match size > COPY_SIZE_MAX {
                true => Err(TOO_LARGE),
                false => Ok(()),
            }
        })?;
        segments.push(Arc::new(builder.build()));
        let row_id = table.row_id();
        let packed = PackedTable::new(segments, row_id, ROW_COUNT_MAX);
        packed.map_err(|TooManyRows| TOO_LARGE)
    }
}

impl StoredRows {
    /// The rows of a packed table in these columns.
    pub(super) fn packed(
        packed: &Arc<PackedTable>,
        table: &Table,
        columns: &[usize],
        names: Vec<Text>,
    ) -> Self {
        let columns = packed_columns(table, columns);
        Self::Packed(PackedRows::new(Arc::clone(packed), &columns, names))
    }
}

/// Positions in a packed table; the row id has none.
fn packed_columns(table: &Table, columns: &[usize]) -> Vec<Option<usize>> {
    let position = |column: &usize| (!table.is_rowid(*column)).then_some(*column);
    columns.iter().map(position).collect()
}
