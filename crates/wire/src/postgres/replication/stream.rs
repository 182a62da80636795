//! The messages of a server within CopyData: XLogData and primary keepalives.
//!
//! ```text
//!   ┌─────┬───────┬──────┬──────┬──────────┐        ┌─────┬──────┬──────┬──────────┐
//!   │ 'w' │ start │ end  │ time │ payload  │        │ 'k' │ end  │ time │ reply?   │
//!   │     │   8   │  8   │  8   │          │        │     │  8   │  8   │ 0 or 1   │
//!   └─────┴───────┴──────┴──────┴──────────┘        └─────┴──────┴──────┴──────────┘
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION>

use std::fmt;

use super::flags::flag;
use super::{Lsn, Timestamp};
use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// A message of a server in the stream: the data of an
/// [`Event::CopyData`](crate::postgres::Event::CopyData) after
/// [`Event::CopyBoth`](crate::postgres::Event::CopyBoth).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamMessage<'a> {
    /// A piece of the log, as pgoutput writes it.
    XLogData(XLogData<'a>),
    /// The server is alive, and says how far it has read.
    PrimaryKeepalive(PrimaryKeepalive),
}

impl<'a> StreamMessage<'a> {
    /// Decodes the data of one CopyData.
    ///
    /// # Errors
    ///
    /// If it is not one of these messages; offsets count from its type byte.
    pub fn decode(data: &'a [u8]) -> Result<Self, ProtocolError> {
        let body = |name| Reader::behind(name, data, 1);
        match data.first() {
            Some(b'w') => XLogData::decode(body("XLogData")).map(Self::XLogData),
            Some(b'k') => {
                PrimaryKeepalive::decode(body("PrimaryKeepalive")).map(Self::PrimaryKeepalive)
            }
            tag => {
                let reason = tag.map_or(Reason::Truncated, |&tag| Reason::UnknownMessage(tag));
                Err(ProtocolError::new("CopyData of replication", 0, reason))
            }
        }
    }
}

/// A piece of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct XLogData<'a> {
    /// Where the piece begins. Of the messages that one record of the log caused, only the last has
    /// it; those before, such as Relation, have [`Lsn::INVALID`]. Only commits are in order.
    pub start: Lsn,
    /// The end of the log on the server. Walsenders of logical replication repeat `start` here.
    pub end: Lsn,
    /// When the server sent it, by its clock.
    pub time: Timestamp,
    /// One message of pgoutput; see
    /// [`LogicalReplicationMessage::decode`](super::LogicalReplicationMessage::decode).
    pub payload: &'a [u8],
}

impl<'a> XLogData<'a> {
    fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        Ok(Self {
            start: Lsn(reader.u64_be()?),
            end: Lsn(reader.u64_be()?),
            time: Timestamp(reader.i64_be()?),
            payload: reader.rest(),
        })
    }
}

impl fmt::Debug for XLogData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XLogData")
            .field("start", &self.start)
            .field("end", &self.end)
            .field("time", &self.time)
            .field(
                "payload",
                &format_args!("\"{}\"", self.payload.escape_ascii()),
            )
            .finish()
    }
}

/// A sign of life of the server (`Primary keepalive message`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryKeepalive {
    /// How far the server has decoded its log: transactions that committed before were sent.
    pub end: Lsn,
    /// When the server sent it, by its clock.
    pub time: Timestamp,
    /// Whether the server ends the session unless it gets a
    /// [`StandbyStatus`](super::StandbyStatus) soon.
    pub reply_requested: bool,
}

impl PrimaryKeepalive {
    fn decode(mut reader: Reader<'_>) -> Result<Self, ProtocolError> {
        let keepalive = Self {
            end: Lsn(reader.u64_be()?),
            time: Timestamp(reader.i64_be()?),
            reply_requested: flag(&mut reader, "request for a reply")?,
        };
        reader.finish()?;
        Ok(keepalive)
    }
}
