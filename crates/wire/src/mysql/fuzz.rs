//! The body of the fuzz target over the stream from a server.

use std::fmt::{self, Write};

use super::{
    Capabilities, ColumnType, Connection, Credentials, Cursor, Event, Execute, ParameterType,
    Request, Startup, StatementId, Transport,
};
use crate::{Limits, ProtocolError, RequestError, RequestId};

/// Log-ins without a password, for streams that begin after one.
const LOGIN_MYSQL: &[u8] =
    b"\x4a\0\0\0\x0a9.7.4\0\x09\0\0\0\x1b{+(!zj-\0\xff\xff\xff\x02\0\xff\xdf\x15\
    \0\0\0\0\0\0\0\0\0\0h`6P.F^8qK)a\x1d\0mysql_native_password\0\x07\0\0\x02\0\0\0\x02\0\0\0";
const LOGIN_MARIADB: &[u8] =
    b"\x4c\0\0\0\x0a10.11.1\0\x09\0\0\0\x1b{+(!zj-\0\xfe\xff\x08\x02\0\xff\x81\x15\
    \0\0\0\0\0\0\x1d\0\0\0h`6P.F^8qK)a\x1d\0mysql_native_password\0\x07\0\0\x02\0\0\0\x02\0\0\0";

/// Whatever a server sends: nothing panics, ids never decrease, every field can be read, and the
/// result does not depend on where the stream is split.
///
/// The first byte selects the session: whether its stream begins after the log-in (128), which
/// server it is (64), and options of the client (1 to 16). The second one determines how the stream
/// is split, the third how many requests are queued after the log-in. Each request takes two bytes,
/// its command and the number of its statement; the rest is the stream.
pub fn fuzz_mysql(data: &[u8]) {
    let Some((&[options, cut, request_count], rest)) = data.split_first_chunk() else {
        return;
    };
    let (requests, stream) = rest.split_at(rest.len().min(usize::from(request_count) * 2));
    let login = match options & 0xc0 {
        0x80 => LOGIN_MYSQL,
        0xc0 => LOGIN_MARIADB,
        _ => &[],
    };
    let stream = [login, stream].concat();
    let whole = run(options, requests, &stream, usize::MAX);
    let cut = run(options, requests, &stream, usize::from(cut) + 1);
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

fn connection(options: u8) -> Connection {
    let is_set = |bit: u8| options & bit != 0;
    let mut credentials = Credentials::new([7; 20])
        .password(b"secret")
        .allow_clear_password();
    if is_set(4) {
        credentials = credentials.ask_public_key();
    }
    let mut startup = Startup::new("amy");
    let without_eof = Capabilities::NONE.and(Capabilities::DEPRECATE_EOF, is_set(1));
    let without_mariadb = Capabilities::NONE.and(Capabilities(!0xffff_ffff), is_set(16));
    startup = startup.without(without_eof | without_mariadb);
    if is_set(2) {
        startup = startup.optional_metadata();
    }
    if is_set(8) {
        startup = startup.transport(Transport::Protected);
    }
    let limits = Limits {
        message_size_max: 1 << 20,
        ..Limits::default()
    };
    Connection::new(&startup, credentials, limits).expect("the log-in holds no NUL")
}

fn run(options: u8, requests: &[u8], stream: &[u8], piece_size: usize) -> Trace {
    let mut connection = connection(options);
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

/// Takes all events; the requests are queued after the log-in.
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
            id.is_none_or(|id| unanswered.first() == Some(id)),
            "an answer out of turn: {event:?}"
        );
        // Formatting an event reads all of its fields.
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        write!(hash, "{event:?}").expect("a hash takes everything");
        events.push((id, hash.0));
        let (is_last, is_ok) = (event.is_last(), matches!(event, Event::Ok { .. }));
        if let Some(id) = id {
            let waits = connection.unanswered().contains(id);
            assert_eq!(waits, !is_last, "a request is done with its last event");
        }
        if is_ok && is_last && id == Some(RequestId::STARTUP) {
            for request in requests.chunks_exact(2) {
                match queue(connection, request[0], StatementId(request[1].into())) {
                    Ok(_) | Err(RequestError::Unsupported) => {}
                    Err(error) => unreachable!("the connection is open, and yet: {error}"),
                }
            }
        }
    }
}

/// Queues the request of a command, or any other.
fn queue(
    connection: &mut Connection,
    command: u8,
    statement: StatementId,
) -> Result<RequestId, RequestError> {
    let types = [ParameterType::new(ColumnType::LONG)];
    let statement = match statement {
        StatementId(0) => StatementId::LAST,
        statement => statement,
    };
    let request = match command {
        0x03 => Request::Query("select 7"),
        0x16 => Request::Prepare("select ?"),
        0x17 => {
            let cursor = Cursor::None;
            let execute = Execute { statement, cursor };
            return connection.queue_execute(&execute, &types, |writer| writer.null());
        }
        0xfa => {
            return connection.queue_bulk(statement, &types, |writer| writer.number([7; 4]));
        }
        0x19 => Request::CloseStatement(statement),
        0x1a => Request::ResetStatement(statement),
        0x1c => Request::Fetch {
            statement,
            row_count_max: 7,
        },
        0x1f => Request::ResetConnection,
        _ => Request::Ping,
    };
    connection.queue(request)
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
