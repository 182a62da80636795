//! SSLRequest: requests TLS before any other message.
//!
//! The caller sends [`SSL_REQUEST`], reads one byte and does the TLS handshake; only then a
//! [`Connection`](super::Connection) begins, within TLS.
//!
//! <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-SSL>

use crate::error::{ProtocolError, Reason};

/// Length 8 and the code 1234.5679.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

const MESSAGE: &str = "answer to SSLRequest";

/// The answer of a server to [`SSL_REQUEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslAnswer {
    /// The TLS handshake may begin.
    Accepted,
    /// There is no TLS; an unencrypted log-in may follow.
    Refused,
}

/// Whether this is a greeting of MySQL or MariaDB: a packet with the number 0 that begins with
/// protocol version 10 and the digits of the server version, or is an error from 1024 to 1279, for
/// example for a host that is not allowed. No message of a PostgreSQL log-in begins like this: one
/// of that length would have other bytes in these places.
pub(super) fn is_foreign_greeting(received: &[u8]) -> bool {
    matches!(
        received,
        [_, 0, 0, 0, 10, b'0'..=b'9', ..] | [_, _, 0, 0, 0xff, _, 4, ..]
    )
}

impl SslAnswer {
    /// Decodes everything received since [`SSL_REQUEST`] was sent; `None` if nothing was received
    /// yet.
    ///
    /// More than one byte is an error: a server sends nothing else before the handshake, so these
    /// bytes were injected to be taken for protected data (CVE-2021-23222).
    pub fn decode(received: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let error = |offset, reason| Err(ProtocolError::new(MESSAGE, offset, reason));
        if is_foreign_greeting(received) {
            return error(0, Reason::ForeignGreeting);
        }
        match received {
            [] => Ok(None),
            [b'S'] => Ok(Some(Self::Accepted)),
            [b'N'] => Ok(Some(Self::Refused)),
            [b'S' | b'N', ..] => error(1, Reason::Stuffed),
            [b'E', ..] => error(0, Reason::TlsError),
            &[byte, ..] => error(0, Reason::TlsAnswer(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_is_an_answer() {
        assert_eq!(SslAnswer::decode(b""), Ok(None));
        assert_eq!(SslAnswer::decode(b"S"), Ok(Some(SslAnswer::Accepted)));
        assert_eq!(SslAnswer::decode(b"N"), Ok(Some(SslAnswer::Refused)));
    }

    #[test]
    fn another_kind_of_server_greets_first() {
        for size in [b'J', b'S', b'N', b'E'] {
            let greeting = [&[size, 0, 0, 0][..], b"\x0a8.0.36\0"].concat();
            let error = SslAnswer::decode(&greeting).unwrap_err();
            assert!(error.is_foreign_greeting(), "{error}");
        }
        let error = SslAnswer::decode(b"E\0\0\0\xff\x6a\x04Host").unwrap_err();
        assert!(error.is_foreign_greeting(), "{error}");
        let error = SslAnswer::decode(b"E\0\0\0\x0aSFATAL").unwrap_err();
        assert!(!error.is_foreign_greeting());
    }

    #[test]
    fn anything_else_is_an_error() {
        for (received, expected) in [
            (
                &b"SR\0\0\0\x08\0\0\0\0"[..],
                "answer to SSLRequest at byte 1: bytes were received before TLS was set up; they \
                 may have been injected",
            ),
            (
                b"NZ",
                "answer to SSLRequest at byte 1: bytes were received before TLS was set up; they \
                 may have been injected",
            ),
            (
                b"E\0\0\0\x40SFATAL\0",
                "answer to SSLRequest at byte 0: \
                 the server answered the request for TLS with an error",
            ),
            (
                b"HTTP/1.1 400",
                "answer to SSLRequest at byte 0: `H` is not an answer to the request for TLS; \
                 is this a PostgreSQL server?",
            ),
        ] {
            let error = SslAnswer::decode(received).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
