//! An in-memory server: writes messages, and shows the events of a connection.

use std::fmt::Write;

use lookaside_wire::Limits;
use lookaside_wire::postgres::{Bind, Connection, Credentials, Formats, Parse, Request, Startup};

/// The answer of a server with `trust` authentication.
pub(crate) const LOGIN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// ReadyForQuery outside of a transaction.
pub(crate) const READY: &[u8] = b"Z\0\0\0\x05I";

/// A message of the type `tag`.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag], &length[..], body].concat()
}

/// Several messages, of which only the types and bodies are given.
pub(crate) fn messages(list: &[(u8, &[u8])]) -> Vec<u8> {
    list.iter()
        .flat_map(|&(tag, body)| message(tag, body))
        .collect()
}

/// DataRow
pub(crate) fn row(fields: &[Option<&str>]) -> Vec<u8> {
    let mut body = u16::try_from(fields.len()).unwrap().to_be_bytes().to_vec();
    for field in fields {
        match field {
            Some(text) => {
                body.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                body.extend(text.as_bytes());
            }
            None => body.extend((-1_i32).to_be_bytes()),
        }
    }
    message(b'D', &body)
}

/// ErrorResponse
pub(crate) fn error(severity: &str, state: &str, text: &str) -> Vec<u8> {
    let body = format!("S{severity}\0V{severity}\0C{state}\0M{text}\0\0");
    message(b'E', body.as_bytes())
}

/// A connection after a log-in without a password, with its output taken.
pub(crate) fn ready() -> Connection {
    ready_with(Limits::default())
}

pub(crate) fn ready_with(limits: Limits) -> Connection {
    let startup = Startup::new("amy");
    let mut connection = Connection::new(&startup, Credentials::new([7; 18]), limits).unwrap();
    connection.feed(LOGIN);
    while connection.next_event().unwrap().is_some() {}
    connection.take_output(&mut Vec::new());
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

/// A Parse of the statement `s`.
pub(crate) fn parse(sql: &str) -> Request<'_> {
    Request::Parse(Parse {
        statement: "s",
        sql,
        parameter_types: &[],
    })
}

/// A Bind of the statement `s` with one parameter.
pub(crate) const BIND: Request<'static> = Request::Bind(
    Bind {
        portal: "",
        statement: "s",
        parameter_formats: Formats::TEXT,
        result_formats: Formats::TEXT,
    },
    &[Some(b"7")],
);

/// An Execute of the unnamed portal, for all its rows.
pub(crate) const EXECUTE: Request<'static> = Request::Execute {
    portal: "",
    row_count_max: 0,
};
