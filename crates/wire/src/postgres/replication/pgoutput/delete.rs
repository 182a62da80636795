//! Delete: a deleted row.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Delete`

use super::tuple::{OldTuple, part};
use crate::error::ProtocolError;
use crate::postgres::Oid;
use crate::read::Reader;

/// A deleted row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The table, [`Relation::oid`](super::Relation::oid).
    pub relation: Oid,
    /// The key, or the whole row if the replica identity is full.
    pub old: OldTuple<'a>,
}

impl<'a> Delete<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let relation = Oid(reader.u32_be()?);
        let kind = part(&mut reader, b"KO")?;
        let old = OldTuple::decode(kind, &mut reader)?;
        reader.finish()?;
        Ok(Self { relation, old })
    }
}
