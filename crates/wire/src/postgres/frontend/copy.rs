//! CopyData, CopyDone, CopyFail: the rows of a COPY from the client, and its end.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY>

use super::{message, text};
use crate::error::RequestError;

pub(crate) fn copy_data(output: &mut Vec<u8>, data: &[u8]) -> Result<(), RequestError> {
    message(output, b'd', |output| {
        output.extend_from_slice(data);
        Ok(())
    })
}

pub(crate) fn copy_done(output: &mut Vec<u8>) -> Result<(), RequestError> {
    message(output, b'c', |_| Ok(()))
}

pub(crate) fn copy_fail(output: &mut Vec<u8>, reason: &str) -> Result<(), RequestError> {
    message(output, b'f', |output| text(output, reason))
}
