//! BackendKeyData: the key with which a query of this connection can be cancelled from another one.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `BackendKeyData`

use crate::error::{ProtocolError, Reason};
use crate::postgres::cancel_key::CancelKey;
use crate::postgres::version::ProtocolVersion;
use crate::read::Reader;

/// The maximal size of the secret in protocol 3.2; earlier versions have four bytes.
const SECRET_SIZE_MAX: usize = 256;

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
        Ok(Self::new(process_id, secret))
    }
}
