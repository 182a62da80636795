//! CancelRequest: asks, on a connection of its own, to stop what a session is doing.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS>

use super::sized;
use crate::postgres::cancel_key::CancelKey;

/// 1234.5678, in the place where a start-up has the protocol's version.
const CANCEL_REQUEST_CODE: u32 = 1234 << 16 | 5678;

impl CancelKey {
    /// Writes all that is said on the connection that asks; the server closes it without an answer.
    ///
    /// It hits whatever the session does when it arrives, which need not be what it did when it
    /// was sent: cancel only a request that nothing else waits behind.
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
