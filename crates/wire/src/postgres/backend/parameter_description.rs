//! ParameterDescription: the types of a statement's parameters.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>,
//! `ParameterDescription`

use std::fmt;

use crate::error::ProtocolError;
use crate::postgres::Oid;
use crate::read::Reader;

/// The types that the server assigned to a statement's parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ParameterDescription<'a>(&'a [[u8; 4]]);

impl<'a> ParameterDescription<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        // Unsigned: a statement has up to 65,535 parameters.
        let count = reader.u16_be()?;
        let (types, _) = reader.bytes(4 * usize::from(count))?.as_chunks();
        reader.finish()?;
        Ok(Self(types))
    }

    /// The type of each parameter.
    pub fn types(&self) -> impl ExactSizeIterator<Item = Oid> + 'a {
        self.0.iter().map(|&oid| Oid(u32::from_be_bytes(oid)))
    }
}

impl fmt::Debug for ParameterDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.types().map(|oid| oid.0))
            .finish()
    }
}
