//! Parse: prepares a statement.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `Parse`

use super::{count, message, text};
use crate::error::RequestError;
use crate::postgres::Oid;

/// A statement to prepare.
#[derive(Clone, Copy, Debug)]
pub struct Parse<'a> {
    /// Its name; the empty one is replaced by the next statement without a name.
    pub statement: &'a str,
    /// One SQL statement, with `$1`, `$2`, … for its parameters.
    pub sql: &'a str,
    /// The types of the first parameters; the server infers those that are [`Oid::UNSPECIFIED`] or
    /// not in the list.
    pub parameter_types: &'a [Oid],
}

impl Parse<'_> {
    pub(super) fn encode(&self, output: &mut Vec<u8>) -> Result<(), RequestError> {
        message(output, b'P', |output| {
            text(output, self.statement)?;
            text(output, self.sql)?;
            count(output, self.parameter_types.len())?;
            for oid in self.parameter_types {
                output.extend_from_slice(&oid.0.to_be_bytes());
            }
            Ok(())
        })
    }
}
