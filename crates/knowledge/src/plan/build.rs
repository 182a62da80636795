//! Builds an index from the key columns of a table.

use std::sync::Arc;

use rusqlite::types::ValueRef;

use super::reason::Reason;
use super::schema::Table;
use super::table_rows::TableRows;
use crate::bind::SqlValue;
use crate::functions::{self, Function, SqlOut};
use crate::index::{
    Bound, HashIndex, HashIndexBuilder, IntervalIndex, IntervalIndexBuilder, Key,
    KeyChangesBuilder, KeyIndex, ROW_COUNT_MAX, RowKeys, TooLarge,
};
use crate::table::{KeyColumns, PackedTable};

/// The most columns of a key; more are not used in practice, and the parts of a probe are on the
/// stack.
pub(crate) const KEY_COLUMN_COUNT_MAX: usize = 8;

/// A column of a key, or a function of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KeyPart {
    pub(super) column: usize,
    pub(super) function: Option<Function>,
}

/// Builds an index of the rows by the values of these columns.
pub(super) fn hash(
    rows: TableRows<'_>,
    table: &Table,
    parts: &[KeyPart],
) -> Result<HashIndex, Reason> {
    let columns: Vec<usize> = parts.iter().map(|part| part.column).collect();
    let mut builder = HashIndexBuilder::new(parts.len(), rows.count(table)?);
    let mut numbers = rows.numbers(table);
    let mut results = Results::new(parts);
    rows.each(table, &columns, |values| {
        let row = numbers.next().unwrap_or(ROW_COUNT_MAX);
        results.with_key(parts, |index| values[index], |key| builder.push(row, key))
    })?;
    Ok(builder.build()?)
}

/// Indexes of more rows compare texts with the rows, instead of a copy of each key. A lookup in a small table
/// takes up to half as long again without the copy; of a large one, it takes less.
const COPIED_KEYS_ROW_COUNT_MAX: usize = if cfg!(test) { 40 } else { 1 << 20 };

/// Builds an index of the rows of a packed table by these columns.
pub(crate) fn key_index(keys: Arc<KeyColumns>) -> Result<HashIndex, TooLarge> {
    let (row_count, part_count) = (keys.row_count(), keys.part_count());
    if row_count > COPIED_KEYS_ROW_COUNT_MAX && !keys.is_integer() {
        return HashIndex::of_rows(keys);
    }
    let mut builder = HashIndexBuilder::new(part_count, row_count);
    for row in 0..row_count {
        let parts = (0..part_count).map(|part| keys.part(row as u32, part));
        with_parts(parts, |key| builder.push(row, key))?;
    }
    builder.build()
}

/// The index of a table by columns in which it has the same values as an earlier one, whose index this is.
pub(crate) fn shared_index(
    index: &Arc<HashIndex>,
    earlier: &PackedTable,
    table: &Arc<PackedTable>,
    columns: &[usize],
) -> Option<Arc<HashIndex>> {
    if !table.has_columns_of(earlier, columns) {
        return None;
    }
    let is_stored = |column: &usize| *column < table.column_count();
    let positions = columns.iter().map(|it| Some(*it).filter(is_stored));
    let positions: Vec<Option<usize>> = positions.collect();
    let keys = KeyColumns::new(Arc::clone(table), &positions);
    // It would keep the earlier rows.
    let shared = index.with_keys(Arc::new(keys)).map(Arc::new);
    Some(shared.unwrap_or_else(|| Arc::clone(index)))
}

/// The index of a changed table by the values of these columns, none of which is a row id that is not
/// stored, from that of its base.
pub(super) fn changed_hash(
    table: &PackedTable,
    base: Arc<HashIndex>,
    parts: &[KeyPart],
) -> Result<KeyIndex, Reason> {
    let first_added = table.base_row_count();
    let mut builder = KeyChangesBuilder::new(base, parts.len(), first_added);
    let mut results = Results::new(parts);
    let value = |row: usize| move |index: usize| table.value_ref(row, parts[index].column);
    let added_count = table.change_counts().1;
    for row in table
        .removed()
        .chain(first_added..first_added + added_count)
    {
        results.with_key(parts, value(row), |key| {
            builder.add_key(key);
            Ok(())
        })?;
    }
    for row in table.scan() {
        if row >= first_added || builder.is_changed(row) {
            results.with_key(parts, value(row), |key| builder.push(row, key))?;
        }
    }
    Ok(builder.build()?)
}

/// As [`changed_hash`], for columns; `None` if the index would be too large.
pub(crate) fn changed_key_index(
    table: &PackedTable,
    base: &Arc<HashIndex>,
    columns: &[usize],
) -> Option<KeyIndex> {
    let parts: Vec<KeyPart> = columns.iter().copied().map(KeyPart::from).collect();
    changed_hash(table, Arc::clone(base), &parts).ok()
}

impl From<usize> for KeyPart {
    fn from(column: usize) -> Self {
        let function = None;
        Self { column, function }
    }
}

/// The results of the functions of one row's key.
struct Results(Vec<SqlOut>);

impl Results {
    fn new(parts: &[KeyPart]) -> Self {
        Self(parts.iter().map(|_| SqlOut::Null).collect())
    }

    /// Calls `work` with the key of a row, unless a part of it is NULL, which equals nothing. `value`
    /// returns the value of the column of a part.
    #[inline]
    fn with_key<'v>(
        &mut self,
        parts: &[KeyPart],
        value: impl Fn(usize) -> ValueRef<'v>,
        work: impl FnOnce(&[Key<'_>]) -> Result<(), TooLarge>,
    ) -> Result<(), Reason> {
        for (index, (part, result)) in parts.iter().zip(&mut self.0).enumerate() {
            if let Some(function) = part.function {
                *result = call(function, value(index))?;
            }
        }
        let keys = parts.iter().zip(&self.0).enumerate();
        let keys = keys.map(|(index, (part, result))| match part.function {
            Some(_) => Key::of(result.as_value_ref()),
            None => Key::of(value(index)),
        });
        Ok(with_parts(keys, work)?)
    }
}

/// Calls `work` with the key of these parts, unless one of them is NULL.
#[inline]
fn with_parts<'v>(
    parts: impl Iterator<Item = Option<Key<'v>>>,
    work: impl FnOnce(&[Key<'_>]) -> Result<(), TooLarge>,
) -> Result<(), TooLarge> {
    let (mut keys, mut count) = ([Key::Int(0); KEY_COLUMN_COUNT_MAX], 0);
    for (key, part) in keys.iter_mut().zip(parts) {
        let Some(part) = part else {
            return Ok(());
        };
        *key = part;
        count += 1;
    }
    work(&keys[..count])
}

/// Calls a function with the value of a row. An error is one of each query, which SQLite reports.
fn call(function: Function, value: ValueRef<'_>) -> Result<SqlOut, Reason> {
    let value = match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(int) => SqlValue::Int(int),
        ValueRef::Real(float) => SqlValue::Float(float),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => SqlValue::Text(text),
            Err(_) => return Err(Reason::fixed("a value is not UTF-8")),
        },
    };
    functions::call(function, &[value]).map_err(|error| Reason::new(format!("of a row, {error}")))
}

/// The columns and rules of an interval index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IntervalColumns {
    pub(super) low: (usize, Bound),
    pub(super) high: (usize, Bound),
    pub(super) rules: Rules,
}

/// How the bounds are compared with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rules {
    /// SQL's operators.
    Comparison,
    /// SQL's operators, over `ip_key` of the columns.
    IpKeys,
    /// The function `ip4_between`.
    Ip4Between,
}

/// An interval index and the kind of all its bounds.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) index: Arc<IntervalIndex>,
    pub(super) class: Class,
    /// The storage class of the stored lower bounds, by which `order by` sorts.
    pub(super) low: Stored,
}

/// The storage class of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// There are none.
    None,
    Int,
    Text,
    /// Another class, or several classes.
    Other,
}

impl Stored {
    fn with(self, value: ValueRef<'_>) -> Self {
        let stored = match value {
            ValueRef::Integer(_) => Self::Int,
            ValueRef::Text(_) => Self::Text,
            _ => Self::Other,
        };
        match self {
            Self::None => stored,
            known if known == stored => known,
            _ => Self::Other,
        }
    }
}

/// The storage class that all bounds share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// There are no bounds.
    None,
    Int,
    Text,
    Blob,
}

/// Builds an index of the rows by the intervals between two columns.
pub(super) fn interval(
    rows: TableRows<'_>,
    table: &Table,
    columns: IntervalColumns,
) -> Result<Interval, Reason> {
    let mut builder = IntervalIndexBuilder::default();
    let (mut class, mut stored) = (Class::None, Stored::None);
    let mut row_at = 0;
    rows.each(table, &[columns.low.0, columns.high.0], |values| {
        let (low, high) = (values[0], values[1]);
        stored = stored.with(low);
        let row_class = match columns.rules {
            Rules::Comparison => push_comparison(&mut builder, row_at, columns, low, high)?,
            Rules::IpKeys => push_ip_keys(&mut builder, row_at, columns, low, high)?,
            Rules::Ip4Between => push_ip4_between(&mut builder, row_at, low, high)?,
        };
        if class == Class::None {
            class = row_class;
        } else if row_class != Class::None && row_class != class {
            return Err(MIXED);
        }
        row_at += 1;
        Ok(())
    })?;
    Ok(Interval {
        index: Arc::new(builder.build()?),
        class,
        low: stored,
    })
}

const MIXED: Reason = Reason::fixed("the bounds are not all integers, all text or all blobs");

fn push_comparison(
    builder: &mut IntervalIndexBuilder,
    row: usize,
    columns: IntervalColumns,
    low: ValueRef<'_>,
    high: ValueRef<'_>,
) -> Result<Class, Reason> {
    let (low_bound, high_bound) = (columns.low.1, columns.high.1);
    match (low, high) {
        // No key compares with NULL, whatever the other bound is.
        (ValueRef::Null, _) | (_, ValueRef::Null) => Ok(Class::None),
        (ValueRef::Integer(low), ValueRef::Integer(high)) => {
            builder.push_ints(row, (low, low_bound), (high, high_bound));
            Ok(Class::Int)
        }
        (ValueRef::Text(low), ValueRef::Text(high)) => {
            builder.push_bytes(row, (low, low_bound), (high, high_bound));
            Ok(Class::Text)
        }
        (ValueRef::Blob(low), ValueRef::Blob(high)) => {
            builder.push_bytes(row, (low, low_bound), (high, high_bound));
            Ok(Class::Blob)
        }
        _ => Err(MIXED),
    }
}

/// `ip_key` returns NULL for text that is not an address, and such a bound compares with nothing.
/// For text that is not UTF-8 it is an error, which SQLite reports.
fn push_ip_keys(
    builder: &mut IntervalIndexBuilder,
    row: usize,
    columns: IntervalColumns,
    low: ValueRef<'_>,
    high: ValueRef<'_>,
) -> Result<Class, Reason> {
    let key = |value: ValueRef<'_>| match value {
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(functions::ip_key_of(text)),
            Err(_) => Err(Reason::fixed("a bound is not UTF-8")),
        },
        _ => Ok(None),
    };
    Ok(match (key(low)?, key(high)?) {
        (Some(low), Some(high)) => {
            builder.push_bytes(row, (&low, columns.low.1), (&high, columns.high.1));
            Class::Blob
        }
        _ => Class::None,
    })
}

/// The bounds of the function are integers or addresses in text. Other values follow special rules,
/// and NULL is an error, which SQLite reports.
fn push_ip4_between(
    builder: &mut IntervalIndexBuilder,
    row: usize,
    low: ValueRef<'_>,
    high: ValueRef<'_>,
) -> Result<Class, Reason> {
    let bound = |value: ValueRef<'_>| match value {
        ValueRef::Integer(int) => Some(int),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).ok()?;
            functions::ip4_bound_of(SqlValue::Text(text))
        }
        _ => None,
    };
    match (bound(low), bound(high)) {
        (Some(low), Some(high)) => {
            builder.push_ints(row, (low, Bound::Inclusive), (high, Bound::Inclusive));
            Ok(Class::Int)
        }
        _ => Err(Reason::fixed(
            "a bound is neither an integer nor an address",
        )),
    }
}
