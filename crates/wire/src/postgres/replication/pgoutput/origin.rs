//! Origin: where a replicated transaction comes from.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Origin`

use std::ffi::CStr;

use crate::error::ProtocolError;
use crate::postgres::replication::Lsn;
use crate::read::Reader;

/// The server that a transaction was replicated from. There can be several in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// Where the commit is in that server's log.
    pub commit_lsn: Lsn,
    /// The name of the origin.
    pub name: &'a CStr,
}

impl<'a> Origin<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let origin = Self {
            commit_lsn: Lsn(reader.u64_be()?),
            name: reader.c_str()?,
        };
        reader.finish()?;
        Ok(origin)
    }
}
