//! StandbyStatus: how far the client is.
//!
//! ```text
//!   ┌─────┬─────────┬─────────┬─────────┬──────┬────────┐
//!   │ 'r' │ written │ flushed │ applied │ time │ reply? │
//!   │     │    8    │    8    │    8    │  8   │ 0 or 1 │
//!   └─────┴─────────┴─────────┴─────────┴──────┴────────┘
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-replication.html#PROTOCOL-REPLICATION-START-REPLICATION>

use super::{Lsn, Timestamp};

/// The size of an encoded status.
const SIZE: usize = 1 + 4 * 8 + 1;

/// What the client has received (`Standby status update`). The server ends a session that sends
/// none for its `wal_sender_timeout`, 60 s by default.
///
/// Each position is the one behind the last byte, such as [`Commit::end`](super::Commit::end) or
/// [`PrimaryKeepalive::end`](super::PrimaryKeepalive::end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyStatus {
    /// Received up to here.
    pub written: Lsn,
    /// Never needed again up to here: the slot confirms it, and the server may remove its log.
    pub flushed: Lsn,
    /// Applied up to here; the server shows it, and waits for it on `synchronous_commit =
    /// remote_apply`.
    pub applied: Lsn,
    /// The time of the client.
    pub time: Timestamp,
    /// Whether the server should answer at once, by a
    /// [`PrimaryKeepalive`](super::PrimaryKeepalive).
    pub reply_requested: bool,
}

impl StandbyStatus {
    /// The message, for [`Connection::copy_data`](crate::postgres::Connection::copy_data).
    pub fn encode(&self) -> [u8; SIZE] {
        let mut message = [0; SIZE];
        message[0] = b'r';
        for (place, position) in [self.written, self.flushed, self.applied]
            .into_iter()
            .enumerate()
        {
            let start = 1 + 8 * place;
            message[start..start + 8].copy_from_slice(&position.0.to_be_bytes());
        }
        message[25..33].copy_from_slice(&self.time.0.to_be_bytes());
        message[33] = self.reply_requested.into();
        message
    }
}
