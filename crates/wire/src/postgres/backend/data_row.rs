//! DataRow: the values of one row, decoded in place in the receive buffer.
//!
//! ```text
//!   ┌───────┬────────┬───────┬────────┬───────┬─
//!   │ count │ length │ value │ length │ value │ …     length −1: NULL, without a value
//!   │   2   │   4    │       │   4    │       │
//!   └───────┴────────┴───────┴────────┴───────┴─
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `DataRow`

use std::fmt;
use std::iter::FusedIterator;

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// A row; iterates over its values, of which `None` is NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DataRow<'a> {
    count: u16,
    fields: &'a [u8],
}

impl<'a> DataRow<'a> {
    /// Checks all lengths once, so that reading the fields cannot fail.
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let count = reader.count_be()?;
        let fields = reader.unread();
        for _ in 0..count {
            let before = reader;
            match reader.i32_be()? {
                -1 => {}
                length => {
                    let size = usize::try_from(length)
                        .map_err(|_| before.error(Reason::NegativeLength(length)))?;
                    reader.bytes(size)?;
                }
            }
        }
        reader.finish()?;
        Ok(Self { count, fields })
    }

    /// How many values the row has.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether it is a row without columns, as from `SELECT FROM t`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its values as they were sent, each prefixed with its length. All lengths are valid.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.fields
    }

    /// Its values from first to last.
    pub fn fields(&self) -> Fields<'a> {
        Fields {
            count: self.count,
            rest: self.fields,
        }
    }
}

impl<'a> IntoIterator for DataRow<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = Fields<'a>;

    fn into_iter(self) -> Fields<'a> {
        self.fields()
    }
}

impl fmt::Debug for DataRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for field in self.fields() {
            match field {
                Some(value) => list.entry(&format_args!("\"{}\"", value.escape_ascii())),
                None => list.entry(&format_args!("NULL")),
            };
        }
        list.finish()
    }
}

/// The values of a row.
#[derive(Clone)]
pub struct Fields<'a> {
    count: u16,
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let (length, rest) = self
            .rest
            .split_first_chunk::<4>()
            .expect("the lengths were walked when the row was decoded");
        let Ok(size) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.rest = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at(size);
        self.rest = rest;
        Some(Some(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count.into(), Some(self.count.into()))
    }
}

impl ExactSizeIterator for Fields<'_> {}
impl FusedIterator for Fields<'_> {}
