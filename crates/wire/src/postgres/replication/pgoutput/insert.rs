//! Insert: a new row.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Insert`

use super::tuple::{Tuple, part};
use crate::error::ProtocolError;
use crate::postgres::Oid;
use crate::read::Reader;

/// A new row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The table, [`Relation::oid`](super::Relation::oid).
    pub relation: Oid,
    /// The row.
    pub new: Tuple<'a>,
}

impl<'a> Insert<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let relation = Oid(reader.u32_be()?);
        part(&mut reader, b"N")?;
        let new = Tuple::decode(&mut reader)?;
        reader.finish()?;
        Ok(Self { relation, new })
    }
}
