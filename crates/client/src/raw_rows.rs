//! Rows in the server's wire format, for callers that read each value once and keep none.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use lookaside_value::Value;

use crate::types::postgres::{Format, PgType};
use crate::{Error, Result};

/// Why the lengths in a row are valid.
const WALKED: &str = "the lengths were walked when the row came";

/// The rows of an answer, one after the other in one buffer, as they were received.
///
/// They are not converted to values: numbers are decoded and texts borrowed in place. See
/// [`Request::raw_rows`](crate::Request::raw_rows).
#[derive(Clone, PartialEq)]
pub struct RawRows {
    columns: Arc<[(PgType, Format)]>,
    /// For each value its length in four bytes, which is -1 for NULL, and its bytes.
    bytes: Vec<u8>,
    row_count: usize,
}

impl RawRows {
    /// Creates an empty set with capacity for `size` bytes.
    pub(crate) fn with_capacity(columns: Arc<[(PgType, Format)]>, size: usize) -> Self {
        Self {
            columns,
            bytes: Vec::with_capacity(size),
            row_count: 0,
        }
    }

    /// Appends the fields of a row, whose number and lengths have been checked.
    pub(crate) fn push(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
        self.row_count += 1;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// The size of all values in bytes, including four bytes for the length of each.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The rows in their order.
    pub fn iter(&self) -> RawIter<'_> {
        RawIter {
            columns: &self.columns,
            rest: &self.bytes,
            row_count: self.row_count,
        }
    }
}

impl<'r> IntoIterator for &'r RawRows {
    type Item = RawRow<'r>;
    type IntoIter = RawIter<'r>;

    fn into_iter(self) -> RawIter<'r> {
        self.iter()
    }
}

impl fmt::Debug for RawRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// The rows of [`RawRows`].
#[derive(Clone)]
pub struct RawIter<'r> {
    columns: &'r [(PgType, Format)],
    rest: &'r [u8],
    row_count: usize,
}

impl<'r> Iterator for RawIter<'r> {
    type Item = RawRow<'r>;

    fn next(&mut self) -> Option<RawRow<'r>> {
        self.row_count = self.row_count.checked_sub(1)?;
        let row = RawRow {
            columns: self.columns,
            rest: self.rest,
        };
        for _ in self.columns {
            take(&mut self.rest);
        }
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.row_count, Some(self.row_count))
    }
}

impl ExactSizeIterator for RawIter<'_> {}
impl FusedIterator for RawIter<'_> {}

/// One row; iterates over its fields.
#[derive(Clone)]
pub struct RawRow<'r> {
    columns: &'r [(PgType, Format)],
    /// It may be followed by other rows.
    rest: &'r [u8],
}

impl<'r> RawRow<'r> {
    /// All fields at once; `None` if there are not exactly `N`.
    pub fn fields<const N: usize>(mut self) -> Option<[RawField<'r>; N]> {
        if self.columns.len() != N {
            return None;
        }
        Some(std::array::from_fn(|_| {
            self.next().expect("there are so many columns")
        }))
    }
}

impl<'r> Iterator for RawRow<'r> {
    type Item = RawField<'r>;

    #[inline]
    fn next(&mut self) -> Option<RawField<'r>> {
        let (&(pg_type, format), columns) = self.columns.split_first()?;
        self.columns = columns;
        Some(RawField {
            pg_type,
            format,
            bytes: take(&mut self.rest),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.columns.len(), Some(self.columns.len()))
    }
}

impl ExactSizeIterator for RawRow<'_> {}
impl FusedIterator for RawRow<'_> {}

impl fmt::Debug for RawRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// Takes a length and a value of that length.
#[inline]
fn take<'r>(rest: &mut &'r [u8]) -> Option<&'r [u8]> {
    let (length, after) = rest.split_first_chunk().expect(WALKED);
    let Ok(size) = usize::try_from(i32::from_be_bytes(*length)) else {
        *rest = after;
        return None;
    };
    let (value, after) = after.split_at(size);
    *rest = after;
    Some(value)
}

/// One value as it was sent.
#[derive(Clone, Copy)]
pub struct RawField<'r> {
    pg_type: PgType,
    format: Format,
    bytes: Option<&'r [u8]>,
}

impl<'r> RawField<'r> {
    /// The type of its column.
    pub fn pg_type(self) -> PgType {
        self.pg_type
    }

    /// How it was sent.
    pub fn format(self) -> Format {
        self.format
    }

    /// Its bytes, unless it is NULL.
    pub fn bytes(self) -> Option<&'r [u8]> {
        self.bytes
    }

    /// The value as an integer of any size; `None` for NULL and for other types.
    #[inline]
    pub fn int(self) -> Option<i64> {
        match self.value() {
            Ok(Value::Int(int)) => Some(int),
            _ => None,
        }
    }

    /// The value as a boolean; `None` for NULL and for other types.
    #[inline]
    pub fn bool(self) -> Option<bool> {
        match self.value() {
            Ok(Value::Bool(bool)) => Some(bool),
            _ => None,
        }
    }

    /// The value as text, if its type is a text type or it was sent as text; `None` for NULL, for
    /// other types, and if it is not UTF-8.
    #[inline]
    pub fn text(self) -> Option<&'r str> {
        let is_text = self.format == Format::Text || self.pg_type.is_text();
        str::from_utf8(self.bytes.filter(|_| is_text)?).ok()
    }

    /// Decodes the value as in an answer that is not raw.
    ///
    /// # Errors
    ///
    /// When the bytes are not valid for the type.
    #[inline]
    pub fn value(self) -> Result<Value> {
        let Some(bytes) = self.bytes else {
            return Ok(Value::Null);
        };
        let decoded = self.pg_type.decode(self.format, bytes);
        decoded.map_err(|error| Error::bad_field(&self.pg_type.name(), error))
    }
}

impl fmt::Debug for RawField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.value()) {
            (_, Ok(value)) => value.fmt(f),
            (bytes, Err(_)) => write!(f, "\"{}\"", bytes.unwrap_or_default().escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT4: u32 = 23;
    const TEXT: u32 = 25;
    const NUMERIC: u32 = 1700;

    fn rows(columns: &[(u32, Format)], rows: &[&[Option<&[u8]>]]) -> RawRows {
        let columns = columns
            .iter()
            .map(|(oid, format)| (PgType::of(*oid), *format));
        let mut raw = RawRows::with_capacity(columns.collect(), 0);
        for row in rows {
            let mut fields = Vec::new();
            for field in *row {
                let length = field.map_or(-1, |field| field.len() as i32);
                fields.extend_from_slice(&length.to_be_bytes());
                fields.extend_from_slice(field.unwrap_or_default());
            }
            raw.push(&fields);
        }
        raw
    }

    #[test]
    fn values_are_read_where_they_lie() {
        let columns = [(INT4, Format::Binary), (TEXT, Format::Binary)];
        let one: [Option<&[u8]>; 2] = [Some(&[0, 0, 0, 7]), Some(b"seven")];
        let rows = rows(
            &columns,
            &[&one, &[None, None], &[Some(&[255; 4]), Some(b"")]],
        );
        assert_eq!((rows.len(), rows.iter().len()), (3, 3));
        let read: Vec<_> = rows
            .iter()
            .map(|row| {
                let [id, text] = row.fields().unwrap();
                (id.int(), text.text())
            })
            .collect();
        assert_eq!(
            read,
            [(Some(7), Some("seven")), (None, None), (Some(-1), Some(""))]
        );
        // Neither as another type, nor as another number of columns.
        let row = rows.iter().next().unwrap();
        assert!(row.clone().fields::<1>().is_none() && row.clone().fields::<3>().is_none());
        let [id, text] = row.fields().unwrap();
        assert_eq!((id.text(), text.int(), id.bool()), (None, None, None));
        assert_eq!(format!("{:?}", rows.iter().nth(1).unwrap()), "[Null, Null]");
    }

    #[test]
    fn bad_bytes_are_told() {
        let columns = [(INT4, Format::Binary), (TEXT, Format::Binary)];
        let rows = rows(&columns, &[&[Some(&[1, 2]), Some(b"\xff")]]);
        let [id, text] = rows.iter().next().unwrap().fields().unwrap();
        assert_eq!((id.int(), text.text()), (None, None));
        assert!(id.value().is_err());
        assert_eq!(text.value().unwrap(), Value::Bytes(b"\xff"[..].into()));
    }

    #[test]
    fn other_types_are_values() {
        let columns = [(INT4, Format::Text), (NUMERIC, Format::Text)];
        let rows = rows(&columns, &[&[Some(b"12"), Some(b"1.5")]]);
        let [int, numeric] = rows.iter().next().unwrap().fields().unwrap();
        assert_eq!((int.int(), int.text()), (Some(12), Some("12")));
        assert!(matches!(numeric.value().unwrap(), Value::Decimal(_)));
    }
}
