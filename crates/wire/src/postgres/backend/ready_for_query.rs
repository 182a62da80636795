//! ReadyForQuery: the end of a simple query or of a Sync, with the state of the transaction.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>, `ReadyForQuery`

use crate::error::{ProtocolError, Reason};
use crate::read::Reader;

/// Whether the session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// It is not in a transaction.
    Idle,
    /// It is in a transaction.
    Open,
    /// It is in a failed transaction, which can only be rolled back.
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
