//! OK: a statement is complete, or with 0xFE as its first byte, the end of a result.
//!
//! ```text
//!   00 | fe   affected rows   last insert id   status (2)   warnings (2)   [info   [changes]]
//! ```
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html>

use std::borrow::Cow;
use std::fmt;

use super::{Eof, SessionChanges};
use crate::error::ProtocolError;
use crate::mysql::{Capabilities, StatusFlags};
use crate::read::Reader;

/// How a statement or a result ended.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OkPacket<'a> {
    /// How many rows were inserted, deleted, or changed by an UPDATE.
    pub affected_row_count: u64,
    /// The first generated value of an AUTO_INCREMENT column, or 0.
    pub last_insert_id: u64,
    /// The state of the session after it.
    pub status: StatusFlags,
    /// How many warnings `SHOW WARNINGS` would list.
    pub warning_count: u16,
    /// Information for users, for example on the rows that an UPDATE found.
    info: &'a [u8],
    changes: SessionChanges<'a>,
}

impl<'a> OkPacket<'a> {
    /// Decodes a packet, including its first byte.
    pub(crate) fn decode(
        mut reader: Reader<'a>,
        capabilities: Capabilities,
    ) -> Result<Self, ProtocolError> {
        reader.u8()?;
        let affected_row_count = reader.lenenc()?;
        let last_insert_id = reader.lenenc()?;
        let status = StatusFlags(reader.u16_le()?);
        let warning_count = reader.u16_le()?;
        let (mut info, mut changes) = (&[][..], SessionChanges::NONE);
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            info = reader.rest();
        } else if !reader.unread().is_empty() {
            info = reader.lenenc_bytes()?;
            if status.is_session_changed() {
                changes = SessionChanges::decode(&mut reader)?;
            }
        }
        reader.finish()?;
        Ok(Self {
            affected_row_count,
            last_insert_id,
            status,
            warning_count,
            info,
            changes,
        })
    }

    /// Decodes the end of rows, in any of its forms.
    pub(crate) fn decode_end(
        reader: Reader<'a>,
        capabilities: Capabilities,
    ) -> Result<Self, ProtocolError> {
        // An OK has at least two more bytes. MySQL reports an open cursor by an EOF, even with
        // DEPRECATE_EOF.
        if reader.unread().len() > 5 {
            return Self::decode(reader, capabilities);
        }
        Eof::decode(reader).map(Self::of_eof)
    }

    pub(crate) fn of_eof(eof: Eof) -> Self {
        Self {
            affected_row_count: 0,
            last_insert_id: 0,
            status: eof.status,
            warning_count: eof.warning_count,
            info: &[],
            changes: SessionChanges::NONE,
        }
    }

    /// Information for users, for example on the rows that an UPDATE found.
    pub fn info(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.info)
    }

    /// The changes of the session that the server's `session_track_…` settings enable.
    pub fn session_changes(&self) -> SessionChanges<'a> {
        self.changes.clone()
    }
}

impl fmt::Debug for OkPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{ affected: {}, id: {}, status: {:?}, warnings: {}",
            self.affected_row_count, self.last_insert_id, self.status, self.warning_count
        )?;
        if !self.info.is_empty() {
            write!(f, ", info: \"{}\"", self.info.escape_ascii())?;
        }
        for change in self.session_changes() {
            write!(f, ", {change:?}")?;
        }
        f.write_str(" }")
    }
}
