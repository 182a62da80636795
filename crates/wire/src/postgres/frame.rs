//! The framing of messages in the stream from the server.
//!
//! ```text
//!   ┌──────┬───────────────────┬───────────────────┐
//!   │ type │ length: 4 bytes,  │ body:             │
//!   │  1   │ counts itself too │ length − 4 bytes  │
//!   └──────┴───────────────────┴───────────────────┘
//! ```
//!
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use crate::error::{ProtocolError, Reason};

/// The type byte and the length of a message.
pub(crate) const HEADER_SIZE: usize = 5;

/// The name of the message that a server sends under `tag`.
pub(crate) fn name(tag: u8) -> Option<&'static str> {
    Some(match tag {
        b'1' => "ParseComplete",
        b'2' => "BindComplete",
        b'3' => "CloseComplete",
        b'A' => "NotificationResponse",
        b'C' => "CommandComplete",
        b'D' => "DataRow",
        b'E' => "ErrorResponse",
        b'G' => "CopyInResponse",
        b'H' => "CopyOutResponse",
        b'I' => "EmptyQueryResponse",
        b'K' => "BackendKeyData",
        b'N' => "NoticeResponse",
        b'R' => "Authentication",
        b'S' => "ParameterStatus",
        b'T' => "RowDescription",
        b'V' => "FunctionCallResponse",
        b'W' => "CopyBothResponse",
        b'Z' => "ReadyForQuery",
        b'c' => "CopyDone",
        b'd' => "CopyData",
        b'n' => "NoData",
        b's' => "PortalSuspended",
        b't' => "ParameterDescription",
        b'v' => "NegotiateProtocolVersion",
        _ => return None,
    })
}

/// The header of a message.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) tag: u8,
    pub(crate) name: &'static str,
    pub(crate) body_size: usize,
}

impl Header {
    /// Decodes the header of the first message in `unread`, once it is complete.
    #[inline]
    pub(crate) fn decode(unread: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some((&[tag, length @ ..], _)) = unread.split_first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        let Some(name) = name(tag) else {
            return Err(ProtocolError::new(
                "message",
                0,
                Reason::UnknownMessage(tag),
            ));
        };
        let length = i32::from_be_bytes(length);
        let Some(body_size) = length
            .checked_sub(4)
            .and_then(|size| usize::try_from(size).ok())
        else {
            return Err(ProtocolError::new(name, 0, Reason::NegativeLength(length)));
        };
        Ok(Some(Self {
            tag,
            name,
            body_size,
        }))
    }

    /// The size of the message with its header.
    pub(crate) fn message_size(self) -> usize {
        HEADER_SIZE + self.body_size
    }
}
