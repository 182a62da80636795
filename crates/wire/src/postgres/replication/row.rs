//! The row that answers a replication command, as text.

use std::str::FromStr;

use crate::error::{ProtocolError, Reason};
use crate::postgres::{DataRow, Fields};

/// The values of a row, read from first to last. More columns than are read may follow, since
/// newer servers add some.
pub(super) struct RowReader<'a> {
    command: &'static str,
    fields: Fields<'a>,
    offset: usize,
}

impl<'a> RowReader<'a> {
    /// The row that answers this command.
    pub(super) fn new(command: &'static str, row: DataRow<'a>) -> Self {
        Self {
            command,
            fields: row.fields(),
            // The count of the columns.
            offset: 2,
        }
    }

    /// A text that may be NULL.
    pub(super) fn text(&mut self, column: &'static str) -> Result<Option<&'a str>, ProtocolError> {
        let error = self.error(column);
        let field = self.fields.next().ok_or(error)?;
        self.offset += 4 + field.map_or(0, <[u8]>::len);
        let text = field.map(std::str::from_utf8).transpose();
        text.map_err(|_| error)
    }

    /// A text that is not NULL.
    pub(super) fn required(&mut self, column: &'static str) -> Result<&'a str, ProtocolError> {
        let error = self.error(column);
        self.text(column)?.ok_or(error)
    }

    /// A value that is not NULL.
    pub(super) fn value<T: FromStr>(&mut self, column: &'static str) -> Result<T, ProtocolError> {
        let error = self.error(column);
        self.required(column)?.parse().map_err(|_| error)
    }

    /// The error if the next column is not as it should be.
    fn error(&self, column: &'static str) -> ProtocolError {
        ProtocolError::new(self.command, self.offset, Reason::ColumnValue(column))
    }
}
