//! A row, decoded in place in the receive buffer.
//!
//! ```text
//!   text     length value   fb (NULL)   length value   …
//!   binary   00   bits of the NULLs, from the third one   values, as wide as their type says …
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>

use std::fmt;
use std::iter::FusedIterator;

use super::Columns;
use crate::error::{ProtocolError, Reason};
use crate::mysql::types::Width;
use crate::read::Reader;

const NULL: u8 = 0xfb;

/// The encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// As text, in answers to a query.
    Text,
    /// According to the type, in answers to a prepared statement: numbers little-endian, dates as
    /// `year (2) month day [hour minute second [microsecond (4)]]`, times as `sign day (4) hour
    /// minute second [microsecond (4)]`, all other values as bytes.
    Binary,
}

/// A row; iterates over its values, of which `None` is NULL.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    columns: &'a Columns,
    format: RowFormat,
    /// The NULL bitmap of a binary row.
    nulls: &'a [u8],
    values: &'a [u8],
}

impl<'a> Row<'a> {
    /// Checks all values once, so that reading them cannot fail.
    pub(crate) fn decode(
        mut reader: Reader<'a>,
        columns: &'a Columns,
        format: RowFormat,
    ) -> Result<Self, ProtocolError> {
        let mut nulls = &[][..];
        if format == RowFormat::Binary {
            let before = reader;
            if reader.u8()? != 0 {
                return Err(before.error(Reason::Unexpected("in place of a row")));
            }
            nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
        }
        let values = reader.unread();
        match format {
            RowFormat::Text => {
                for _ in 0..columns.len() {
                    match reader.unread().first() {
                        Some(&NULL) => drop(reader.u8()?),
                        _ => drop(reader.lenenc_bytes()?),
                    }
                }
            }
            RowFormat::Binary => {
                // A row of numbers only is fully checked by its length.
                if columns.row_size() == Some(values.len()) && nulls.iter().all(|&byte| byte == 0) {
                    return Ok(Self {
                        columns,
                        format,
                        nulls,
                        values,
                    });
                }
                for (index, &width) in columns.widths().iter().enumerate() {
                    if !is_null(nulls, index) {
                        match width {
                            Width::Fixed(size) => reader.bytes(size.into())?,
                            Width::Prefixed => reader.lenenc_bytes()?,
                        };
                    }
                }
            }
        }
        reader.finish()?;
        Ok(Self {
            columns,
            format,
            nulls,
            values,
        })
    }

    /// How many values the row has.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether it has no values, which no server sends.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The columns of the values.
    pub fn columns(&self) -> &'a Columns {
        self.columns
    }

    /// The encoding of the values.
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// Its values from first to last.
    pub fn cells(&self) -> Cells<'a> {
        Cells {
            widths: self.columns.widths(),
            format: self.format,
            nulls: self.nulls,
            index: 0,
            rest: self.values,
        }
    }
}

fn is_null(nulls: &[u8], index: usize) -> bool {
    nulls[(index + 2) / 8] >> ((index + 2) % 8) & 1 != 0
}

impl<'a> IntoIterator for Row<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = Cells<'a>;

    fn into_iter(self) -> Cells<'a> {
        self.cells()
    }
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for cell in self.cells() {
            match cell {
                Some(value) => list.entry(&format_args!("\"{}\"", value.escape_ascii())),
                None => list.entry(&format_args!("NULL")),
            };
        }
        list.finish()
    }
}

/// The values of a row.
#[derive(Clone)]
pub struct Cells<'a> {
    widths: &'a [Width],
    format: RowFormat,
    nulls: &'a [u8],
    index: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Cells<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        const WALKED: &str = "the values were walked when the row was decoded";
        let &width = self.widths.get(self.index)?;
        let is_null = match self.format {
            RowFormat::Text => self.rest[0] == NULL,
            RowFormat::Binary => is_null(self.nulls, self.index),
        };
        self.index += 1;
        if is_null {
            if self.format == RowFormat::Text {
                self.rest = &self.rest[1..];
            }
            return Some(None);
        }
        let value = match (self.format, width) {
            (RowFormat::Binary, Width::Fixed(size)) => {
                let (value, rest) = self.rest.split_at(size.into());
                self.rest = rest;
                value
            }
            _ => {
                let mut reader = Reader::new("row", self.rest);
                let value = reader.lenenc_bytes().expect(WALKED);
                self.rest = reader.rest();
                value
            }
        };
        Some(Some(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.widths.len() - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Cells<'_> {}
impl FusedIterator for Cells<'_> {}
