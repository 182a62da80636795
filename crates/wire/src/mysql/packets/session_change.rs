//! Changes of the session: kind, length and content of each change, prefixed with the total length.
//!
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html#sect_protocol_basic_ok_packet_sessinfo>

use std::fmt;
use std::iter::FusedIterator;

use crate::error::ProtocolError;
use crate::read::Reader;

const MESSAGE: &str = "OK";

/// A change of the session, names and values as bytes of the session's character set.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionChange<'a> {
    /// A variable has this value now.
    SystemVariable {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The current database has changed to this.
    Schema(&'a [u8]),
    /// Whether the state changed, with `session_track_state_change`.
    State(bool),
    /// The statements that would begin a transaction with the characteristics of the open one.
    TransactionCharacteristics(&'a [u8]),
    /// Eight characters that describe the open transaction, `________` for none.
    TransactionState(&'a [u8]),
    /// Another change, such as a replication position.
    Other {
        /// Its kind.
        kind: u8,
        /// Its content.
        data: &'a [u8],
    },
}

/// Changes of the session; iterates over them.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionChanges<'a> {
    rest: &'a [u8],
    /// The rest of the current entry's list of variables: an entry may contain several.
    variables: &'a [u8],
}

impl<'a> SessionChanges<'a> {
    pub(crate) const NONE: Self = Self {
        rest: &[],
        variables: &[],
    };

    /// Checks all of them once, so that iterating cannot fail.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let changes = Self {
            rest: reader.lenenc_bytes()?,
            variables: &[],
        };
        let mut walk = changes.clone();
        while walk.read()?.is_some() {}
        Ok(changes)
    }

    fn read(&mut self) -> Result<Option<SessionChange<'a>>, ProtocolError> {
        if self.variables.is_empty() {
            if self.rest.is_empty() {
                return Ok(None);
            }
            let mut entries = Reader::new(MESSAGE, self.rest);
            let kind = entries.u8()?;
            let data = entries.lenenc_bytes()?;
            self.rest = entries.rest();
            let mut entry = Reader::new(MESSAGE, data);
            let change = match kind {
                0 => {
                    self.variables = data;
                    return self.variable().map(Some);
                }
                1 => SessionChange::Schema(entry.lenenc_bytes()?),
                // MySQL prefixes it with a length, MariaDB does not.
                2 => SessionChange::State(entry.rest().last() == Some(&b'1')),
                4 => SessionChange::TransactionCharacteristics(entry.lenenc_bytes()?),
                5 => SessionChange::TransactionState(entry.lenenc_bytes()?),
                _ => SessionChange::Other {
                    kind,
                    data: entry.rest(),
                },
            };
            entry.finish()?;
            return Ok(Some(change));
        }
        self.variable().map(Some)
    }

    fn variable(&mut self) -> Result<SessionChange<'a>, ProtocolError> {
        let mut reader = Reader::new(MESSAGE, self.variables);
        let name = reader.lenenc_bytes()?;
        let value = reader.lenenc_bytes()?;
        self.variables = reader.rest();
        Ok(SessionChange::SystemVariable { name, value })
    }
}

impl<'a> Iterator for SessionChanges<'a> {
    type Item = SessionChange<'a>;

    fn next(&mut self) -> Option<SessionChange<'a>> {
        self.read()
            .expect("the changes were read when the packet was decoded")
    }
}

impl FusedIterator for SessionChanges<'_> {}

impl fmt::Debug for SessionChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SystemVariable { name, value } => {
                write!(f, "{}={}", name.escape_ascii(), value.escape_ascii())
            }
            Self::Schema(name) => write!(f, "schema {}", name.escape_ascii()),
            Self::State(is_changed) => write!(f, "state {is_changed}"),
            Self::TransactionCharacteristics(sql) => write!(f, "\"{}\"", sql.escape_ascii()),
            Self::TransactionState(state) => write!(f, "transaction {}", state.escape_ascii()),
            Self::Other { kind, data } => write!(f, "change {kind} \"{}\"", data.escape_ascii()),
        }
    }
}

impl fmt::Debug for SessionChanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
