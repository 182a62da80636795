//! RowDescription: the columns of a result.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `RowDescription`

use std::ffi::CStr;
use std::fmt;
use std::iter::FusedIterator;

use crate::error::ProtocolError;
use crate::postgres::{Format, Oid};
use crate::read::Reader;

const MESSAGE: &str = "RowDescription";

/// The columns of a result; iterates over them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowDescription<'a> {
    count: u16,
    columns: &'a [u8],
}

/// A column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column<'a> {
    /// Its name or alias.
    pub name: &'a CStr,
    /// The table that it is a column of, if it is one.
    pub table: Option<Oid>,
    /// Its number in that table, from 1; system columns have negative ones.
    pub table_column: i16,
    /// Its type.
    pub type_oid: Oid,
    /// The size of a value, or a negative number if the size varies; `pg_type.typlen`.
    pub type_size: i16,
    /// The type modifier, as in `varchar(20)`; −1 if there is none.
    pub type_modifier: i32,
    /// The format of values. In a statement's description it is always `Text`, because Bind selects
    /// it later.
    pub format: Format,
}

impl<'a> RowDescription<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let count = reader.count_be()?;
        let columns = reader.unread();
        for _ in 0..count {
            Column::decode(&mut reader)?;
        }
        reader.finish()?;
        Ok(Self { count, columns })
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// Whether there are none, as for `SELECT FROM t`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The columns from first to last.
    pub fn columns(&self) -> Columns<'a> {
        Columns {
            count: self.count,
            reader: Reader::new(MESSAGE, self.columns),
        }
    }

    /// The columns as they were sent. Equal bytes mean equal columns, and comparing bytes is
    /// cheaper than decoding.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.columns
    }
}

impl<'a> Column<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        Ok(Self {
            name: reader.c_str()?,
            table: match reader.u32_be()? {
                0 => None,
                oid => Some(Oid(oid)),
            },
            table_column: reader.i16_be()?,
            type_oid: Oid(reader.u32_be()?),
            type_size: reader.i16_be()?,
            type_modifier: reader.i32_be()?,
            format: Format::decode(reader)?,
        })
    }
}

impl<'a> IntoIterator for RowDescription<'a> {
    type Item = Column<'a>;
    type IntoIter = Columns<'a>;

    fn into_iter(self) -> Columns<'a> {
        self.columns()
    }
}

impl fmt::Debug for RowDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for column in self.columns() {
            list.entry(&format_args!(
                "{:?} {} {:?}",
                column.name, column.type_oid.0, column.format
            ));
        }
        list.finish()
    }
}

/// The columns of a result.
#[derive(Clone)]
pub struct Columns<'a> {
    count: u16,
    reader: Reader<'a>,
}

impl<'a> Iterator for Columns<'a> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        self.count = self.count.checked_sub(1)?;
        let column = Column::decode(&mut self.reader);
        Some(column.expect("the columns were read when the message was decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count.into(), Some(self.count.into()))
    }
}

impl ExactSizeIterator for Columns<'_> {}
impl FusedIterator for Columns<'_> {}
