//! ReadyForQuery: the end of a simple query or of a Sync, and where it left the transaction.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `ReadyForQuery`

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// Whether the session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// It is in none.
    Idle,
    /// It is in one that can go on.
    Open,
    /// It is in one that can only be rolled back.
    Failed,
}

pub(crate) fn ready_for_query(mut reader: Reader<'_>) -> Result<TransactionStatus, ProtocolError> {
    let before = reader;
    let status = match reader.u8()? {
        b'I' => TransactionStatus::Idle,
        b'T' => TransactionStatus::Open,
        b'E' => TransactionStatus::Failed,
        byte => {
            return Err(before.error(Reason::UnknownValue {
                what: "transaction status",
                value: byte.into(),
            }));
        }
    };
    reader.finish()?;
    Ok(status)
}
