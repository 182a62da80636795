//! Message: what `pg_logical_emit_message` wrote to the log.
//!
//! <https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html>, `Message`

use std::ffi::CStr;
use std::fmt;

use crate::error::ProtocolError;
use crate::postgres::replication::Lsn;
use crate::postgres::replication::flags::flag;
use crate::read::Reader;

/// A message that an application wrote to the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogicalDecodingMessage<'a> {
    /// Whether it is part of the transaction that it comes in. Another one comes by itself, even if
    /// its transaction fails.
    pub is_transactional: bool,
    /// Where it is in the log.
    pub lsn: Lsn,
    /// The prefix, by which applications tell their messages apart.
    pub prefix: &'a CStr,
    /// The content.
    pub content: &'a [u8],
}

impl<'a> LogicalDecodingMessage<'a> {
    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let message = Self {
            is_transactional: flag(&mut reader, "set of flags")?,
            lsn: Lsn(reader.u64_be()?),
            prefix: reader.c_str()?,
            content: reader.sized_bytes_be()?,
        };
        reader.finish()?;
        Ok(message)
    }
}

impl fmt::Debug for LogicalDecodingMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogicalDecodingMessage")
            .field("is_transactional", &self.is_transactional)
            .field("lsn", &self.lsn)
            .field("prefix", &self.prefix)
            .field(
                "content",
                &format_args!("\"{}\"", self.content.escape_ascii()),
            )
            .finish()
    }
}
