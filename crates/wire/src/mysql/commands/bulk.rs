//! MariaDB's COM_STMT_BULK_EXECUTE: runs a prepared statement with many rows of parameters.
//!
//! ```text
//!   fa  statement (4)  80 00  types (2 each)   ( 00 value | 01 NULL | 02 default | 03 as it is ) …
//! ```
//!
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/3-binary-protocol-prepared-statements/com_stmt_bulk_execute>

use super::request::on_statement;
use super::{ParameterType, command};
use crate::error::RequestError;
use crate::mysql::StatementId;
use crate::mysql::lenenc::{write_lenenc_bytes, write_lenenc_with};

const SEND_TYPES: u16 = 128;

/// Writes rows of parameters, each from its first parameter to its last.
pub struct BulkWriter<'a> {
    output: &'a mut Vec<u8>,
    count: usize,
}

impl BulkWriter<'_> {
    /// Writes NULL as the next parameter.
    pub fn null(&mut self) {
        self.indicator(1);
    }

    /// Writes the default of the column as the next parameter.
    pub fn default(&mut self) {
        self.indicator(2);
    }

    /// Leaves the column of the next parameter unchanged.
    pub fn ignore(&mut self) {
        self.indicator(3);
    }

    /// Writes a number of this many bytes, little-endian, as the next parameter.
    pub fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.indicator(0);
        self.output.extend_from_slice(&bytes);
    }

    /// Writes any other value as the next parameter: these bytes, prefixed with their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.indicator(0);
        write_lenenc_bytes(self.output, bytes);
    }

    /// Writes what `write` appends, prefixed with its length, as the next parameter.
    ///
    /// # Panics
    ///
    /// When `write` removes existing bytes.
    pub fn bytes_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.indicator(0);
        write_lenenc_with(self.output, write);
    }

    fn indicator(&mut self, indicator: u8) {
        self.count += 1;
        self.output.push(indicator);
    }
}

/// Writes the body.
pub(crate) fn bulk(
    output: &mut Vec<u8>,
    statement: StatementId,
    types: &[ParameterType],
    write: impl FnOnce(&mut BulkWriter<'_>),
) -> Result<(), RequestError> {
    if types.len() > usize::from(u16::MAX) {
        return Err(RequestError::TooMany);
    }
    on_statement(output, command::STMT_BULK_EXECUTE, statement);
    output.extend_from_slice(&SEND_TYPES.to_le_bytes());
    for one in types {
        one.encode(output);
    }
    let mut writer = BulkWriter { output, count: 0 };
    write(&mut writer);
    if writer.count > 0 && writer.count.is_multiple_of(types.len()) {
        Ok(())
    } else {
        Err(RequestError::ParameterCount)
    }
}
