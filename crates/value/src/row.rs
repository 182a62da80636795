//! Rows of an answer, immutable and shared.

use std::fmt;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::{ColumnIndex, FromValue, RowError, Text, Value};

/// Rows of equal width with the names of their columns; a clone is one increment of a reference
/// counter.
///
/// The values of a row are contiguous, so reading a row touches one place in memory.
///
/// ```
/// use lookaside_value::{RowSetBuilder, Value};
///
/// let mut rows = RowSetBuilder::new(["asn", "org"]);
/// rows.push([Value::Int(64500), Value::from("Example")]);
/// let rows = rows.build();
/// assert_eq!(rows.row(0)[1], Value::from("Example"));
/// assert_eq!(rows.column_index("org"), Some(1));
/// ```
#[derive(Clone, PartialEq)]
pub struct RowSet(Arc<Rows>);

#[derive(PartialEq)]
struct Rows {
    columns: Arc<[Text]>,
    body: Body,
}

/// The values of a set.
#[derive(PartialEq)]
enum Body {
    /// One row of one value, the most frequent answer: it needs no separate allocation, and with
    /// the reference counters it fills one cache line.
    One(Value),
    Many {
        /// Row after row; its length is `row_count * columns.len()`.
        values: Box<[Value]>,
        /// Stored because rows without columns still count.
        row_count: usize,
    },
}

/// A cache line holds the rows and the two counters of an `Arc`.
const _: () = assert!(size_of::<Rows>() + 2 * size_of::<usize>() == 64);

impl RowSet {
    /// The names of the columns.
    pub fn columns(&self) -> &[Text] {
        &self.0.columns
    }

    /// The names of the columns, for another set with the same columns: a clone is one increment of
    /// a reference counter.
    pub fn shared_columns(&self) -> &Arc<[Text]> {
        &self.0.columns
    }

    /// The position of the column with this name; the comparison is case-sensitive.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.0
            .columns
            .iter()
            .position(|column| column.as_str() == name)
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0.body {
            Body::One(_) => 1,
            Body::Many { row_count, .. } => *row_count,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Row after row.
    #[inline]
    fn values(&self) -> &[Value] {
        match &self.0.body {
            Body::One(value) => slice::from_ref(value),
            Body::Many { values, .. } => values,
        }
    }

    /// The values of one row.
    ///
    /// # Panics
    /// When there is no row `index`.
    #[inline]
    pub fn row(&self, index: usize) -> &[Value] {
        assert!(index < self.len(), "row {index} of {}", self.len());
        let width = self.0.columns.len();
        &self.values()[index * width..(index + 1) * width]
    }

    /// The rows in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Calls `read` for each row and collects the results.
    ///
    /// ```
    /// use lookaside_value::{RowSetBuilder, Value};
    ///
    /// let mut rows = RowSetBuilder::new(["asn", "org"]);
    /// rows.push([Value::Int(64500), Value::Null]);
    /// let rows = rows.build();
    /// let read = rows.map(|row| Ok((row.get::<u32>("asn")?, row.get::<Option<&str>>(1)?)))?;
    /// assert_eq!(read, [(64500, None)]);
    /// let error = rows.map(|row| row.get::<&str>("asn")).unwrap_err();
    /// assert_eq!(error.to_string(), "row 0, column `asn`: this int is not a valid &str");
    /// # Ok::<(), lookaside_value::RowError>(())
    /// ```
    ///
    /// # Errors
    /// The first error that `read` returns.
    pub fn map<'r, T, E>(
        &'r self,
        read: impl FnMut(RowRef<'r>) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let rows = (0..self.len()).map(|index| RowRef { rows: self, index });
        rows.map(read).collect()
    }

    /// Deserializes the rows: structs by the names of the columns, tuples by their positions, a
    /// single column also as a plain value; NULL is `None`.
    ///
    /// ```
    /// use lookaside_value::{RowSetBuilder, Value};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Asn {
    ///     asn: u32,
    ///     org: Option<String>,
    /// }
    ///
    /// let mut rows = RowSetBuilder::new(["asn", "org"]);
    /// rows.push([Value::Int(64500), Value::from("Example")]);
    /// let rows: Vec<Asn> = rows.build().deserialize()?;
    /// assert_eq!((rows[0].asn, rows[0].org.as_deref()), (64500, Some("Example")));
    /// # Ok::<(), lookaside_value::RowError>(())
    /// ```
    ///
    /// # Errors
    /// When a row does not fit the type; the error names the row and the column.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<Vec<T>, RowError> {
        self.map(|row| row.deserialize())
    }

    /// The first row, kept alive by sharing the set.
    pub fn first(&self) -> Option<Row> {
        (!self.is_empty()).then(|| Row {
            rows: self.clone(),
            index: 0,
        })
    }

    /// One row, kept alive by sharing the set.
    ///
    /// # Panics
    /// When there is no row `index`.
    pub fn shared_row(&self, index: usize) -> Row {
        assert!(index < self.len(), "row {index} of {}", self.len());
        Row {
            rows: self.clone(),
            index,
        }
    }

    /// The same rows in a new allocation that is not shared yet: threads that clone the same set
    /// contend for its reference counter.
    pub fn to_unshared(&self) -> Self {
        let body = match &self.0.body {
            Body::One(value) => Body::One(value.clone()),
            Body::Many { values, row_count } => Body::Many {
                values: values.clone(),
                row_count: *row_count,
            },
        };
        Self(Arc::new(Rows {
            columns: Arc::clone(&self.0.columns),
            body,
        }))
    }

    /// The size on the heap in bytes, where shared text counts at each use: an estimate for cache
    /// bounds.
    pub fn heap_size(&self) -> usize {
        let values = self.values();
        let own = match &self.0.body {
            Body::One(_) => 0,
            Body::Many { values, .. } => size_of_val(&**values),
        };
        size_of::<Rows>()
            + size_of_val(&*self.0.columns)
            + own
            + values.iter().map(Value::heap_size).sum::<usize>()
    }
}

impl fmt::Debug for RowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The invariant that a row of another width breaks.
const WIDTH: &str = "a value a column";

/// Collects rows of equal width into a [`RowSet`].
#[derive(Debug)]
pub struct RowSetBuilder {
    columns: Arc<[Text]>,
    /// The only value so far; becomes [`Body::One`] if no other follows.
    one: Option<Value>,
    values: Vec<Value>,
    row_count: usize,
}

impl RowSetBuilder {
    /// A set without rows.
    pub fn new<C: Into<Text>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self::with_columns(columns.into_iter().map(Into::into).collect())
    }

    /// A set without rows, whose columns are shared with other sets.
    pub fn with_columns(columns: Arc<[Text]>) -> Self {
        Self {
            columns,
            one: None,
            values: Vec::new(),
            row_count: 0,
        }
    }

    /// Makes room for `row_count` more rows.
    pub fn reserve(&mut self, row_count: usize) {
        let value_count = row_count * self.columns.len();
        if value_count > 1 {
            self.values.reserve(value_count);
        }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// When the row does not have one value for each column.
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        let width = self.columns.len();
        if self.row_count == 0 && width == 1 {
            let mut row = row.into_iter();
            self.one = row.next();
            self.row_count = 1;
            assert!(self.one.is_some() && row.next().is_none(), "{WIDTH}");
            return;
        }
        if self.values.capacity() == 0 {
            // Most answers are one row, which then needs no reallocation when the set is built.
            self.values.reserve_exact(width);
        }
        self.values.extend(self.one.take());
        self.values.extend(row);
        self.row_count += 1;
        assert_eq!(self.values.len(), self.row_count * width, "{WIDTH}");
    }

    /// How many rows were pushed.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// Whether no row was pushed.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// The finished set.
    pub fn build(self) -> RowSet {
        let body = match self.one {
            Some(value) => Body::One(value),
            None => Body::Many {
                values: self.values.into_boxed_slice(),
                row_count: self.row_count,
            },
        };
        RowSet(Arc::new(Rows {
            columns: self.columns,
            body,
        }))
    }
}

/// One row of a borrowed set.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'r> {
    rows: &'r RowSet,
    index: usize,
}

impl<'r> RowRef<'r> {
    /// The names of the columns.
    pub fn columns(self) -> &'r [Text] {
        self.rows.columns()
    }

    /// The values from first to last.
    pub fn values(self) -> &'r [Value] {
        self.rows.row(self.index)
    }

    /// Reads the value in the column with this name, or at this position from 0, as a Rust type.
    ///
    /// # Errors
    /// When there is no such column, or its value does not fit.
    pub fn get<T: FromValue<'r>>(self, column: impl ColumnIndex) -> Result<T, RowError> {
        let Some(index) = column.index_in(self.columns()) else {
            return Err(RowError::no_column(&column, self.columns()).in_row(self.index));
        };
        let value = &self.values()[index];
        T::from_value(value).ok_or_else(|| {
            RowError::misfit(value.type_of(), std::any::type_name::<T>())
                .in_column(&self.columns()[index])
                .in_row(self.index)
        })
    }

    /// Deserializes the row, see [`RowSet::deserialize`].
    ///
    /// # Errors
    /// When it does not fit.
    pub fn deserialize<T: serde::Deserialize<'r>>(self) -> Result<T, RowError> {
        let row = crate::de::RowDeserializer {
            columns: self.columns(),
            values: self.values(),
        };
        T::deserialize(row).map_err(|error| error.in_row(self.index))
    }
}

/// One row that keeps its set alive: a reference and an index, not a copy.
#[derive(Clone)]
pub struct Row {
    rows: RowSet,
    index: usize,
}

impl Row {
    /// The names of the columns.
    pub fn columns(&self) -> &[Text] {
        self.rows.columns()
    }

    /// The row, borrowed, to be read as Rust types.
    pub fn as_ref(&self) -> RowRef<'_> {
        RowRef {
            rows: &self.rows,
            index: self.index,
        }
    }

    /// The value in the column with this name.
    pub fn value(&self, column: &str) -> Option<&Value> {
        self.rows.column_index(column).map(|index| &self[index])
    }
}

impl Deref for Row {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        self.rows.row(self.index)
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.columns() == other.columns() && self[..] == other[..]
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.columns().iter().zip(self.iter()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_outlives_its_set() {
        let mut rows = RowSetBuilder::new(["a", "b"]);
        rows.push([Value::Int(1), Value::Null]);
        rows.push([Value::Int(2), Value::from("x")]);
        let rows = rows.build();
        let row = rows.shared_row(1);
        assert_eq!(rows.len(), 2);
        drop(rows);
        assert_eq!(row.value("b"), Some(&Value::from("x")));
        assert_eq!(row.value("B"), None);
    }

    #[test]
    fn sets_share_their_columns() {
        let rows = RowSetBuilder::new(["a"]).build();
        let mut other = RowSetBuilder::with_columns(Arc::clone(rows.shared_columns()));
        other.push([Value::Int(1)]);
        let other = other.build();
        assert!(Arc::ptr_eq(rows.shared_columns(), other.shared_columns()));
        assert_eq!(other.column_index("a"), Some(0));
    }

    #[test]
    fn one_value_is_a_row_like_any_other() {
        let mut rows = RowSetBuilder::new(["a"]);
        rows.push([Value::from("x")]);
        let one = rows.build();
        assert_eq!((one.len(), one.row(0)), (1, &[Value::from("x")][..]));
        assert_eq!(one.to_unshared(), one);
        assert!(!std::ptr::eq(one.to_unshared().row(0), one.row(0)));
        let mut rows = RowSetBuilder::new(["a"]);
        rows.push([Value::from("x")]);
        rows.push([Value::from("x")]);
        assert_ne!(rows.build(), one);
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut rows = RowSetBuilder::new(Vec::<Text>::new());
        rows.push([]);
        rows.push([]);
        assert_eq!(rows.build().len(), 2);
    }

    #[test]
    #[should_panic(expected = "a value a column")]
    fn a_short_row_is_a_programming_error() {
        RowSetBuilder::new(["a", "b"]).push([Value::Null]);
    }
}
