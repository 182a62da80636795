//! Begin: the start of a transaction.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Begin`

use crate::error::ProtocolError;
use crate::postgres::replication::{Lsn, Timestamp, Xid};
use crate::read::Reader;

/// The start of a transaction, which has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Where its commit is in the log, [`Commit::lsn`](super::Commit::lsn).
    pub final_lsn: Lsn,
    /// When it committed.
    pub commit_time: Timestamp,
    /// Its id.
    pub xid: Xid,
}

impl Begin {
    pub(super) fn decode(mut reader: Reader<'_>) -> Result<Self, ProtocolError> {
        let begin = Self {
            final_lsn: Lsn(reader.u64_be()?),
            commit_time: Timestamp(reader.i64_be()?),
            xid: Xid(reader.u32_be()?),
        };
        reader.finish()?;
        Ok(begin)
    }
}
