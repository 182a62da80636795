//! The body of the fuzz target over the messages of a stream.

use std::fmt;

use super::{LogicalReplicationMessage, Lsn, StreamMessage};
use crate::error::ProtocolError;

/// Whatever a server sends as CopyData: nothing panics, every field can be read, errors name a
/// place within the message, and a message is read to its last byte and not further.
///
/// The input is a list of messages, each behind its length in two bytes; the last may be cut.
pub fn fuzz_replication(data: &[u8]) {
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let size = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (message, behind) = behind.split_at(size);
        rest = behind;
        stream_message(message);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(lsn) = text.parse::<Lsn>()
    {
        assert_eq!(lsn.to_string().parse(), Ok(lsn));
    }
}

fn stream_message(data: &[u8]) {
    let message = StreamMessage::decode(data);
    check_place(&message, data);
    match message {
        Ok(StreamMessage::XLogData(piece)) => {
            assert!(data.ends_with(piece.payload));
            pgoutput(piece.payload);
        }
        Ok(message) => {
            check_end(&message, data, |data| StreamMessage::decode(data).is_ok());
        }
        Err(_) => {}
    }
}

fn pgoutput(payload: &[u8]) {
    let message = LogicalReplicationMessage::decode(payload);
    check_place(&message, payload);
    if let Ok(message) = message {
        check_end(&message, payload, |payload| {
            LogicalReplicationMessage::decode(payload).is_ok()
        });
    }
}

/// An error is within its message, or at its end.
fn check_place<T>(message: &Result<T, ProtocolError>, data: &[u8]) {
    if let Err(error) = message {
        assert!(error.offset() <= data.len(), "{error}");
        assert!(!error.message().is_empty());
    }
}

/// Every field can be read, and neither more nor fewer bytes are a message.
fn check_end(message: &dyn fmt::Debug, data: &[u8], is_valid: impl Fn(&[u8]) -> bool) {
    // Formatting a message reads all of its fields.
    assert!(!format!("{message:?}").is_empty());
    assert!(!is_valid(&[data, b"\0"].concat()), "a byte more");
    for size in [0, data.len() / 2, data.len() - 1] {
        assert!(!is_valid(&data[..size]), "{size} bytes");
    }
}
