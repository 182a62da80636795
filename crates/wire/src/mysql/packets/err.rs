//! ERR: an error that the server reports.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html>

use std::borrow::Cow;
use std::fmt;

use crate::error::ProtocolError;
use crate::read::Reader;

/// The SQLSTATE of an error that has none, such as one before the log-in.
const GENERAL: [u8; 5] = *b"HY000";

/// An error as the server reports it.
///
/// It borrows from the receive buffer; [`into_owned`](Self::into_owned) copies it.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    code: u16,
    sqlstate: [u8; 5],
    message: Cow<'a, [u8]>,
}

impl<'a> ErrPacket<'a> {
    /// Decodes a packet, including its first byte.
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        reader.u8()?;
        let code = reader.u16_le()?;
        let sqlstate = match reader.unread().split_first_chunk::<6>() {
            Some((&[b'#', a, b, c, d, e], _)) => {
                reader.bytes(6)?;
                [a, b, c, d, e]
            }
            _ => GENERAL,
        };
        Ok(Self {
            code,
            sqlstate,
            message: Cow::Borrowed(reader.rest()),
        })
    }

    /// An owned copy, independent of the connection.
    pub fn into_owned(self) -> ErrPacket<'static> {
        ErrPacket {
            message: Cow::Owned(self.message.into_owned()),
            ..self
        }
    }

    /// The server's error number, such as `1062` for a duplicate key. MySQL and MariaDB agree below
    /// 1,900.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The SQLSTATE, such as `23000` for every violated constraint.
    pub fn sqlstate(&self) -> &[u8; 5] {
        &self.sqlstate
    }

    /// The message for users, in the language of the server.
    pub fn message(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.message)
    }

    /// Whether a prepared statement must be prepared again: the server has dropped it, or failed to
    /// prepare it again itself after a table changed.
    pub fn is_stale_statement(&self) -> bool {
        // ER_UNKNOWN_STMT_HANDLER, ER_NEED_REPREPARE
        matches!(self.code, 1243 | 1615)
    }

    /// Whether the server accepts no further prepared statements, because too many are open on all
    /// connections together.
    pub fn is_statement_limit(&self) -> bool {
        // ER_MAX_PREPARED_STMT_COUNT_REACHED
        self.code == 1461
    }
}

impl fmt::Display for ErrPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.sqlstate.escape_ascii();
        write!(f, "{} ({}, SQLSTATE {state})", self.message(), self.code)
    }
}

impl fmt::Debug for ErrPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, state) = (self.code, self.sqlstate.escape_ascii());
        write!(f, "{code} {state} \"{}\"", self.message.escape_ascii())
    }
}

impl std::error::Error for ErrPacket<'_> {}
