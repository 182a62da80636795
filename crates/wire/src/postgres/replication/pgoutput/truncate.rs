//! Truncate: tables that lost all their rows.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Truncate`

use std::fmt;

use crate::error::{ProtocolError, Reason};
use crate::postgres::Oid;
use crate::postgres::replication::flags::flags;
use crate::read::Reader;

const CASCADE: u8 = 1;
const RESTART_IDENTITY: u8 = 2;

/// Tables that lost all their rows by one command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Truncate<'a> {
    /// Whether tables that refer to these were truncated too. Those of the publication are among
    /// [`relations`](Self::relations).
    pub cascade: bool,
    /// Whether the sequences of their columns begin anew.
    pub restart_identity: bool,
    relations: &'a [[u8; 4]],
}

impl<'a> Truncate<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let before = reader;
        let count = reader.i32_be()?;
        let count =
            usize::try_from(count).map_err(|_| before.error(Reason::NegativeCount(count)))?;
        let flags = flags(&mut reader, CASCADE | RESTART_IDENTITY, "set of flags")?;
        let (oids, _) = reader.unread().as_chunks();
        let relations = oids
            .get(..count)
            .ok_or_else(|| reader.error(Reason::Truncated))?;
        reader.bytes(relations.as_flattened().len())?;
        reader.finish()?;
        Ok(Self {
            cascade: flags & CASCADE != 0,
            restart_identity: flags & RESTART_IDENTITY != 0,
            relations,
        })
    }

    /// The tables, [`Relation::oid`](super::Relation::oid).
    pub fn relations(&self) -> impl ExactSizeIterator<Item = Oid> + 'a {
        let oids = self.relations.iter();
        oids.map(|&oid| Oid(u32::from_be_bytes(oid)))
    }
}

impl fmt::Debug for Truncate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Relations<'a>(Truncate<'a>);
        impl fmt::Debug for Relations<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let oids = self.0.relations().map(|oid| oid.0);
                f.debug_list().entries(oids).finish()
            }
        }
        f.debug_struct("Truncate")
            .field("cascade", &self.cascade)
            .field("restart_identity", &self.restart_identity)
            .field("relations", &Relations(*self))
            .finish()
    }
}
