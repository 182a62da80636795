//! ERR: what the server refuses, and why.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html>

use std::borrow::Cow;
use std::fmt;

use crate::error::ProtocolError;
use crate::read::Reader;

/// The state of an error that has none of its own, as of one before the log-in.
const GENERAL: [u8; 5] = *b"HY000";

/// An error as the server reports it.
///
/// Borrowed from the receive buffer at first; [`into_owned`](Self::into_owned) keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    code: u16,
    sqlstate: [u8; 5],
    message: Cow<'a, [u8]>,
}

impl<'a> ErrPacket<'a> {
    /// Of a packet with its first byte.
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

    /// The same, independent of the connection.
    pub fn into_owned(self) -> ErrPacket<'static> {
        ErrPacket {
            message: Cow::Owned(self.message.into_owned()),
            ..self
        }
    }

    /// The server's number of it: `1062` for a key that is there already, say. MySQL and MariaDB
    /// agree below 1,900.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The five characters of the standard, `23000` for each violated constraint.
    pub fn sqlstate(&self) -> &[u8; 5] {
        &self.sqlstate
    }

    /// What happened, for people, in the language of the server.
    pub fn message(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.message)
    }

    /// Whether a prepared statement has to be prepared again: the server does not know it any more,
    /// or gave up preparing it again by itself after a table changed.
    pub fn is_stale_statement(&self) -> bool {
        // ER_UNKNOWN_STMT_HANDLER, ER_NEED_REPREPARE
        matches!(self.code, 1243 | 1615)
    }

    /// Whether the server takes no further prepared statements: too many are open on all
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
