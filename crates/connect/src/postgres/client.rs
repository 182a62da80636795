//! A connection that is opened again when it is lost.

use std::error::Error as _;
use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Error, ErrorKind, PostgresConfig};

/// The limits of the time between two attempts.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(2);

/// How much of a server's message is shown: one that quotes a value of many megabytes would fill
/// the log.
const REASON_SIZE_MAX: usize = 500;

/// A client of a server.
pub(crate) struct Client {
    name: String,
    config: PostgresConfig,
    connection: Option<Connection>,
    /// The statements that each new session begins with.
    session: Option<String>,
    backoff: Duration,
}

/// Why the server did not do what it should.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It cannot be reached, or cannot do it at the moment; it may later.
    Away(String),
    /// The transaction lost to another one, or a function raised such an error.
    Conflict(String),
    /// A statement was ended because of its time: one with fewer rows may succeed.
    TooLong(String),
    /// It does not accept a row.
    Data(String),
    /// It never will.
    Refused(String),
}

impl Client {
    pub(crate) fn new(name: &str, config: &PostgresConfig) -> Self {
        Self {
            name: name.to_owned(),
            config: config.clone(),
            connection: None,
            session: None,
            backoff: *BACKOFF.start(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Lets each session begin with statements; the current one is closed.
    pub(crate) fn prepare_sessions(&mut self, statements: Option<String>) {
        if statements.is_some() {
            self.connection = None;
        }
        self.session = statements;
    }

    /// Runs `work` on the connection, which is opened if there is none. A transaction that `work`
    /// begins ends within it.
    pub(crate) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> lookaside_client::Result<T>,
    ) -> Result<T, Failure> {
        // It is put back if it can be used further.
        let connection = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.open().map_err(|error| match Failure::of(&error) {
                // A setting of the session, not a row.
                Failure::Data(reason) => Failure::Refused(reason),
                Failure::TooLong(reason) => Failure::Away(reason),
                failure => failure,
            }),
        };
        let mut connection = connection?;
        let result = work(&mut connection);
        // A server that became a standby stays one, while its name may lead to another server.
        let is_read_only =
            matches!(&result, Err(error) if state_of(error).as_ref() == Some(b"25006"));
        if !connection.is_closed() && !is_read_only {
            self.connection = Some(connection);
        }
        if result.is_ok() {
            self.backoff = *BACKOFF.start();
        }
        result.map_err(|error| Failure::of(&error))
    }

    fn open(&self) -> lookaside_client::Result<Connection> {
        let mut connection = Connection::connect_with(&self.config, Options::default())?;
        if let Some(statements) = &self.session {
            connection.batch_execute(&**statements)?;
        }
        Ok(connection)
    }

    /// The time until the next attempt.
    pub(crate) fn next_backoff(&mut self) -> Duration {
        let backoff = self.backoff;
        self.backoff = (backoff * 2).min(*BACKOFF.end());
        backoff
    }
}

fn state_of(error: &Error) -> Option<[u8; 5]> {
    error.sqlstate().map(|state| *state.as_bytes())
}

impl Failure {
    /// What the server said.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Away(reason)
            | Self::Conflict(reason)
            | Self::TooLong(reason)
            | Self::Data(reason)
            | Self::Refused(reason) => reason,
        }
    }

    /// The classes are those of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
    pub(crate) fn of(error: &Error) -> Self {
        let reason = reason_of(error);
        let Some(state) = state_of(error) else {
            return match error.kind() {
                ErrorKind::Connection | ErrorKind::Closed | ErrorKind::Deadline => {
                    Self::Away(reason)
                }
                _ => Self::Refused(reason),
            };
        };
        match &state {
            [b'4', b'0', ..] => Self::Conflict(reason),
            // `statement_timeout`, or a cancel request.
            b"57014" => Self::TooLong(reason),
            // A connection that failed, a resource that is exhausted, an operator, the system of the
            // server.
            [b'0', b'8', ..]
            | [b'5', b'3', ..]
            | [b'5', b'7', ..]
            | [b'5', b'8', ..]
            // What is in use, or locked.
            | b"55006" | b"55P03"
            // A server that became a standby, and transactions that the server ended by a time-out.
            | b"25006" | b"25P03" | b"25P04" => Self::Away(reason),
            // Values, constraints, the check of a view, limits such as the size of an index entry,
            // and what a trigger raises.
            [b'2', b'2', ..] | [b'2', b'3', ..] | [b'4', b'4', ..] | [b'5', b'4', ..] | b"P0001" => {
                Self::Data(reason)
            }
            // Where it happened is only stated within a row, or a function such as that of a trigger.
            _ if error.server().is_some_and(|server| server.context().is_some()) => {
                Self::Data(reason)
            }
            _ => Self::Refused(reason),
        }
    }
}

/// What the server said, in one line; otherwise the error with its causes.
pub(super) fn reason_of(error: &Error) -> String {
    let mut reason = String::new();
    match error.server() {
        Some(server) => {
            reason.push_str(&server.message().unwrap_or_default());
            // COPY names the column only here: `COPY t, line 1, column n: "x"`.
            let context = server.context().unwrap_or_default();
            let column = context.split_once(", column ").map(|(_, rest)| rest);
            if let Some(column) = column.and_then(|rest| rest.split([':', '\n']).next()) {
                reason = format!("{reason} (column {column})");
            }
            if let Some(detail) = server.detail() {
                reason = format!("{reason}: {detail}");
            }
            if let Some(state) = error.sqlstate() {
                let state = String::from_utf8_lossy(state.as_bytes()).into_owned();
                reason = format!("{} [{state}]", shortened(&reason));
            }
        }
        None => {
            reason = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                reason = format!("{reason}: {cause}");
                source = cause.source();
            }
        }
    }
    let is_control = |char: char| if char.is_control() { ' ' } else { char };
    reason.chars().map(is_control).collect()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(REASON_SIZE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_shortened() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"é".repeat(REASON_SIZE_MAX + 1));
        assert_eq!(long, format!("{}…", "é".repeat(REASON_SIZE_MAX)));
    }
}
