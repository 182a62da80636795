//! COM_STMT_EXECUTE: runs a prepared statement.
//!
//! ```text
//!   17  statement (4)  cursor  01 00 00 00  bits of the NULLs  01  types (2 each)  values
//! ```
//!
//! The types are sent each time, although they could be left out if unchanged: a server that has
//! prepared the statement again would otherwise read the values with other types.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>

use super::command;
use super::request::on_statement;
use crate::error::RequestError;
use crate::mysql::lenenc::{write_lenenc_bytes, write_lenenc_with};
use crate::mysql::{ColumnType, StatementId};

/// The statement to run, and how its rows are returned.
#[derive(Clone, Copy, Debug)]
pub struct Execute {
    /// The statement.
    pub statement: StatementId,
    /// Whether the rows stay on the server in a cursor.
    pub cursor: Cursor,
}

/// How the rows of a result are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cursor {
    /// All rows are sent.
    #[default]
    None,
    /// The rows stay on the server until fetched, if a cursor can be opened for the statement.
    ReadOnly,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterType {
    /// The type, which determines the encoding of the value.
    pub column_type: ColumnType,
    /// Whether it is an unsigned number.
    pub is_unsigned: bool,
}

impl ParameterType {
    /// A signed number, or a value that is not a number.
    pub const fn new(column_type: ColumnType) -> Self {
        Self {
            column_type,
            is_unsigned: false,
        }
    }

    /// An unsigned number.
    pub const fn unsigned(column_type: ColumnType) -> Self {
        Self {
            column_type,
            is_unsigned: true,
        }
    }

    pub(super) fn encode(self, output: &mut Vec<u8>) {
        let flags = if self.is_unsigned { 0x80 } else { 0 };
        output.extend_from_slice(&[self.column_type.0, flags]);
    }
}

/// Writes the values of an [`Execute`], from the first parameter to the last. Each must be encoded
/// according to its type.
pub struct ParameterWriter<'a> {
    output: &'a mut Vec<u8>,
    nulls_start: usize,
    count: usize,
    count_max: usize,
}

impl ParameterWriter<'_> {
    /// Writes NULL as the next parameter.
    pub fn null(&mut self) {
        if self.count < self.count_max {
            self.output[self.nulls_start + self.count / 8] |= 1 << (self.count % 8);
        }
        self.count += 1;
    }

    /// Writes a number of this many bytes, little-endian, as the next parameter.
    pub fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.count += 1;
        self.output.extend_from_slice(&bytes);
    }

    /// Writes any other value, also a date or time, as the next parameter: these bytes, prefixed
    /// with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count += 1;
        write_lenenc_bytes(self.output, bytes);
    }

    /// Writes what `write` appends, prefixed with its length, as the next parameter.
    ///
    /// # Panics
    ///
    /// When `write` removes existing bytes.
    pub fn bytes_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.count += 1;
        write_lenenc_with(self.output, write);
    }
}

/// Writes the body.
pub(crate) fn execute(
    output: &mut Vec<u8>,
    execute: &Execute,
    types: &[ParameterType],
    write: impl FnOnce(&mut ParameterWriter<'_>),
) -> Result<(), RequestError> {
    if types.len() > usize::from(u16::MAX) {
        return Err(RequestError::TooMany);
    }
    on_statement(output, command::STMT_EXECUTE, execute.statement);
    output.push(match execute.cursor {
        Cursor::None => 0,
        Cursor::ReadOnly => 1,
    });
    output.extend_from_slice(&1_u32.to_le_bytes());
    let nulls_start = output.len();
    if !types.is_empty() {
        output.resize(nulls_start + types.len().div_ceil(8), 0);
        output.push(1);
        for one in types {
            one.encode(output);
        }
    }
    let mut writer = ParameterWriter {
        output,
        nulls_start,
        count: 0,
        count_max: types.len(),
    };
    write(&mut writer);
    if writer.count == types.len() {
        Ok(())
    } else {
        Err(RequestError::ParameterCount)
    }
}
