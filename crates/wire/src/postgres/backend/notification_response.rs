//! NotificationResponse: a `NOTIFY` on a channel that this session listens to.
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>,
//! `NotificationResponse`

use std::ffi::CStr;

use crate::error::ProtocolError;
use crate::read::Reader;

/// A notification; it may be received at any time, between answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationResponse<'a> {
    /// The process of the session that sent it.
    pub process_id: u32,
    /// The channel's name.
    pub channel: &'a CStr,
    /// The payload; empty if there is none.
    pub payload: &'a CStr,
}

impl<'a> NotificationResponse<'a> {
    pub(crate) fn decode(mut reader: Reader<'a>) -> Result<Self, ProtocolError> {
        let process_id = reader.u32_be()?;
        let channel = reader.c_str()?;
        let payload = reader.c_str()?;
        reader.finish()?;
        Ok(Self {
            process_id,
            channel,
            payload,
        })
    }
}
