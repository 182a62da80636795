//! The administrative connection: a log-in and simple queries on the cluster's Unix socket.
//!
//! The socket's folder is private and its server trusts it, so no password is needed.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lookaside_wire::postgres::{self, Credentials, DataRow, Event, Request, Startup};
use lookaside_wire::{Limits, ProtocolError, RequestError};

use crate::Error;
use crate::names::ADMIN_DATABASE;
use crate::server_error::ServerError;

/// Longest wait for a reply. `CREATE DATABASE` copies files; migrations may be long.
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);

/// Largest message accepted from the server: answers of this crate's queries are far smaller.
const MESSAGE_SIZE_MAX: usize = 64 << 20;

/// The answer of a server that cannot fork a process for a connection: a text without a length, as
/// in the protocol before version 3 (`report_fork_failure_to_client` in PostgreSQL's source). It
/// arrives in one piece.
const FORK_REFUSAL: &[u8] = b"Ecould not fork";

/// Size of the receive buffer for one read, in bytes.
const READ_SIZE: usize = 16 << 10;

/// Settings that override the server's for administrative sessions: time limits, and logging, which
/// would write passwords.
const ADMIN_SETTINGS: [(&str, &str); 10] = [
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("default_transaction_read_only", "off"),
    ("standard_conforming_strings", "on"),
    ("log_statement", "none"),
    ("log_min_duration_statement", "-1"),
    ("log_min_duration_sample", "-1"),
    ("log_transaction_sample_rate", "0"),
    ("log_min_error_statement", "panic"),
];

/// One row, its fields as text.
pub(crate) type Row = Vec<Option<String>>;

/// A session with the server.
pub(crate) struct Connection {
    stream: UnixStream,
    protocol: postgres::Connection,
    /// Whether anything was received from the server.
    has_received: bool,
    /// An answer was not read to its end: the next bytes, if any, are a part of it.
    is_lost: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("is_lost", &self.is_lost)
            .finish_non_exhaustive()
    }
}

/// The error of a session or a query.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no answer, or no further one.
    Lost(io::Error),
    /// The server returned an error.
    Refused(ServerError),
    /// The text contains a zero byte, which the protocol cannot transmit; nothing was sent.
    ZeroByte,
}

impl Failure {
    /// 57P03: the server runs but is not ready.
    pub(crate) fn is_starting_up(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.sqlstate == "57P03")
    }

    /// Converts it to an error of this crate, which occurred while `doing`.
    pub(crate) fn during(self, doing: &str) -> Error {
        match self {
            Self::Lost(error) => Error::connection_lost(doing, error),
            Self::Refused(refusal) => Error::refused(doing, &refusal),
            Self::ZeroByte => Error::zero_byte(doing),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        Self::Lost(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Nul => Self::ZeroByte,
            error => Self::Lost(io::Error::new(io::ErrorKind::InvalidInput, error)),
        }
    }
}

impl Connection {
    /// Opens a session on the socket of `port` in `folder`.
    pub(crate) fn open(
        folder: &Path,
        port: u16,
        user: &str,
        database: &str,
    ) -> Result<Self, Failure> {
        let ours: &[_] = if database == ADMIN_DATABASE {
            &ADMIN_SETTINGS
        } else {
            &[]
        };
        let about = [
            ("application_name", "lookaside"),
            ("client_encoding", "UTF8"),
        ];
        let parameters = [&about, ours].concat();
        let startup = Startup::new(user)
            .database(database)
            .parameters(&parameters);
        let limits = Limits {
            message_size_max: MESSAGE_SIZE_MAX,
            ..Limits::default()
        };
        let protocol = postgres::Connection::new(&startup, credentials()?, limits)?;
        let stream = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut connection = Self {
            stream,
            protocol,
            has_received: false,
            is_lost: true,
        };
        connection.exchange(|_| {})?;
        Ok(connection)
    }

    /// Runs one or more statements and returns the rows of all of them.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        self.ask(sql, |row| rows.push(row))?;
        Ok(rows)
    }

    /// Runs one or more statements and discards their rows.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.ask(sql, |_| {})
    }

    /// As [`execute`](Self::execute), but gives up if nothing is received for the timeout.
    pub(crate) fn execute_within(&mut self, sql: &str, timeout: Duration) -> Result<(), Failure> {
        self.stream.set_read_timeout(Some(timeout))?;
        self.execute(sql)
    }

    fn ask(&mut self, sql: &str, take_row: impl FnMut(Row)) -> Result<(), Failure> {
        self.protocol.queue(Request::Query(sql))?;
        self.is_lost = true;
        self.exchange(take_row)
    }

    /// Whether the session is usable: every answer was read completely, and the server has not
    /// closed it since.
    pub(crate) fn is_usable(&mut self) -> bool {
        if self.is_lost || self.stream.set_nonblocking(true).is_err() {
            return false;
        }
        let is_open = loop {
            match self.receive() {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
        };
        // A server that ends a session sends the reason first.
        while let Ok(Some(event)) = self.protocol.next_event() {
            if matches!(event, Event::Fatal { .. }) {
                return false;
            }
        }
        is_open && self.stream.set_nonblocking(false).is_ok()
    }

    /// The connection, if it can be used.
    pub(crate) fn if_usable(mut self) -> Option<Self> {
        self.is_usable().then_some(self)
    }

    /// Closes the session without waiting for an answer.
    pub(crate) fn hang_up(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends the query, and passes rows on until it is answered; also after an error, so that the
    /// session stays usable.
    fn exchange(&mut self, mut take_row: impl FnMut(Row)) -> Result<(), Failure> {
        let mut refusal = None;
        loop {
            if let Err(error) = self.send() {
                // A server that cannot fork a process may have sent its error and closed before it
                // read.
                self.receive()?;
                return Err(error.into());
            }
            let mut copies = false;
            while let Some(event) = self.protocol.next_event()? {
                match event {
                    Event::Ready { .. } => {
                        self.is_lost = false;
                        return refusal.map_or(Ok(()), |refusal| Err(Failure::Refused(refusal)));
                    }
                    Event::DataRow { row, .. } => take_row(row_of(row)),
                    Event::Failed { error, .. } => refusal = Some(error.into()),
                    // The server sent an error and closed the connection.
                    Event::Fatal { error } => return Err(Failure::Refused(error.into())),
                    Event::Closed => {
                        let lost = Failure::Lost(io::ErrorKind::UnexpectedEof.into());
                        return Err(refusal.map_or(lost, Failure::Refused));
                    }
                    Event::CopyIn { .. } => copies = true,
                    _ => {}
                }
            }
            if copies {
                // There is no data to send.
                self.protocol
                    .copy_fail("COPY FROM STDIN needs a client of its own")?;
            } else if self.receive()? == 0 {
                self.protocol.end_of_input();
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        self.protocol.take_output(&mut output);
        self.stream.write_all(&output)
    }

    /// Reads once.
    fn receive(&mut self) -> io::Result<usize> {
        let space = self.protocol.receive_space(READ_SIZE);
        let size = loop {
            match self.stream.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                size => break size?,
            }
        };
        if !self.has_received && space[..size].starts_with(FORK_REFUSAL) {
            let said = String::from_utf8_lossy(&space[1..size]);
            let said = said.trim_end_matches(['\0', '\n']);
            return Err(io::Error::other(said));
        }
        self.has_received = true;
        self.protocol.received(size);
        Ok(size)
    }
}

/// Credentials without a password, since the server trusts its socket. A server that requests one
/// nevertheless is refused.
fn credentials() -> io::Result<Credentials> {
    let mut nonce = [0; 18];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(Credentials::new(nonce))
}

fn row_of(row: DataRow<'_>) -> Row {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    row.fields().map(|field| field.map(text)).collect()
}

/// Quotes a name as an SQL identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text as an SQL literal.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_break_out() {
        assert_eq!(identifier(r#"a"; drop"#), r#""a""; drop""#);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
