//! Borrowed rows of an answer.

use lookaside_value::{Row, RowSet, RowSetBuilder, Text, Value};

/// Borrowed rows of one answer.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    set: &'a RowSet,
    /// Positions in the set; `None` for all rows.
    picks: Option<&'a [usize]>,
}

impl<'a> Rows<'a> {
    /// A whole answer.
    pub(crate) fn whole(set: &'a RowSet) -> Self {
        Self { set, picks: None }
    }

    /// Some rows of a table.
    pub(crate) fn picked(set: &'a RowSet, picks: &'a [usize]) -> Self {
        Self {
            set,
            picks: Some(picks),
        }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &'a [Text] {
        self.set.columns()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.picks.map_or(self.set.len(), <[usize]>::len)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of one row.
    ///
    /// # Panics
    /// When there is no row `index`.
    pub fn row(&self, index: usize) -> &'a [Value] {
        self.set.row(self.picks.map_or(index, |picks| picks[index]))
    }

    /// The first row, as a value that keeps its set alive.
    pub(crate) fn first_shared(&self) -> Option<Row> {
        let index = match self.picks {
            Some(picks) => *picks.first()?,
            None => 0,
        };
        (index < self.set.len()).then(|| self.set.shared_row(index))
    }

    /// The rows in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [Value]> + use<'a> {
        let rows = *self;
        (0..rows.len()).map(move |index| rows.row(index))
    }

    /// The rows as a [`RowSet`]: shared if it is a whole answer, otherwise copied.
    pub fn to_row_set(&self) -> RowSet {
        if self.picks.is_none() {
            return self.set.clone();
        }
        let mut rows = RowSetBuilder::new(self.columns().iter().cloned());
        rows.reserve(self.len());
        for row in self.iter() {
            rows.push(row.iter().cloned());
        }
        rows.build()
    }
}
