//! CancelRequest: requests, on a separate connection, to cancel what a session is doing.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS>

use super::sized;
use crate::postgres::cancel_key::CancelKey;

/// 1234.5678, in place of the protocol version of a start-up message.
const CANCEL_REQUEST_CODE: u32 = 1234 << 16 | 5678;

impl CancelKey {
    /// Writes the only message of the separate connection; the server closes it without an answer.
    ///
    /// It cancels whatever the session is doing when it arrives, which may differ from what it did
    /// when it was sent: cancel only a request that has no other pending request after it.
    pub fn cancel_request(&self, output: &mut Vec<u8>) {
        let written = sized(output, |output| {
            output.extend_from_slice(&CANCEL_REQUEST_CODE.to_be_bytes());
            output.extend_from_slice(&self.process_id().to_be_bytes());
            output.extend_from_slice(self.secret());
            Ok(())
        });
        written.expect("a secret is at most 256 bytes long");
    }
}
