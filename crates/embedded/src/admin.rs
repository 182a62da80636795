//! A connection that administers: a startup packet and simple queries on the cluster's own socket.
//!
//! The socket's folder is private and its server trusts it, so no authentication stands here.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::cluster::HOME;

/// Longest wait for a reply. `CREATE DATABASE` copies files; migrations may be long.
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);

/// Largest message taken from the server: what we ask for fits many times.
const MESSAGE_SIZE_MAX: usize = 64 << 20;

/// Protocol 3.0, see "StartupMessage" in PostgreSQL's manual.
const PROTOCOL_VERSION: i32 = 3 << 16;

/// What our own sessions are not to take from the server's settings: an end of theirs before ours,
/// and a log with passwords in it.
const HOME_SETTINGS: [(&str, &str); 10] = [
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
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
    /// An answer did not come to its end: what comes next, if anything, is a part of it.
    is_lost: bool,
}

/// Why there is no session or no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody answers, or no longer.
    Lost(io::Error),
    /// The server said no.
    Refused(Refusal),
    /// No text of the protocol holds a zero byte, so nothing was sent.
    ZeroByte,
}

/// The fields of an ErrorResponse that matter here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    pub(crate) detail: String,
    /// Characters into the query, from 1.
    pub(crate) position: Option<usize>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.sqlstate)?;
        if !self.detail.is_empty() {
            write!(f, "; {}", self.detail)?;
        }
        Ok(())
    }
}

impl Failure {
    /// 57P03: the server is there but not ready.
    pub(crate) fn is_starting_up(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.sqlstate == "57P03")
    }

    /// As an error of this crate, in the course of `doing`.
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

impl Connection {
    /// Opens a session on the socket of `port` in `folder`.
    pub(crate) fn open(
        folder: &Path,
        port: u16,
        user: &str,
        database: &str,
    ) -> Result<Self, Failure> {
        if user.contains('\0') || database.contains('\0') {
            return Err(Failure::ZeroByte);
        }
        let stream = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut connection = Self {
            stream: BufReader::new(stream),
            is_lost: true,
        };
        let mut startup = PROTOCOL_VERSION.to_be_bytes().to_vec();
        let ours = HOME_SETTINGS.iter().filter(|_| database == HOME);
        for (name, value) in [
            ("user", user),
            ("database", database),
            ("application_name", "lookaside"),
            ("client_encoding", "UTF8"),
        ]
        .iter()
        .chain(ours)
        {
            for text in [name, value] {
                startup.extend_from_slice(text.as_bytes());
                startup.push(0);
            }
        }
        startup.push(0);
        connection.send(None, &startup)?;
        connection.receive_until_ready(|_| Ok(()))?;
        Ok(connection)
    }

    /// Runs one or more statements and returns the rows of all of them.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        self.send_query(sql)?;
        self.receive_until_ready(|body| {
            rows.push(row_of(body).ok_or_else(|| garbled("DataRow"))?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Runs one or more statements and forgets their rows as they come.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.send_query(sql)?;
        self.receive_until_ready(|_| Ok(()))
    }

    fn send_query(&mut self, sql: &str) -> Result<(), Failure> {
        if sql.contains('\0') {
            return Err(Failure::ZeroByte);
        }
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.is_lost = true;
        self.send(Some(b'Q'), &body)?;
        Ok(())
    }

    /// Whether it can be asked: every answer came to its end, and the server has not ended it since.
    pub(crate) fn is_usable(&mut self) -> bool {
        if self.is_lost || self.stream.get_ref().set_nonblocking(true).is_err() {
            return false;
        }
        let is_open = match self.stream.fill_buf() {
            // Nothing: closed. ErrorResponse: the server says why it closes it.
            Ok(unasked) => unasked.first().is_some_and(|kind| *kind != b'E'),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        is_open && self.stream.get_ref().set_nonblocking(false).is_ok()
    }

    /// Itself, if it can be asked.
    pub(crate) fn if_usable(mut self) -> Option<Self> {
        self.is_usable().then_some(self)
    }

    /// Tells the server that nobody listens any more.
    pub(crate) fn hang_up(&self) {
        // It may know.
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let size = i32::try_from(body.len() + 4)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "SQL is longer than 2 GB"))?;
        let mut message = Vec::with_capacity(body.len() + 5);
        message.extend(kind);
        message.extend_from_slice(&size.to_be_bytes());
        message.extend_from_slice(body);
        self.stream.get_mut().write_all(&message)
    }

    /// Passes rows on up to ReadyForQuery; after a refusal too, so that the session stays usable.
    fn receive_until_ready(
        &mut self,
        mut take_row: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut refusal = None;
        loop {
            let (kind, body) = match self.receive() {
                Ok(message) => message,
                // FATAL: the server explained itself and hung up.
                Err(error) => return Err(refusal.map_or(Failure::Lost(error), Failure::Refused)),
            };
            match kind {
                b'Z' => {
                    self.is_lost = false;
                    break;
                }
                b'D' => take_row(&body)?,
                b'E' => refusal = Some(refusal_of(&body)),
                b'R' if body != [0; 4] => {
                    return Err(garbled("authentication that was not asked for").into());
                }
                // COPY from a client that has nothing to give: CopyFail.
                b'G' => self.send(Some(b'f'), b"COPY FROM STDIN needs a client of its own\0")?,
                _ => {}
            }
        }
        match refusal {
            None => Ok(()),
            Some(refusal) => Err(Failure::Refused(refusal)),
        }
    }

    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, size @ ..] = head;
        let size = usize::try_from(i32::from_be_bytes(size))
            .ok()
            .and_then(|size| size.checked_sub(4));
        let size = size
            .filter(|size| *size <= MESSAGE_SIZE_MAX)
            .ok_or_else(|| garbled("message size"))?;
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

fn garbled(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server sent a wrong {what}"),
    )
}

/// The fields of a DataRow: a count, then each with its size, -1 for NULL.
fn row_of(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_first_chunk()?;
    let mut row = Row::new();
    for _ in 0..i16::from_be_bytes(*count) {
        let (size, after) = rest.split_first_chunk()?;
        let Ok(size) = usize::try_from(i32::from_be_bytes(*size)) else {
            row.push(None);
            rest = after;
            continue;
        };
        let (field, after) = after.split_at_checked(size)?;
        row.push(Some(String::from_utf8_lossy(field).into_owned()));
        rest = after;
    }
    Some(row)
}

/// The fields of an ErrorResponse: a letter and a text each, up to a zero.
fn refusal_of(body: &[u8]) -> Refusal {
    let mut refusal = Refusal::default();
    for field in body.split(|byte| *byte == 0) {
        let Some((letter, text)) = field.split_first() else {
            break;
        };
        let text = String::from_utf8_lossy(text);
        match letter {
            b'C' => refusal.sqlstate = text.into_owned(),
            b'M' => refusal.message = text.into_owned(),
            b'D' => refusal.detail = text.into_owned(),
            b'P' => refusal.position = text.parse().ok(),
            _ => {}
        }
    }
    refusal
}

/// A name as SQL takes it whatever it holds.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL takes it whatever it holds.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_refusals_are_read_and_cut_ones_are_not() {
        let body = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let row = vec![Some("ab".to_owned()), None, Some(String::new())];
        assert_eq!(row_of(body), Some(row));
        for end in 0..body.len() {
            assert_eq!(row_of(&body[..end]), None, "cut at {end}");
        }
        let refusal = refusal_of(b"SERROR\0C42601\0Msyntax error\0P7\0\0");
        assert_eq!(
            (refusal.sqlstate.as_str(), refusal.position),
            ("42601", Some(7))
        );
        assert_eq!(refusal.message, "syntax error");
        refusal_of(b"");
        refusal_of(b"\0C");
    }

    #[test]
    fn names_and_texts_cannot_break_out() {
        assert_eq!(identifier(r#"a"; drop"#), r#""a""; drop""#);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
