//! An in-memory server: writes packets, and shows the events of a connection.

use std::fmt::Write;

use lookaside_wire::Limits;
use lookaside_wire::mysql::{Connection, Credentials, Startup};

/// The capabilities of MySQL 9.7 and MariaDB 10.11.
pub(crate) const MYSQL: u64 = 0xdfff_ffff;
pub(crate) const MARIADB: u64 = 0x1d_81ff_f7fe;

/// A packet with this number.
pub(crate) fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_le_bytes();
    [&size[..3], &[sequence], payload].concat()
}

/// The packets of an answer.
pub(crate) fn answer(payloads: &[&[u8]]) -> Vec<u8> {
    let numbered = (1_u8..).zip(payloads);
    numbered
        .flat_map(|(sequence, payload)| packet(sequence, payload))
        .collect()
}

/// A greeting whose challenge is `AAA…`.
pub(crate) fn greeting(capabilities: u64, plugin: &str) -> Vec<u8> {
    let bytes = capabilities.to_le_bytes();
    let mut payload = b"\x0a11.0\0\x07\0\0\0AAAAAAAA\0".to_vec();
    payload.extend_from_slice(&bytes[..2]);
    payload.extend_from_slice(b"\x2d\x02\0");
    payload.extend_from_slice(&bytes[2..4]);
    payload.extend_from_slice(b"\x15\0\0\0\0\0\0");
    payload.extend_from_slice(&bytes[4..]);
    payload.extend_from_slice(b"AAAAAAAAAAAA\0");
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    packet(0, &payload)
}

/// OK without further information.
pub(crate) const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// OK as the end of rows; also with another result following.
pub(crate) const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
pub(crate) const END_AND_MORE: &[u8] = b"\xfe\0\0\x0a\0\0\0";

/// EOF.
pub(crate) const EOF: &[u8] = b"\xfe\0\0\x02\0";

/// ERR 1064.
pub(crate) const ERR: &[u8] = b"\xff\x28\x04#42000no";

/// The definition of a column of this name and type.
pub(crate) fn column(name: &str, column_type: u8) -> Vec<u8> {
    let mut payload = b"\x03def\0\0\0".to_vec();
    payload.push(u8::try_from(name.len()).unwrap());
    payload.extend_from_slice(name.as_bytes());
    payload.extend_from_slice(b"\0\x0c\x3f\0\x0b\0\0\0");
    payload.push(column_type);
    payload.extend_from_slice(&[0; 5]);
    payload
}

/// The answer to a Prepare without parameters, whose statement returns these columns.
pub(crate) fn prepared(statement: u8, columns: &[Vec<u8>]) -> Vec<u8> {
    let count = u8::try_from(columns.len()).unwrap();
    let ok = [0, statement, 0, 0, 0, count, 0, 0, 0, 0, 0, 0];
    let mut payloads = vec![&ok[..]];
    payloads.extend(columns.iter().map(|column| &column[..]));
    answer(&payloads)
}

/// A connection after a log-in without a password, with its output taken.
pub(crate) fn ready(offered: u64) -> Connection {
    ready_with(offered, Startup::new("amy"), Limits::default())
}

pub(crate) fn ready_with(offered: u64, startup: Startup<'_>, limits: Limits) -> Connection {
    let mut connection = Connection::new(&startup, Credentials::new([7; 20]), limits).unwrap();
    connection.feed(&greeting(offered, "mysql_native_password"));
    connection.feed(&packet(2, OK));
    while connection.next_event().unwrap().is_some() {}
    assert!(connection.unanswered().is_empty(), "the log-in is done");
    output(&mut connection);
    connection
}

/// All available events, one per line, and the error that ends them.
pub(crate) fn events(connection: &mut Connection) -> String {
    let mut text = String::new();
    loop {
        match connection.next_event() {
            Ok(Some(event)) => writeln!(text, "{event:?}").unwrap(),
            Ok(None) => return text,
            Err(error) => {
                writeln!(text, "error: {error}").unwrap();
                return text;
            }
        }
    }
}

/// The output of the connection.
pub(crate) fn output(connection: &mut Connection) -> Vec<u8> {
    let mut output = Vec::new();
    connection.take_output(&mut output);
    output
}

/// Checks that the server's `stream` causes exactly these events.
#[track_caller]
pub(crate) fn check(connection: &mut Connection, stream: &[u8], expected: &str) {
    connection.feed(stream);
    let found = events(connection);
    let expected: String = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
}
