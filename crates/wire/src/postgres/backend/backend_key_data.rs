//! BackendKeyData: what it takes to cancel a query of this connection from another one.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `BackendKeyData`

use std::fmt;

use crate::error::{ProtocolError, Reason};
use crate::postgres::ProtocolVersion;
use crate::read::Reader;

/// The longest secret of protocol 3.2; earlier ones have four bytes.
const SECRET_SIZE_MAX: usize = 256;

/// Identifies a session to its server; see [`CancelKey::cancel_request`].
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    process_id: u32,
    secret: Box<[u8]>,
}

impl CancelKey {
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let process_id = reader.u32_be()?;
        let before = reader;
        let secret = reader.rest();
        let size_max = if version < ProtocolVersion::V3_2 {
            4
        } else {
            SECRET_SIZE_MAX
        };
        if secret.len() < 4 {
            return Err(before.error(Reason::Truncated));
        }
        if secret.len() > size_max {
            return Err(before.error(Reason::Trailing));
        }
        Ok(Self {
            process_id,
            secret: secret.into(),
        })
    }

    /// The process that serves the session, as in `pg_stat_activity`.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelKey")
            .field("process_id", &self.process_id)
            .finish_non_exhaustive()
    }
}
