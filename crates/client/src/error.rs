//! Errors: what failed between a caller and a server, with kinds and hints.

mod feed;
mod hint;
mod tls;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lookaside_value::RowError;
use lookaside_wire::mysql::ErrPacket;
use lookaside_wire::postgres::{ErrorResponse, SqlState};
use lookaside_wire::{ProtocolError, RequestError};

use crate::{ConfigError, Host, TargetSession};

/// The maximum number of parameters: both protocols count them with two bytes.
pub(crate) const PARAMETER_COUNT_MAX: usize = 65_535;

/// A result of this crate's connections.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a query or a connection.
///
/// It is as large as a pointer, and a clone increments a counter: one lost connection can affect
/// thousands of queries.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    sent: Sent,
    message: Box<str>,
    cause: Option<Cause>,
    /// The connection was refused, or the host is unknown.
    is_unreachable: bool,
}

enum Cause {
    Server(ErrorResponse<'static>),
    Mysql(ErrPacket<'static>),
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// The error of the connection, which its queries share.
    Connection(Error),
    /// The error of a step of a larger operation.
    Step(Error),
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused the statement, a value, or the log-in. [`Error::sqlstate`] has the
    /// reason.
    Refused,
    /// The caller's request is invalid, for example a value does not fit its parameter.
    Misuse,
    /// A limit of this crate was reached; the message names it.
    Limit,
    /// The caller's deadline passed.
    Deadline,
    /// The caller cancelled the query.
    Canceled,
    /// TLS failed: the server does not support it, or its certificate is not trusted.
    Tls,
    /// The server violated the protocol.
    Protocol,
    /// The socket failed or was closed by the server.
    Connection,
    /// The connection was closed by its owner.
    Closed,
}

impl From<RowError> for Error {
    fn from(error: RowError) -> Self {
        Self::row(error)
    }
}

/// Whether a query may have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// No byte of it was written to the socket.
    Nothing,
    /// Some of it was, perhaps all.
    Something,
}

impl Error {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE of the server's error.
    pub fn sqlstate(&self) -> Option<SqlState> {
        match self.mysql() {
            Some(error) => Some(SqlState::new(error.sqlstate())),
            None => self.server()?.sqlstate(),
        }
    }

    /// The position of the error in the SQL, as the number of a character from 1.
    pub fn position(&self) -> Option<u32> {
        self.server()?.position()
    }

    /// The complete error of a PostgreSQL server.
    pub fn server(&self) -> Option<&ErrorResponse<'static>> {
        match &self.0.cause {
            Some(Cause::Server(error)) => Some(error),
            Some(Cause::Connection(error) | Cause::Step(error)) => error.server(),
            _ => None,
        }
    }

    /// The complete error of a MySQL or MariaDB server.
    pub fn mysql(&self) -> Option<&ErrPacket<'static>> {
        match &self.0.cause {
            Some(Cause::Mysql(error)) => Some(error),
            Some(Cause::Connection(error) | Cause::Step(error)) => error.mysql(),
            _ => None,
        }
    }

    /// Whether it is safe and useful to send the query again: no byte of it was sent, so it cannot
    /// be executed twice.
    ///
    /// A read-only query can also be repeated after any loss of the connection; but only its author
    /// knows whether it is read-only, see [`is_connection_lost`](Self::is_connection_lost).
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Refused => self.is_unavailable(),
            ErrorKind::Limit | ErrorKind::Deadline | ErrorKind::Connection | ErrorKind::Closed => {
                self.0.sent == Sent::Nothing
            }
            ErrorKind::Misuse | ErrorKind::Canceled | ErrorKind::Tls | ErrorKind::Protocol => false,
        }
    }

    /// Whether the connection is lost, with all queries on it.
    pub fn is_connection_lost(&self) -> bool {
        match &self.0.cause {
            Some(Cause::Connection(_)) => true,
            _ => matches!(self.0.kind, ErrorKind::Connection | ErrorKind::Closed),
        }
    }

    /// Whether a server refused the log-in temporarily: it is starting, stopping, or has no free
    /// connections.
    fn is_unavailable(&self) -> bool {
        let state = self.sqlstate();
        let state = state.as_ref().map(SqlState::as_bytes);
        let code = self.mysql().map(ErrPacket::code);
        // MySQL: too many connections, too many of one user, shutdown in progress.
        let is_unavailable =
            matches!(state, Some(b"57P03" | b"53300")) || matches!(code, Some(1040 | 1203 | 1053));
        self.0.sent == Sent::Nothing && is_unavailable
    }

    fn new(kind: ErrorKind, sent: Sent, message: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            sent,
            message: message.into(),
            cause: None,
            is_unreachable: false,
        }))
    }

    fn because(kind: ErrorKind, sent: Sent, message: impl Into<Box<str>>, cause: Cause) -> Self {
        Self(Arc::new(Inner {
            kind,
            sent,
            message: message.into(),
            cause: Some(cause),
            is_unreachable: false,
        }))
    }

    /// Marks the error as that of an unreachable server.
    fn unreachable(self) -> Self {
        let inner = Arc::into_inner(self.0).expect("an error that was just made has one owner");
        Self(Arc::new(Inner {
            is_unreachable: true,
            ..inner
        }))
    }

    /// Whether the server cannot be reached at all: the connection is refused, the socket does not
    /// exist, or the host name cannot be resolved. With several hosts, whether that holds for each
    /// of them.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.0.is_unreachable
    }

    pub(crate) fn refused(error: ErrorResponse<'static>) -> Self {
        let message = "the server refused the query";
        let cause = Cause::Server(error);
        Self::because(ErrorKind::Refused, Sent::Something, message, cause)
    }

    pub(crate) fn log_in_refused(error: ErrorResponse<'static>) -> Self {
        let message = "the server refused the log-in";
        let cause = Cause::Server(error);
        Self::because(ErrorKind::Refused, Sent::Nothing, message, cause)
    }

    pub(crate) fn session_ended(error: ErrorResponse<'static>) -> Self {
        let message = "the server ended the session";
        let cause = Cause::Server(error);
        Self::because(ErrorKind::Connection, Sent::Something, message, cause)
    }

    pub(crate) fn mysql_refused(error: ErrPacket<'static>) -> Self {
        let message = "the server refused the query";
        let cause = Cause::Mysql(error);
        Self::because(ErrorKind::Refused, Sent::Something, message, cause)
    }

    pub(crate) fn mysql_log_in_refused(error: ErrPacket<'static>) -> Self {
        let message = "the server refused the log-in";
        let cause = Cause::Mysql(error);
        Self::because(ErrorKind::Refused, Sent::Nothing, message, cause)
    }

    pub(crate) fn mysql_password_missing(error: ErrPacket<'static>) -> Self {
        let message = "the server refused the log-in, for which no password was given";
        let cause = Cause::Mysql(error);
        Self::because(ErrorKind::Refused, Sent::Nothing, message, cause)
    }

    /// The server of a MySQL URL did not send a greeting, and answers PostgreSQL's `SSLRequest`.
    pub(crate) fn server_is_postgres() -> Self {
        let message = "the server is PostgreSQL, not MySQL or MariaDB: its URL begins with \
                       `postgres://`";
        Self::new(ErrorKind::Protocol, Sent::Nothing, message)
    }

    /// The server of a PostgreSQL URL sent a greeting first, as MySQL does.
    pub(crate) fn server_is_mysql() -> Self {
        let message = "the server is MySQL or MariaDB, not PostgreSQL: its URL begins with \
                       `mysql://`";
        Self::new(ErrorKind::Protocol, Sent::Nothing, message)
    }

    pub(crate) fn mysql_session_ended(error: ErrPacket<'static>) -> Self {
        let message = "the server ended the session";
        let cause = Cause::Mysql(error);
        Self::because(ErrorKind::Connection, Sent::Something, message, cause)
    }

    pub(crate) fn statement_limit(error: ErrPacket<'static>) -> Self {
        let message = "the server accepts no more prepared statements: increase its \
                       `max_prepared_stmt_count`, or lower `Options::statement_count_max`";
        let cause = Cause::Mysql(error);
        Self::because(ErrorKind::Refused, Sent::Something, message, cause)
    }

    pub(crate) fn columns_unknown() -> Self {
        let message = "the rows do not fit the columns that the server described before";
        Self::new(ErrorKind::Protocol, Sent::Something, message)
    }

    pub(crate) fn unprepared_execution() -> Self {
        let message = "the server executed a statement that it had refused to prepare";
        Self::new(ErrorKind::Protocol, Sent::Something, message)
    }

    pub(crate) fn local_infile_refused() -> Self {
        let message =
            "the server requested a local file (`LOAD DATA LOCAL`), which is not supported";
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn no_server_key(
        path: &Path,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let message = format!("cannot read the server's public key {}", path.display());
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    pub(crate) fn end_of_stream() -> Self {
        let message = "the server closed the connection";
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn socket(error: io::Error) -> Self {
        let message = "the connection to the server was lost";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Connection, Sent::Something, message, cause)
    }

    pub(crate) fn cannot_connect(host: &Host, error: io::Error) -> Self {
        let message = format!("cannot connect to {}", host.plain());
        // NotFound is a Unix socket that does not exist.
        let is_unreachable = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
        );
        let cause = Cause::Other(error.into());
        let error = Self::because(ErrorKind::Connection, Sent::Nothing, message, cause);
        match is_unreachable {
            true => error.unreachable(),
            false => error,
        }
    }

    /// A host name that cannot be resolved.
    pub(crate) fn unknown_host(host: &Host, error: io::Error) -> Self {
        Self::cannot_connect(host, error).unreachable()
    }

    /// The error of a connection attempt, with the host added if it is missing.
    pub(crate) fn no_session(host: &Host, error: Self) -> Self {
        let place = host.plain();
        let is_clear = error.0.kind == ErrorKind::Misuse || error.0.message.contains(&place);
        if is_clear {
            return error;
        }
        let message = format!("cannot log in to {place}");
        let kind = error.0.kind;
        Self::because(kind, Sent::Nothing, message, Cause::Step(error))
    }

    /// Combines the errors of all attempts; there is at least one.
    pub(crate) fn no_server(mut errors: Vec<Self>) -> Self {
        let last = errors.pop().expect("a configuration has a host");
        if errors.is_empty() {
            return last;
        }
        let mut message = "none of the servers can be used: ".to_owned();
        for error in &errors {
            let mut source = Some(error as &dyn std::error::Error);
            while let Some(error) = source {
                message.push_str(&error.to_string());
                source = error.source();
                message.push_str(if source.is_some() { ": " } else { "; " });
            }
        }
        message.push_str("and the last:");
        let kind = last.0.kind;
        let is_unreachable = last.is_unreachable() && errors.iter().all(Self::is_unreachable);
        let error = Self::because(kind, Sent::Nothing, message, Cause::Step(last));
        match is_unreachable {
            true => error.unreachable(),
            false => error,
        }
    }

    /// A server that does not match `target_session_attrs`.
    pub(crate) fn unfit_session(wanted: TargetSession) -> Self {
        let message = match wanted {
            TargetSession::ReadWrite => "the session is read-only",
            TargetSession::ReadOnly => "the session is not read-only",
            TargetSession::Primary => "the server is a standby",
            _ => "the server is not a standby",
        };
        let message = format!("{message}, which `target_session_attrs` does not allow");
        Self::new(ErrorKind::Connection, Sent::Nothing, message)
    }

    /// Whether the server does not admit such a user at all, or not on such a transport.
    pub(crate) fn is_log_in_unwanted(&self) -> bool {
        let state = self.sqlstate();
        state.is_some_and(|state| state.as_bytes() == b"28000")
    }

    pub(crate) fn host_timeout(host: &Host) -> Self {
        let error = io::ErrorKind::TimedOut.into();
        Self::cannot_connect(host, error)
    }

    pub(crate) fn too_early() -> Self {
        let message = "the session may not satisfy `target_session_attrs`; wait until it is ready";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_random_bytes(error: getrandom::Error) -> Self {
        let message = "the system returned no random bytes for the log-in";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Connection, Sent::Nothing, message, cause)
    }

    pub(crate) fn protocol(error: ProtocolError) -> Self {
        if error.is_foreign_greeting() {
            return Self::server_is_mysql();
        }
        if error.is_password_missing() {
            let message = "the server requires a password";
            let cause = Cause::Other(error.into());
            return Self::because(ErrorKind::Refused, Sent::Nothing, message, cause);
        }
        let (kind, message) = if error.is_tls_missing() {
            (ErrorKind::Tls, "the server does not offer TLS")
        } else if error.kind() == lookaside_wire::ErrorKind::Authentication {
            (
                ErrorKind::Protocol,
                "client and server have no common authentication method",
            )
        } else {
            (ErrorKind::Protocol, "the server violated the protocol")
        };
        let cause = Cause::Other(error.into());
        Self::because(kind, Sent::Something, message, cause)
    }

    pub(crate) fn bad_field(
        column: &str,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let message = format!("column `{column}` cannot be read");
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Protocol, Sent::Something, message, cause)
    }

    pub(crate) fn column_changed(column: &str) -> Self {
        let message = format!(
            "the type of column `{column}` has changed, and its format was requested for the \
             previous type"
        );
        Self::new(ErrorKind::Protocol, Sent::Something, message)
    }

    pub(crate) fn bad_width(found: usize, described: usize) -> Self {
        let message = format!("a row has {found} values where {described} were described");
        Self::new(ErrorKind::Protocol, Sent::Something, message)
    }

    pub(crate) fn no_row() -> Self {
        let message = "the statement returned no row, but one was expected; use `query_opt` if \
                       there may be none";
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn too_many_rows(count: usize) -> Self {
        let message = format!(
            "the statement returned {count} rows, but at most one was expected; use `query` for \
             more"
        );
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn config(error: ConfigError) -> Self {
        let message = "the connection URL cannot be used";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    pub(crate) fn row(error: RowError) -> Self {
        let message = "the answer cannot be converted to the requested type";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Something, message, cause)
    }

    pub(crate) fn request(error: RequestError) -> Self {
        let message = "the request cannot be sent";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    pub(crate) fn misfit(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = "a value does not fit its parameter";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    pub(crate) fn parameter_count(given: usize, wanted: usize) -> Self {
        let message = format!("{given} values were given for {wanted} parameters");
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    /// The error of a statement with more parameters than the protocols support.
    pub(crate) fn too_many_parameters(count: usize) -> Self {
        let message = format!(
            "{count} values were given, but a statement can have at most 65,535: send fewer at a \
             time, one array instead of many values, or many parameter sets of one statement"
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    /// The connection ended while a request was in flight that may have been too large for the
    /// server.
    pub(crate) fn request_may_be_too_large(size: usize, error: Self) -> Self {
        let message = format!(
            "the connection ended during a request of {size} bytes; the server closes a connection \
             if a request exceeds its `max_allowed_packet`"
        );
        Self::because(error.0.kind, error.0.sent, message, Cause::Step(error))
    }

    pub(crate) fn no_copy() -> Self {
        let message = "only a COPY statement can copy data; send other statements as queries";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn copy_direction(wanted: &str) -> Self {
        let message = format!("the statement is not {wanted}");
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn no_copy_here() -> Self {
        let message = "only PostgreSQL has COPY";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_channel(channel: &str) -> Self {
        let message = format!(
            "{channel:?} is not a channel: their names have up to 63 bytes, none of which is a NUL"
        );
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_listening() -> Self {
        let message = "LISTEN does not work behind a pooler: connect to the server itself, with \
                       `Route::Direct`";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn no_portal() -> Self {
        let message = "the transaction of the row stream has ended";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn copy_refused() -> Self {
        let message =
            "a COPY from or to the client is not a query; see `Request::copy_in` and `copy_out`";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn configuration(error: ConfigError) -> Self {
        let message = "the configuration cannot be used";
        let cause = Cause::Other(error.into());
        Self::because(ErrorKind::Misuse, Sent::Nothing, message, cause)
    }

    pub(crate) fn no_scripts() -> Self {
        let message =
            "scripts are not supported for MySQL and MariaDB; send the statements one by one";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn copy_in_refused() -> Self {
        let message =
            "a script cannot contain the data of COPY FROM STDIN; use psql for such a file";
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn too_many_queries(query_count_max: usize) -> Self {
        let message = format!(
            "{query_count_max} queries are already waiting; see `Options::query_count_max`"
        );
        Self::new(ErrorKind::Limit, Sent::Nothing, message)
    }

    pub(crate) fn result_too_large(result_size_max: usize) -> Self {
        let message = format!(
            "the result is larger than {result_size_max} bytes; see `Options::result_size_max`"
        );
        Self::new(ErrorKind::Limit, Sent::Something, message)
    }

    pub(crate) fn deadline(sent: Sent) -> Self {
        let message = "the deadline passed";
        Self::new(ErrorKind::Deadline, sent, message)
    }

    /// Mentions the pool's option, if the deadline resulted from it.
    pub(crate) fn naming_timeout(self, timeout: Duration) -> Self {
        if self.0.kind != ErrorKind::Deadline {
            return self;
        }
        let message = format!("no answer within {timeout:?}; see `PoolOptions::query_timeout`");
        let sent = self.0.sent;
        Self::because(ErrorKind::Deadline, sent, message, Cause::Step(self))
    }

    pub(crate) fn canceled(sent: Sent) -> Self {
        let message = "the query was cancelled";
        Self::new(ErrorKind::Canceled, sent, message)
    }

    pub(crate) fn still_in_transaction() -> Self {
        let message = "a transaction could not be rolled back, and the connection was closed";
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn not_released() -> Self {
        let message = "the queries of a dropped lock, or the end of its transaction, were not \
                       answered within `PoolOptions::check_timeout`, and the connection was \
                       closed";
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn database_chosen() -> Self {
        let message = "a session that began without a database and has selected one cannot be \
                       reset; the connection was closed: name a database in the URL";
        Self::new(ErrorKind::Connection, Sent::Something, message)
    }

    pub(crate) fn rolled_back() -> Self {
        let message = "the transaction had failed, and was rolled back instead of committed";
        Self::new(ErrorKind::Refused, Sent::Something, message)
    }

    pub(crate) fn transaction_gone() -> Self {
        let message = "the server has rolled back the transaction because of an earlier error";
        Self::new(ErrorKind::Refused, Sent::Nothing, message)
    }

    pub(crate) fn shared_transaction() -> Self {
        let message = "a transaction requires its own connection: see `Pool::lock`";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn shared_session() -> Self {
        let message = "a change of the session requires its own connection, because this one is \
                       shared: see `Pool::lock`; statements for all sessions belong in \
                       `PoolOptions::session`";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    /// Why a shared connection was closed.
    pub(crate) fn left_in_transaction() -> Self {
        let message = "a statement left a transaction open on a shared connection; the connection \
                       was closed, and uncommitted changes were rolled back: a transaction \
                       requires its own connection, see `Pool::lock`";
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    /// Why a shared connection was closed.
    pub(crate) fn autocommit_off() -> Self {
        let message = "autocommit is off on a shared connection; the connection was closed, and \
                       uncommitted changes were rolled back: turning it off requires its own \
                       connection, see `Pool::lock`";
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    /// Why a connection was closed: with this `setting`, texts would be misinterpreted.
    pub(crate) fn other_encoding(setting: &str, value: &str, required: &str) -> Self {
        let message = format!(
            "a statement set `{setting}` to `{value}`; the connection was closed, because text is \
             sent and read as {required} and would be stored wrongly: keep `{required}`"
        );
        Self::new(ErrorKind::Misuse, Sent::Something, message)
    }

    pub(crate) fn begins_without_autocommit() -> Self {
        let message = "autocommit is off in the sessions of this pool, so all requests would \
                       become parts of one transaction: such a request requires its own \
                       connection, see `Pool::lock`; `set autocommit = 1` in \
                       `PoolOptions::session` turns it on";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn closed() -> Self {
        let message = "the connection was closed";
        Self::new(ErrorKind::Closed, Sent::Something, message)
    }

    pub(crate) fn no_runtime() -> Self {
        let message = "opening a connection requires a tokio runtime with time and I/O enabled";
        Self::new(ErrorKind::Misuse, Sent::Nothing, message)
    }

    pub(crate) fn connect_timeout(timeout: Duration) -> Self {
        let message = format!("no connection was opened within {timeout:?}");
        let cause = Cause::Other(io::Error::from(io::ErrorKind::TimedOut).into());
        Self::because(ErrorKind::Connection, Sent::Nothing, message, cause)
    }

    /// The error of a session set-up statement. No query was sent.
    pub(crate) fn session(sql: &str, error: Self) -> Self {
        let message = format!("the session statement `{sql}` failed");
        Self::because(error.kind(), Sent::Nothing, message, Cause::Step(error))
    }

    /// No connection was available in time, possibly because none could be established. Nothing was
    /// sent.
    pub(crate) fn no_connection(timeout: Duration, why: Option<Self>) -> Self {
        let message = format!(
            "no connection was free within {timeout:?}; see `PoolOptions::acquire_timeout`"
        );
        match why {
            Some(why) => Self::because(why.kind(), Sent::Nothing, message, Cause::Step(why)),
            None => Self::new(ErrorKind::Limit, Sent::Nothing, message),
        }
    }

    /// The pool is opening its first connection, and the server has not answered.
    pub(crate) fn not_opened() -> Self {
        let message = "the server has not answered the first connection yet; check its address, and \
                       whether a firewall is in between";
        Self::new(ErrorKind::Connection, Sent::Nothing, message)
    }

    pub(crate) fn pool_closed() -> Self {
        Self::new(ErrorKind::Closed, Sent::Something, "the pool was closed")
    }

    /// Converts the error of a connection to that of a query on it.
    pub(crate) fn of_query(&self, sent: Sent) -> Self {
        let message = match sent {
            Sent::Nothing => "the connection ended before the query was sent",
            Sent::Something => "the connection ended before the query was answered",
        };
        let kind = match self.0.kind {
            ErrorKind::Closed => ErrorKind::Closed,
            _ => ErrorKind::Connection,
        };
        Self::because(kind, sent, message, Cause::Connection(self.clone()))
    }
}

/// A failed socket, as reported by the owner of a driver.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::socket(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("sent", &self.0.sent)
            .field("message", &self.0.message)
            .field("source", &std::error::Error::source(self))
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.cause.as_ref()? {
            Cause::Server(error) => Some(error),
            Cause::Mysql(error) => Some(error),
            Cause::Other(error) => Some(&**error),
            Cause::Connection(error) | Cause::Step(error) => Some(error),
        }
    }
}
