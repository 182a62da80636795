//! Commit: the end of a transaction.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Commit`

use crate::error::ProtocolError;
use crate::postgres::replication::flags::flags;
use crate::postgres::replication::{Lsn, Timestamp};
use crate::read::Reader;

/// The end of a transaction. Its flags are not used yet, and any that is set is an error, as it is
/// for a subscriber of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Where its commit is in the log. Transactions are sent in this order.
    pub lsn: Lsn,
    /// The end of its commit in the log: what to confirm by
    /// [`StandbyStatus`](crate::postgres::replication::StandbyStatus).
    pub end: Lsn,
    /// When it committed.
    pub time: Timestamp,
}

impl Commit {
    pub(super) fn decode(mut reader: Reader<'_>) -> Result<Self, ProtocolError> {
        flags(&mut reader, 0, "set of flags")?;
        let commit = Self {
            lsn: Lsn(reader.u64_be()?),
            end: Lsn(reader.u64_be()?),
            time: Timestamp(reader.i64_be()?),
        };
        reader.finish()?;
        Ok(commit)
    }
}
