//! Tables in a packed form: rows of fixed size, in segments.
//!
//! A lookup reads one row, so the values of a row are next to each other, as in a record of a file,
//! and not those of a column. Each segment of rows encodes each of its columns in as few bytes as its
//! own values need ([`encoding`]): integers as differences from the least, text as a code of a
//! dictionary, within the row or in a heap. A [`Value`] is made when it is answered.
//!
//! Rows are numbered in the scan order of the table, except for those that a reload has added: see
//! [`changes`]. The module does not depend on SQL: values come and
//! go as SQLite's storage classes.

mod builder;
mod changes;
mod encoding;
mod key_columns;
mod packed_tables;
mod segment;
mod serialize;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use lookaside_value::{Text, Value};
use rusqlite::types::ValueRef;

pub(crate) use self::builder::{RowTooLarge, SegmentBuilder};
use self::changes::Changes;
pub(crate) use self::changes::Scan;
pub(crate) use self::key_columns::KeyColumns;
pub(crate) use self::packed_tables::{PackedTables, UniqueIndex};
use self::segment::Row;
use self::segment::SEGMENT_ROW_COUNT_MAX;
pub(crate) use self::segment::Segment;
use crate::index::BLOCK_SIZE;

/// The rows of one table. They never change.
#[derive(Debug)]
pub(crate) struct PackedTable {
    segments: Box<[Arc<Segment>]>,
    /// The number of the first row of each segment, and at the end the number of rows.
    starts: Box<[u32]>,
    /// For each [`BUCKET_SIZE`] rows, the segment of the first of them.
    buckets: Box<[u32]>,
    /// The column of the row ids; `None` if they count from 1.
    row_id: Option<usize>,
    /// What differs from the base, if the table shares segments with one.
    changes: Option<Box<Changes>>,
}

/// Rows of a bucket, by which the segment of a row is found. Most segments have more rows, so the next
/// segment is rarely needed.
const BUCKET_SIZE: usize = 1 << BUCKET_SIZE_BITS;
const BUCKET_SIZE_BITS: u32 = 12;

/// A table has too many rows for the numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRows;

impl PackedTable {
    /// A table of segments, in the order of their rows, with the column of the row ids, unless they count
    /// from 1.
    pub(crate) fn new(
        segments: impl IntoIterator<Item = Arc<Segment>>,
        row_id: Option<usize>,
        row_count_max: usize,
    ) -> Result<Self, TooManyRows> {
        let segments: Box<[Arc<Segment>]> = segments
            .into_iter()
            .filter(|segment| segment.row_count() > 0)
            .collect();
        let (mut starts, mut buckets) = (vec![0], Vec::new());
        let mut row_count = 0;
        for (index, segment) in segments.iter().enumerate() {
            row_count += segment.row_count();
            if row_count > row_count_max {
                return Err(TooManyRows);
            }
            starts.push(u32::try_from(row_count).map_err(|_| TooManyRows)?);
            buckets.resize(row_count.div_ceil(BUCKET_SIZE), index as u32);
        }
        Ok(Self {
            segments,
            starts: starts.into(),
            buckets: buckets.into(),
            row_id,
            changes: None,
        })
    }

    /// A table with these rows of the base of this table, in ascending order, and with added rows, each
    /// before the row of the base with the number in `places`, which ascend.
    pub(crate) fn changed(
        &self,
        kept: &[Range<u32>],
        added: impl IntoIterator<Item = Segment>,
        places: Vec<u32>,
        row_count_max: usize,
    ) -> Result<Self, TooManyRows> {
        let base = self.base_segments();
        let segments = base.iter().cloned();
        let added = added.into_iter().map(Arc::new);
        let mut table = Self::new(segments.chain(added), self.row_id, row_count_max)?;
        let changes = Changes::new(base.len(), self.base_row_count(), kept, places);
        table.changes = Some(Box::new(changes));
        Ok(table)
    }

    /// The segments that a changed table shares with other tables: those of its base; all if the table is
    /// not changed.
    fn base_segments(&self) -> &[Arc<Segment>] {
        match &self.changes {
            Some(changes) => &self.segments[..changes.base_segment_count],
            None => &self.segments,
        }
    }

    /// How many rows the base has. Those with greater numbers are added.
    pub(crate) fn base_row_count(&self) -> usize {
        match &self.changes {
            Some(changes) => changes.base_row_count,
            None => self.row_count(),
        }
    }

    /// The base with all of its rows, which have the same numbers in this table.
    pub(crate) fn base(&self) -> Self {
        let segments = self.base_segments().iter().cloned();
        Self::new(segments, self.row_id, self.base_row_count()).expect("the base has as many rows")
    }

    /// Whether rows are removed from a base and added to it, so that numbers of rows are not in scan order.
    pub(crate) fn is_changed(&self) -> bool {
        self.changes.is_some()
    }

    /// How many rows of the base are removed, and how many are added.
    pub(crate) fn change_counts(&self) -> (usize, usize) {
        let changes = self.changes.as_ref();
        changes.map_or((0, 0), |it| (it.removed_count(), it.added_count()))
    }

    /// The removed rows of the base.
    pub(crate) fn removed(&self) -> impl Iterator<Item = usize> {
        self.changes.iter().flat_map(|it| it.removed())
    }

    /// Whether there is a row with this number.
    pub(crate) fn has_row(&self, row: usize) -> bool {
        let is_removed = |changes: &Changes| changes.is_removed(row);
        row < self.row_number_count() && !self.changes.as_deref().is_some_and(is_removed)
    }

    /// The numbers of the rows in scan order.
    pub(crate) fn scan(&self) -> Scan<'_> {
        match &self.changes {
            Some(changes) => Scan::with_changes(changes),
            None => Scan::new(self.row_count()),
        }
    }

    /// How many rows are before this one in the scan order.
    #[inline]
    pub(crate) fn rank(&self, row: usize) -> usize {
        match &self.changes {
            Some(changes) => changes.rank(row),
            None => row,
        }
    }

    /// Whether the rows have the same values in these columns as those of another table, one by one. A
    /// column beyond those of the table is the row id.
    pub(crate) fn has_columns_of(&self, other: &Self, columns: &[usize]) -> bool {
        let is_same_row = |row: usize| {
            let (row, other) = (self.row(row), other.row(row));
            let is_stored = |column: &usize| *column < row.column_count();
            // Row ids that are not stored are the numbers of the rows.
            let stored = |column: usize| Some(column).filter(is_stored).or(self.row_id);
            let mut stored = columns.iter().filter_map(|column| stored(*column));
            stored.all(|it| row.value_ref(it) == other.value_ref(it))
        };
        // The position of the row id depends on the number of columns.
        self.column_count() == other.column_count()
            && !self.is_changed()
            && !other.is_changed()
            && self.row_count() == other.row_count()
            && self.row_id == other.row_id
            && (0..self.row_count()).all(is_same_row)
    }

    /// Whether a row has this value in a column.
    #[inline]
    pub(crate) fn has_value(&self, row: usize, column: usize, value: ValueRef<'_>) -> bool {
        self.value_ref(row, column) == value
    }

    /// The same rows, numbered in the scan order; `None` if they do not fit.
    pub(crate) fn in_scan_order(&self) -> Option<Self> {
        let segments = self.packed_again(self.scan())?.into_iter().map(Arc::new);
        Self::new(segments, self.row_id, self.row_count()).ok()
    }

    /// The rows in ascending order of an integer column, which becomes the row id; `None` if two rows have
    /// the same integer, or one has another value.
    pub(crate) fn sorted_by_row_id(self, column: usize, thread_count: usize) -> Option<Self> {
        let mut order: Vec<(i64, u32)> = Vec::with_capacity(self.row_count());
        let mut row = 0;
        let read = self.each(&[Some(column)], |values| match values[0] {
            ValueRef::Integer(int) => {
                order.push((int, row));
                row += 1;
                Ok(())
            }
            _ => Err(()),
        });
        read.ok()?;
        order.sort_unstable();
        if order.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let part_size = order.len().div_ceil(thread_count.max(1)).max(1);
        let pack =
            |rows: &[(i64, u32)]| self.packed_again(rows.iter().map(|(_, row)| *row as usize));
        let parts = thread::scope(|scope| {
            let parts = order.chunks(part_size);
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || pack(part))).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"));
            joined.collect::<Option<Vec<Vec<Segment>>>>()
        })?;
        let segments = parts.into_iter().flatten().map(Arc::new);
        Self::new(segments, Some(column), self.row_count()).ok()
    }

    /// Segments of these rows in this order; `None` if they do not fit.
    fn packed_again(&self, rows: impl Iterator<Item = usize>) -> Option<Vec<Segment>> {
        let mut builder = SegmentBuilder::new(self.column_count());
        let mut segments = Vec::new();
        for row in rows {
            self.push_to(&mut builder, row).ok()?;
            if builder.is_full() {
                segments.push(builder.build());
            }
        }
        segments.push(builder.build());
        Some(segments)
    }

    /// The number of columns; 0 if there are no rows.
    pub(crate) fn column_count(&self) -> usize {
        self.segments.first().map_or(0, |it| it.column_count())
    }

    /// The number of [`Self::scan_segment`]s.
    pub(crate) fn scan_segment_count(&self) -> usize {
        match &self.changes {
            Some(changes) => changes.row_count().div_ceil(SEGMENT_ROW_COUNT_MAX),
            None => self.segments.len(),
        }
    }

    /// A part of the rows in scan order, which is packed again if the table is changed; `None` if it does not
    /// fit.
    pub(crate) fn scan_segment(&self, index: usize) -> Option<Arc<Segment>> {
        if !self.is_changed() {
            return Some(Arc::clone(&self.segments[index]));
        }
        let rows = self.scan().skip_to(index * SEGMENT_ROW_COUNT_MAX);
        let mut builder = SegmentBuilder::new(self.column_count());
        for row in rows.take(SEGMENT_ROW_COUNT_MAX) {
            self.push_to(&mut builder, row).ok()?;
        }
        Some(Arc::new(builder.build()))
    }

    fn push_to(&self, builder: &mut SegmentBuilder, row: usize) -> Result<(), RowTooLarge> {
        let row = self.row(row);
        builder.push((0..row.column_count()).map(|column| row.value_ref(column)))
    }

    /// The column of the row ids; `None` if they count from 1.
    pub(crate) fn row_id(&self) -> Option<usize> {
        self.row_id
    }

    /// How many rows there are.
    pub(crate) fn row_count(&self) -> usize {
        match &self.changes {
            Some(changes) => changes.row_count(),
            None => self.row_number_count(),
        }
    }

    /// The greatest number of a row plus one. A table with changes has removed rows below it.
    pub(crate) fn row_number_count(&self) -> usize {
        self.starts[self.segments.len()] as usize
    }

    /// The size in bytes, with that of removed rows.
    pub(crate) fn size(&self) -> usize {
        let segments: usize = self.segments.iter().map(|segment| segment.size()).sum();
        segments + self.changes.as_ref().map_or(0, |changes| changes.size())
    }

    /// A row.
    ///
    /// # Panics
    /// When the table does not have the row.
    #[inline]
    fn row(&self, row: usize) -> Row<'_> {
        let mut index = self.buckets[row >> BUCKET_SIZE_BITS] as usize;
        while row >= self.starts[index + 1] as usize {
            index += 1;
        }
        self.segments[index].row(row - self.starts[index] as usize)
    }

    /// Appends the values of a row in these columns, in their order. A column without a position is the
    /// number of the row, from 1.
    #[inline]
    fn push_values(&self, row: usize, columns: &[Option<usize>], values: &mut Vec<Value>) {
        self.push_row(row, self.row(row), columns, values);
    }

    #[inline]
    fn push_row(
        &self,
        number: usize,
        row: Row<'_>,
        columns: &[Option<usize>],
        values: &mut Vec<Value>,
    ) {
        values.extend(columns.iter().map(|column| match column {
            Some(column) => row.value(*column),
            None => Value::Int(self.rank(number) as i64 + 1),
        }));
    }

    /// The columns, where a row id that is stored has its position.
    fn stored(&self, columns: &[Option<usize>]) -> Vec<Option<usize>> {
        columns
            .iter()
            .map(|column| column.or(self.row_id))
            .collect()
    }

    /// As [`Self::push_values`], for each of up to [`BLOCK_SIZE`] rows. The cache lines of their first and last
    /// bytes are loaded before: loads of several rows overlap, whereas a row that is read in full waits for its
    /// own.
    fn push_each(&self, rows: &[Option<u32>], columns: &[Option<usize>], values: &mut Vec<Value>) {
        let mut found = [None; BLOCK_SIZE];
        for (number, row) in rows.iter().flatten().zip(&mut found) {
            *row = Some(self.row(*number as usize));
        }
        // Without other work in between, so that as many loads as possible overlap.
        let loaded = found.iter().map_while(|row| row.map(Row::touch));
        black_box(loaded.fold(0, |all, bytes| all ^ bytes));
        for (number, row) in rows.iter().flatten().zip(found.iter().flatten()) {
            self.push_row(*number as usize, *row, columns, values);
        }
    }

    /// A value as SQLite stores it.
    ///
    /// # Panics
    /// When the table does not have the row or the column.
    #[inline]
    pub(crate) fn value_ref(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.row(row).value_ref(column)
    }

    /// As [`Self::each`], in the order of the numbers of the rows, with the removed ones.
    pub(crate) fn each_number<E>(
        &self,
        columns: &[Option<usize>],
        visit: impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_of(0..self.row_number_count(), columns, visit)
    }

    /// Calls `visit` with the values of each row in these columns, in scan order, until it fails. A column
    /// without a position is the row id.
    pub(crate) fn each<E>(
        &self,
        columns: &[Option<usize>],
        mut visit: impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_changed() {
            return self.each_of(self.scan(), columns, visit);
        }
        let columns = &*self.stored(columns);
        let mut values = Vec::with_capacity(columns.len());
        for (segment, start) in self.segments.iter().zip(&self.starts) {
            for at in 0..segment.row_count() {
                values.clear();
                values.extend(columns.iter().map(|column| match column {
                    Some(column) => segment.value_ref(at, *column),
                    None => ValueRef::Integer(i64::from(*start) + at as i64 + 1),
                }));
                visit(&values)?;
            }
        }
        Ok(())
    }

    fn each_of<E>(
        &self,
        numbers: impl Iterator<Item = usize>,
        columns: &[Option<usize>],
        mut visit: impl FnMut(&[ValueRef<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = &*self.stored(columns);
        let mut values = Vec::with_capacity(columns.len());
        for number in numbers {
            let row = self.row(number);
            values.clear();
            values.extend(columns.iter().map(|column| match column {
                Some(column) => row.value_ref(*column),
                None => ValueRef::Integer(self.rank(number) as i64 + 1),
            }));
            visit(&values)?;
        }
        Ok(())
    }
}

/// The rows of a table in the columns of one statement.
#[derive(Clone, Debug)]
pub(crate) struct PackedRows {
    table: Arc<PackedTable>,
    /// The positions of the columns; `None` is the number of the row, from 1.
    positions: Arc<[Option<usize>]>,
    /// The names that the statement gives them.
    names: Arc<[Text]>,
}

impl PackedRows {
    pub(crate) fn new(
        table: Arc<PackedTable>,
        columns: &[Option<usize>],
        names: impl IntoIterator<Item = Text>,
    ) -> Self {
        Self {
            positions: table.stored(columns).into(),
            table,
            names: names.into_iter().collect(),
        }
    }

    /// The names of the columns.
    pub(crate) fn columns(&self) -> &Arc<[Text]> {
        &self.names
    }

    /// Appends the values of a row.
    #[inline]
    pub(crate) fn push_values(&self, row: usize, values: &mut Vec<Value>) {
        self.table.push_values(row, &self.positions, values);
    }

    /// Appends the values of each of up to [`BLOCK_SIZE`] rows.
    pub(crate) fn push_each(&self, rows: &[Option<u32>], values: &mut Vec<Value>) {
        self.table.push_each(rows, &self.positions, values);
    }
}
