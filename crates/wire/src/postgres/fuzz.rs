//! The body of the fuzz target over the stream from a server.

use std::fmt::{self, Write};

use super::{Bind, Connection, Credentials, Event, Format, Formats, Oid, Parse, Request, Startup};
use crate::{Limits, ProtocolError, RequestId};

/// A log-in without a password, for streams that begin after it.
const LOGIN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// Whatever a server sends: nothing panics, ids never decrease, every field can be read, and the
/// result does not depend on where the stream is split.
///
/// The first byte is the number of following bytes that are requests; the byte after these
/// determines how the stream is split and, by its highest bit, whether it begins after the log-in.
pub fn fuzz_postgres(data: &[u8]) {
    let Some((&request_count, rest)) = data.split_first() else {
        return;
    };
    let (requests, rest) = rest.split_at(rest.len().min(request_count.into()));
    let Some((&cut, stream)) = rest.split_first() else {
        return;
    };
    let login = if cut & 0x80 == 0 { &[][..] } else { LOGIN };
    let piece_size = usize::from(cut & 0x7f) + 1;
    let whole = run(requests, &[login, stream].concat(), usize::MAX);
    let cut = run(requests, &[login, stream].concat(), piece_size);
    assert_eq!(whole, cut, "events depend on where the stream was cut");
}

/// The result of a run, for comparison.
#[derive(Debug, Default, PartialEq)]
struct Trace {
    /// The request of each event, and a hash of the event's content.
    events: Vec<(Option<RequestId>, u64)>,
    error: Option<ProtocolError>,
    output_size: usize,
}

fn run(requests: &[u8], stream: &[u8], piece_size: usize) -> Trace {
    let credentials = Credentials::new([7; 18]).password(b"secret");
    let limits = Limits {
        message_size_max: 1 << 20,
        scram_iteration_count_max: 4,
        ..Limits::default()
    };
    // The log-in for replication allows what an ordinary one does, and CopyBothResponse.
    let startup = Startup::new("amy").replication();
    let mut connection =
        Connection::new(&startup, credentials, limits).expect("the log-in holds no NUL");
    let mut trace = Trace::default();
    let mut output = Vec::new();
    let pieces = stream.chunks(piece_size.min(stream.len()).max(1));
    for piece in pieces.map(Some).chain([None]) {
        match piece {
            Some(piece) => connection.feed(piece),
            None => connection.end_of_input(),
        }
        trace.error = drain(&mut connection, requests, &mut trace.events);
        connection.take_output(&mut output);
        trace.output_size += output.len();
        output.clear();
    }
    let last = connection.next_event().map(|event| event.is_none());
    assert_eq!(last, trace.error.map_or(Ok(true), Err), "an end is an end");
    trace
}

/// Takes all events; the requests are queued after the log-in, and a COPY gets its data. One in both
/// directions may stay open.
fn drain(
    connection: &mut Connection,
    requests: &[u8],
    events: &mut Vec<(Option<RequestId>, u64)>,
) -> Option<ProtocolError> {
    loop {
        let unanswered = connection.unanswered();
        let event = match connection.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => return None,
            Err(error) => return Some(error),
        };
        let id = event.request_id();
        assert!(
            id.is_none_or(|id| unanswered.contains(id)),
            "an answer to no request: {event:?}"
        );
        // Formatting an event reads all of its fields.
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        write!(hash, "{event:?}").expect("a hash takes everything");
        events.push((id, hash.0));
        match event {
            Event::CopyIn { .. } => {
                let given = connection.copy_data(b"7\tseven\n");
                let ended = given.and_then(|()| match hash.0 % 2 {
                    0 => connection.copy_done(),
                    _ => connection.copy_fail("no more"),
                });
                ended.expect("a COPY that waits takes data and its end");
            }
            Event::CopyBoth { .. } => {
                let given = connection.copy_data(b"r");
                let ended = given.and_then(|()| match hash.0 % 2 {
                    0 => connection.copy_done(),
                    _ => Ok(()),
                });
                ended.expect("a COPY in both directions takes data and its end");
            }
            Event::Ready {
                id: RequestId::STARTUP,
                ..
            } => {
                for &byte in requests {
                    let queued = connection.queue(request(byte));
                    queued.expect("the connection is open, and no COPY is");
                }
            }
            _ => {}
        }
    }
}

/// The request that a byte represents: the type byte of its message, or any other byte.
fn request(byte: u8) -> Request<'static> {
    let bind = Bind {
        portal: "",
        statement: "s",
        parameter_formats: Formats::TEXT,
        result_formats: Formats::Each(&[Format::Binary]),
    };
    let parse = Parse {
        statement: "s",
        sql: "select $1",
        parameter_types: &[Oid::UNSPECIFIED],
    };
    match byte {
        b'Q' => Request::Query("select 7"),
        b'P' => Request::Parse(parse),
        b'D' => Request::DescribeStatement("s"),
        b'd' => Request::DescribePortal(""),
        b'B' => Request::Bind(bind, &[Some(b"7"), None]),
        b'E' => Request::Execute {
            portal: "",
            row_count_max: 1,
        },
        b'C' => Request::CloseStatement("s"),
        _ => Request::Sync,
    }
}

/// A hash that takes one multiplication per byte (FNV-1a).
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
