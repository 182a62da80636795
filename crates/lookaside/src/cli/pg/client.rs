//! A blocking client of PostgreSQL's protocol 3.0, as much of it as a prompt and benchmarks need.
//!
//! Values travel as text, one request or one batch is under way at a time, and nothing is
//! encrypted: it is meant for servers on this machine.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Message, RowDescriptionBody};
use postgres_protocol::message::frontend;

use super::target::{Host, Target};

/// A server on this machine answers within milliseconds, one elsewhere within a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes asked of the socket at once; the server's own buffer has 8 KiB.
const READ_SIZE: usize = 16 << 10;

/// Executions in one batch, whose replies must fit into the sockets' buffers: the client reads none
/// of them before all of the batch is written. A reply without rows has less than 64 bytes, and
/// Linux gives a Unix socket 208 KiB by default.
pub(crate) const BATCH_COUNT_MAX: usize = 1_000;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Error {
    /// The socket failed, or the server spoke something else; the connection is of no more use.
    Connection { doing: String, source: io::Error },
    /// The server refused the request and waits for the next one.
    Refused(Box<Refusal>),
}

/// What the server says about a request that it refused, or that it has a remark on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) severity: String,
    pub(crate) sqlstate: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    fn read(mut fields: ErrorFields<'_>) -> io::Result<Self> {
        let mut refusal = Self::default();
        while let Some(field) = fields.next()? {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'S' => refusal.severity = value,
                b'C' => refusal.sqlstate = value,
                b'M' => refusal.message = value,
                b'D' => refusal.detail = Some(value),
                b'H' => refusal.hint = Some(value),
                _ => {}
            }
        }
        Ok(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.message)?;
        for (name, text) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(text) = text {
                write!(f, "\n{name}: {text}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection { doing, .. } => f.write_str(doing),
            Self::Refused(refusal) => write!(f, "{refusal} (SQLSTATE {})", refusal.sqlstate),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection { source, .. } => Some(source),
            Self::Refused(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        let doing = match source.kind() {
            // Such as a zero byte; nothing of it was sent.
            io::ErrorKind::InvalidInput => "the statement cannot be sent",
            _ => "the connection to the server broke",
        };
        Self::Connection {
            doing: doing.to_owned(),
            source,
        }
    }
}

/// What a statement left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) columns: Vec<Column>,
    /// The first of the rows; `None` is NULL.
    pub(crate) rows: Vec<Vec<Option<String>>>,
    /// Rows beyond those that the caller wanted to see.
    pub(crate) rows_left_out: u64,
    /// What `COPY … TO STDOUT` writes.
    pub(crate) copied: Vec<u8>,
    /// Such as `INSERT 0 1`.
    pub(crate) tag: String,
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) type_oid: u32,
}

/// How a batch of executions is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// One Sync behind all of them: they are one transaction.
    OneSync,
    /// A Sync behind each: each is a transaction of its own.
    SyncEach,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection, which ends in good order when it is dropped.
pub(crate) struct Client {
    stream: Stream,
    is_broken: bool,
    input: BytesMut,
    output: BytesMut,
    chunk: Box<[u8; READ_SIZE]>,
    server_version: String,
    notices: Vec<Refusal>,
}

impl Client {
    /// Connects and logs in.
    pub(crate) fn connect(target: &Target) -> Result<Self> {
        let stream = Stream::connect(target).map_err(|source| Error::Connection {
            doing: format!("cannot connect to {target}"),
            source,
        })?;
        let mut client = Self {
            stream,
            is_broken: false,
            input: BytesMut::new(),
            output: BytesMut::new(),
            chunk: Box::new([0; READ_SIZE]),
            server_version: String::new(),
            notices: Vec::new(),
        };
        client.log_in(target).map_err(|error| match error {
            Error::Connection { source, .. } => Error::Connection {
                doing: format!("cannot log in at {target} as {}", target.user),
                source,
            },
            refused @ Error::Refused(_) => refused,
        })?;
        Ok(client)
    }

    /// The server's version as it says it, such as `18.6`.
    pub(crate) fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Whether the server has gone, so that no request can be answered any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The remarks that came with the answers since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.notices)
    }

    /// Runs one or more statements; of each answer at most `row_count_max` rows are kept.
    pub(crate) fn query(&mut self, sql: &str, row_count_max: usize) -> Result<Vec<Answer>> {
        frontend::query(sql, self.request())?;
        self.flush()?;
        let mut answers = Vec::new();
        let mut answer = Answer::default();
        self.settle(|message| {
            match message {
                Message::RowDescription(body) => answer.columns = columns(&body)?,
                Message::DataRow(body) if answer.rows.len() < row_count_max => {
                    answer.rows.push(row(&body)?);
                }
                Message::DataRow(_) => answer.rows_left_out += 1,
                Message::CopyData(body) => answer.copied.extend_from_slice(body.data()),
                Message::CommandComplete(body) => {
                    body.tag()?.clone_into(&mut answer.tag);
                    answers.push(std::mem::take(&mut answer));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(answers)
    }

    /// Runs one or more statements and hands the bytes of each row on.
    pub(crate) fn run(&mut self, sql: &str, row: &mut dyn FnMut(&[u8])) -> Result<()> {
        frontend::query(sql, self.request())?;
        self.flush()?;
        self.settle_rows(row)
    }

    /// Prepares a statement with parameters `$1`, `$2` … under a name.
    pub(crate) fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        frontend::parse(name, sql, [], self.request())?;
        frontend::sync(&mut self.output);
        self.flush()?;
        self.settle(|_| Ok(()))
    }

    /// Executes a prepared statement and hands the bytes of each row on.
    pub(crate) fn execute(
        &mut self,
        name: &str,
        params: &[impl AsRef<str>],
        row: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        self.request();
        self.add_execution(name, params)?;
        frontend::sync(&mut self.output);
        self.flush()?;
        self.settle_rows(row)
    }

    /// Executes a prepared statement without rows once for each set of parameters, all of them sent
    /// before the first reply is read.
    pub(crate) fn execute_batch<P: AsRef<str>, const N: usize>(
        &mut self,
        name: &str,
        params: &[[P; N]],
        batch: Batch,
    ) -> Result<()> {
        let count = params.len();
        assert!(
            count <= BATCH_COUNT_MAX,
            "a larger batch could wait for itself"
        );
        self.request();
        for params in params {
            self.add_execution(name, params)?;
            if batch == Batch::SyncEach {
                frontend::sync(&mut self.output);
            }
        }
        let sync_count = match batch {
            Batch::SyncEach => count,
            Batch::OneSync => {
                frontend::sync(&mut self.output);
                1
            }
        };
        self.flush()?;
        let mut outcome = Ok(());
        for _ in 0..sync_count {
            match self.settle(|_| Ok(())) {
                // The replies of the others are still to be read.
                Err(refused @ Error::Refused(_)) => outcome = outcome.and(Err(refused)),
                settled => settled?,
            }
        }
        outcome
    }

    /// The buffer of what is to be sent, without what is left of a request that could not be.
    fn request(&mut self) -> &mut BytesMut {
        self.output.clear();
        &mut self.output
    }

    fn add_execution(&mut self, name: &str, params: &[impl AsRef<str>]) -> Result<()> {
        let formats_text: [i16; 0] = [];
        frontend::bind(
            "",
            name,
            formats_text,
            params,
            |param, buf| {
                buf.extend_from_slice(param.as_ref().as_bytes());
                Ok(IsNull::No)
            },
            formats_text,
            &mut self.output,
        )
        .map_err(|error| match error {
            frontend::BindError::Conversion(error) => io::Error::other(error),
            frontend::BindError::Serialization(error) => error,
        })?;
        frontend::execute("", 0, &mut self.output)?;
        Ok(())
    }

    fn log_in(&mut self, target: &Target) -> Result<()> {
        let parameters = [
            ("user", target.user.as_str()),
            ("database", &target.database),
            ("application_name", "lookaside"),
            ("client_encoding", "UTF8"),
        ];
        frontend::startup_message(parameters, &mut self.output)?;
        self.flush()?;
        let password = || {
            let missing = "the server asks for a password, and the URL has none";
            let password = target.password.as_deref();
            password.ok_or_else(|| io::Error::new(io::ErrorKind::PermissionDenied, missing))
        };
        loop {
            match self.read()? {
                Message::AuthenticationOk => return self.settle(|_| Ok(())),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?.as_bytes(), &mut self.output)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash =
                        md5_hash(target.user.as_bytes(), password()?.as_bytes(), body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.output)?;
                }
                Message::AuthenticationSasl(body) => {
                    let mut mechanisms = body.mechanisms();
                    if !mechanisms.any(|mechanism| Ok(mechanism == SCRAM_SHA_256))? {
                        return Err(unexpected("a login other than SCRAM-SHA-256").into());
                    }
                    self.log_in_by_scram(password()?)?;
                    continue;
                }
                Message::ErrorResponse(body) => return Err(refused(body.fields())?),
                Message::NoticeResponse(_) => continue,
                _ => return Err(unexpected("an unknown kind of login").into()),
            }
            self.flush()?;
        }
    }

    fn log_in_by_scram(&mut self, password: &str) -> Result<()> {
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.output)?;
        self.flush()?;
        match self.read()? {
            Message::AuthenticationSaslContinue(body) => scram.update(body.data())?,
            Message::ErrorResponse(body) => return Err(refused(body.fields())?),
            _ => return Err(unexpected("no challenge of SCRAM").into()),
        }
        frontend::sasl_response(scram.message(), &mut self.output)?;
        self.flush()?;
        match self.read()? {
            Message::AuthenticationSaslFinal(body) => Ok(scram.finish(body.data())?),
            Message::ErrorResponse(body) => Err(refused(body.fields())?),
            _ => Err(unexpected("no end of SCRAM").into()),
        }
    }

    fn settle_rows(&mut self, row: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.settle(|message| {
            if let Message::DataRow(body) = message {
                row(body.buffer());
            }
            Ok(())
        })
    }

    /// Reads until the server waits for the next request. What it refused is told then, and what
    /// `each` cannot read breaks the connection.
    fn settle(&mut self, mut each: impl FnMut(Message) -> io::Result<()>) -> Result<()> {
        let mut refusal = None;
        loop {
            let message = match (self.read(), refusal.take()) {
                // A server that ends says why and closes.
                (Err(_), Some(refused)) => return Err(refused),
                (message, known) => {
                    refusal = known;
                    message?
                }
            };
            match message {
                Message::ReadyForQuery(_) => return refusal.map_or(Ok(()), Err),
                Message::ErrorResponse(body) => {
                    let refused = refused(body.fields())?;
                    refusal = refusal.or(Some(refused));
                }
                Message::NoticeResponse(body) => {
                    self.notices.push(Refusal::read(body.fields())?);
                }
                Message::ParameterStatus(body) => {
                    if body.name()? == "server_version" {
                        body.value()?.clone_into(&mut self.server_version);
                    }
                }
                Message::CopyInResponse(_) => {
                    frontend::copy_fail("COPY FROM STDIN needs psql", &mut self.output)?;
                    self.flush()?;
                }
                message => each(message)?,
            }
        }
    }

    fn read(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.input)? {
                return Ok(message);
            }
            let size = match self.stream.read(self.chunk.as_mut_slice()) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                size => size,
            };
            self.is_broken = size.is_err();
            let size = size?;
            self.input.extend_from_slice(&self.chunk[..size]);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.output);
        self.is_broken = sent.is_err();
        self.output.clear();
        sent
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        frontend::terminate(self.request());
        // A server that has gone already needs no farewell.
        let _ = self.flush();
    }
}

impl Stream {
    fn connect(target: &Target) -> io::Result<Self> {
        let Host::Name(name) = &target.host else {
            let socket = target.socket().expect("a folder holds a socket");
            return UnixStream::connect(socket).map(Self::Unix);
        };
        let mut outcome = Err(io::ErrorKind::NotFound.into());
        for address in (name.as_str(), target.port).to_socket_addrs()? {
            outcome = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
            if outcome.is_ok() {
                break;
            }
        }
        let stream = outcome?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let size = match self {
                Self::Tcp(stream) => stream.read(buf),
                Self::Unix(stream) => stream.read(buf),
            };
            match size {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                size => return size,
            }
        }
    }

    fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(buf),
            Self::Unix(stream) => stream.write_all(buf),
        }
    }
}

fn refused(fields: ErrorFields<'_>) -> io::Result<Error> {
    Ok(Error::Refused(Box::new(Refusal::read(fields)?)))
}

fn unexpected(what: &str) -> io::Error {
    let text = format!("the server came with {what}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn columns(body: &RowDescriptionBody) -> io::Result<Vec<Column>> {
    let column = |field: postgres_protocol::message::backend::Field<'_>| {
        Ok(Column {
            name: field.name().to_owned(),
            type_oid: field.type_oid(),
        })
    };
    body.fields().map(column).collect()
}

fn row(body: &DataRowBody) -> io::Result<Vec<Option<String>>> {
    let text = |range: Option<std::ops::Range<usize>>| {
        Ok(range.map(|range| String::from_utf8_lossy(&body.buffer()[range]).into_owned()))
    };
    body.ranges().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// A message of the server.
    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(body.len() + 4).unwrap();
        [&[tag], &size.to_be_bytes()[..], body].concat()
    }

    const READY: &[u8] = b"I";

    fn refusal(severity: &str, text: &str) -> Vec<u8> {
        message(b'E', format!("S{severity}\0C22P02\0M{text}\0\0").as_bytes())
    }

    /// A client and a server that reads one request, says the next of `replies`, and closes after
    /// the last. The first is said after the startup message.
    fn client(replies: Vec<Vec<u8>>) -> Client {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("postgres:///d?host={}&user=u", folder.path().display());
        let target: Target = url.parse().unwrap();
        let listener = UnixListener::bind(target.socket().unwrap()).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for reply in replies {
                // Each request here is written at once, and is smaller than that.
                let size = stream.read(&mut [0; 4096]).unwrap();
                assert!(size > 0);
                // In pieces, as a slow network brings them.
                for byte in reply {
                    stream.write_all(&[byte]).unwrap();
                }
            }
        });
        Client::connect(&target).unwrap()
    }

    fn logged_in() -> Vec<u8> {
        let status = message(b'S', b"server_version\x0018.6\0");
        [message(b'R', &[0; 4]), status, message(b'Z', READY)].concat()
    }

    #[test]
    fn one_refused_execution_of_a_batch_leaves_the_others_their_replies() {
        let done = || {
            [
                message(b'2', b""),
                message(b'C', b"UPDATE 1\0"),
                message(b'Z', READY),
            ]
            .concat()
        };
        let refused = [refusal("ERROR", "no number"), message(b'Z', READY)].concat();
        let answer = [
            message(
                b'T',
                b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
            ),
            message(b'D', b"\0\x01\0\0\0\x017"),
            message(b'D', b"\0\x01\xff\xff\xff\xff"),
            message(b'D', b"\0\x01\0\0\0\0"),
            message(b'C', b"SELECT 3\0"),
            message(b'Z', READY),
        ]
        .concat();
        let mut client = client(vec![
            logged_in(),
            [done(), refused, done()].concat(),
            answer,
        ]);
        assert_eq!(client.server_version(), "18.6");
        let batch = client.execute_batch("u", &[["1"], ["x"], ["3"]], Batch::SyncEach);
        assert!(matches!(batch, Err(Error::Refused(refusal)) if refusal.message == "no number"));
        let answers = client.query("select a", 2).unwrap();
        let expected = Answer {
            columns: vec![Column {
                name: "a".into(),
                type_oid: 23,
            }],
            rows: vec![vec![Some("7".into())], vec![None]],
            rows_left_out: 1,
            copied: Vec::new(),
            tag: "SELECT 3".into(),
        };
        assert_eq!(answers, [expected]);
        assert!(!client.is_broken());
    }

    #[test]
    fn a_server_that_ends_is_believed_its_reason() {
        let mut client = client(vec![logged_in(), refusal("FATAL", "shutting down")]);
        let refused = client.query("select 1", 1).unwrap_err();
        assert_eq!(refused.to_string(), "FATAL: shutting down (SQLSTATE 22P02)");
        assert!(client.is_broken());
    }

    #[test]
    fn text_that_cannot_be_sent_breaks_nothing() {
        let empty = [message(b'I', b""), message(b'Z', READY)].concat();
        let mut client = client(vec![logged_in(), empty]);
        let unsent = client.query("select '\0'", 1).unwrap_err();
        assert_eq!(unsent.to_string(), "the statement cannot be sent");
        assert_eq!(client.query("", 1).unwrap(), []);
    }
}
