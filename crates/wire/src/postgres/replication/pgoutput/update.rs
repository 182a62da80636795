//! Update: a changed row.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Update`

use super::tuple::{OldTuple, Tuple, part};
use crate::error::ProtocolError;
use crate::postgres::Oid;
use crate::read::Reader;

/// A changed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// The table, [`Relation::oid`](super::Relation::oid).
    pub relation: Oid,
    /// The row before: the key if the update changed it, and the whole row if the replica identity
    /// is full.
    pub old: Option<OldTuple<'a>>,
    /// The row.
    pub new: Tuple<'a>,
}

impl<'a> Update<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let relation = Oid(reader.u32_be()?);
        let old = match part(&mut reader, b"KON")? {
            b'N' => None,
            kind => {
                let old = OldTuple::decode(kind, &mut reader)?;
                part(&mut reader, b"N")?;
                Some(old)
            }
        };
        let new = Tuple::decode(&mut reader)?;
        reader.finish()?;
        Ok(Self { relation, old, new })
    }
}
