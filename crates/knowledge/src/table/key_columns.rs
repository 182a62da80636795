//! The key of each row of a packed table, for indexes that refer to the rows.

use std::sync::Arc;

use rusqlite::types::ValueRef;

use super::PackedTable;
use super::segment::Segment;
use crate::index::{Key, RowKeys};

/// The columns of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyColumns {
    table: Arc<PackedTable>,
    /// The positions of the columns; `None` is the number of the row, from 1.
    positions: Box<[Option<usize>]>,
}

impl<'a> Key<'a> {
    /// The key that equals a stored value; `None` for NULL, which equals nothing.
    #[inline]
    pub(crate) fn of(value: ValueRef<'a>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => return None,
            ValueRef::Integer(int) => Self::Int(int),
            ValueRef::Real(float) => Self::of_real(float),
            ValueRef::Text(bytes) => Self::Text(bytes),
            ValueRef::Blob(bytes) => Self::Blob(bytes),
        })
    }
}

impl KeyColumns {
    /// The key in these columns. A column without a position is the row id.
    pub(crate) fn new(table: Arc<PackedTable>, columns: &[Option<usize>]) -> Self {
        Self {
            positions: table.stored(columns).into(),
            table,
        }
    }

    /// Whether the key is one column, which has only integers and NULLs.
    pub(crate) fn is_integer(&self) -> bool {
        match *self.positions {
            [Some(column)] => {
                let is_integer = |segment: &Arc<Segment>| segment.is_integer(column);
                self.table.segments.iter().all(is_integer)
            }
            [None] => true,
            _ => false,
        }
    }
}

impl RowKeys for KeyColumns {
    fn row_count(&self) -> usize {
        self.table.row_count()
    }

    fn part_count(&self) -> usize {
        self.positions.len()
    }

    #[inline]
    fn part(&self, row: u32, part: usize) -> Option<Key<'_>> {
        match self.positions[part] {
            Some(column) => Key::of(self.table.value_ref(row as usize, column)),
            None => Some(Key::Int(i64::from(row) + 1)),
        }
    }
}
