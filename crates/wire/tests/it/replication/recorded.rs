//! The messages of recorded streams: cut at each byte, with each byte changed, and without
//! allocations. What they decode to is in the transcripts.

use std::collections::BTreeSet;

use lookaside_wire::ProtocolError;
use lookaside_wire::postgres::replication::{LogicalReplicationMessage, StreamMessage, TupleField};

use crate::transcripts::Transcript;

/// All recorded CopyData of streams.
fn streamed() -> Vec<Vec<u8>> {
    let all = Transcript::all();
    let streamed: Vec<Vec<u8>> = all.iter().flat_map(Transcript::streamed).collect();
    assert!(streamed.len() > 100, "{} messages", streamed.len());
    streamed
}

/// Decodes a CopyData and what is within. Returns an error and its place in the whole.
fn decode(data: &[u8]) -> Result<(), (ProtocolError, usize)> {
    // The payload is behind the header of XLogData.
    let within = |payload: &[u8]| data.len() - payload.len();
    match StreamMessage::decode(data) {
        Ok(StreamMessage::XLogData(piece)) => {
            match LogicalReplicationMessage::decode(piece.payload) {
                Ok(_) => Ok(()),
                Err(error) => Err((error, within(piece.payload) + error.offset())),
            }
        }
        Ok(_) => Ok(()),
        Err(error) => Err((error, error.offset())),
    }
}

/// The recorded sessions have all that a server sends.
#[test]
fn every_message_was_recorded() {
    let mut found = BTreeSet::new();
    for data in streamed() {
        match StreamMessage::decode(&data).unwrap() {
            StreamMessage::XLogData(piece) => found.insert(char::from(piece.payload[0])),
            _ => found.insert(char::from(data[0])),
        };
    }
    let found: String = found.into_iter().collect();
    assert_eq!(found, "BCDIMORTUYk");
}

#[test]
fn a_message_that_is_cut_is_an_error() {
    for data in streamed() {
        for size in 0..data.len() {
            let (error, offset) = decode(&data[..size]).unwrap_err();
            assert!(offset <= size, "{error}, of {size}");
        }
        let longer = [&data[..], b"\0"].concat();
        let (error, offset) = decode(&longer).unwrap_err();
        assert_eq!(offset, data.len(), "{error}");
    }
}

/// A changed byte is another value, or an error that names the field or what follows.
#[test]
fn a_changed_byte_is_noticed_where_it_is_or_behind() {
    let mut error_count = 0;
    for mut data in streamed() {
        for index in 0..data.len() {
            for change in [0x01, 0x02, 0x10, 0x80, 0xff] {
                data[index] ^= change;
                if let Err((error, offset)) = decode(&data) {
                    error_count += 1;
                    assert!(offset <= data.len(), "{error}");
                    // A length is reported where it begins, or where its value is missing, and a
                    // text where it begins.
                    let is_text = error.to_string().ends_with("a text is not terminated");
                    assert!(is_text || offset + 4 > index, "{error}, not {index}");
                }
                data[index] ^= change;
            }
        }
        assert_eq!(decode(&data), Ok(()));
    }
    assert!(error_count > 1_000, "{error_count} errors");
}

#[test]
fn decoding_allocates_nothing() {
    let streamed = streamed();
    let mut size = 0;
    let counted = allocation_counter::measure(|| {
        for data in &streamed {
            let Ok(StreamMessage::XLogData(piece)) = StreamMessage::decode(data) else {
                continue;
            };
            match LogicalReplicationMessage::decode(piece.payload).unwrap() {
                LogicalReplicationMessage::Insert(insert) => {
                    for field in insert.new {
                        if let TupleField::Binary(value) | TupleField::Text(value) = field {
                            size += value.len();
                        }
                    }
                }
                LogicalReplicationMessage::Relation(relation) => {
                    size += relation
                        .columns()
                        .map(|column| column.name.count_bytes())
                        .sum::<usize>();
                }
                LogicalReplicationMessage::Truncate(truncate) => size += truncate.relations().len(),
                _ => {}
            }
        }
    });
    assert!(size > 2_000, "{size}");
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
