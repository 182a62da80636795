//! EOF: the end of definitions, and of rows if OK is not used for it.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html>

use super::EOF;
use crate::error::{ProtocolError, Reason};
use crate::mysql::StatusFlags;
use crate::read::Reader;

/// The end of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eof {
    pub(crate) warning_count: u16,
    pub(crate) status: StatusFlags,
}

impl Eof {
    /// Decodes a packet, including its first byte.
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<Self, ProtocolError> {
        let before = reader;
        if reader.u8()? != EOF {
            return Err(before.error(Reason::Unexpected("where the list ends")));
        }
        let eof = Self {
            warning_count: reader.u16_le()?,
            status: StatusFlags(reader.u16_le()?),
        };
        reader.finish()?;
        Ok(eof)
    }
}
