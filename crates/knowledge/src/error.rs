//! The error type of the crate: a kind, a one-line message that names the place, and a cause.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lookaside_value::Text;

use crate::sqlite_error::SqliteError;

/// Who caused a failure, and so what can be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration is wrong; the message names file, line and key.
    Config,
    /// The data of a table is wrong; the message names file and line.
    Data,
    /// A statement or its parameters are wrong; it will fail again.
    Refused,
    /// A database could not be reached or the connection was lost; it may work later.
    Unavailable,
    /// A named limit was reached.
    LimitReached,
    /// The query was cancelled, by a [`CancelHandle`](crate::CancelHandle) or at the end of the
    /// program.
    Cancelled,
    /// The operating system did not provide a file, memory or a thread.
    Environment,
}

impl ErrorKind {
    /// The kind of a failure to read a file: its content if it is truncated or damaged.
    pub(crate) fn of_read(source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof => Self::Data,
            _ => Self::Environment,
        }
    }
}

/// A failure, cheap to clone, since one failure can concern many callers.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    subject: Option<Subject>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The subject of a failure, for callers that word their own messages.
enum Subject {
    /// The provider that does not answer.
    Provider(Box<str>),
    /// A local query took longer than this.
    QueryTimeout(Duration),
    /// Parameters of the statement without a value.
    MissingParams(Box<[Text]>),
    /// A value for a parameter that the statement does not have.
    UnknownParam(Text),
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later without anything being corrected.
    pub fn is_retryable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// The provider that does not answer, if that is the failure.
    pub fn provider_name(&self) -> Option<&str> {
        match &self.0.subject {
            Some(Subject::Provider(name)) => Some(name),
            _ => None,
        }
    }

    /// The time limit of local queries, if this query exceeded it.
    pub fn query_timeout_limit(&self) -> Option<Duration> {
        match self.0.subject {
            Some(Subject::QueryTimeout(limit)) => Some(limit),
            _ => None,
        }
    }

    /// The parameters of the statement for which no value was given.
    pub fn missing_params(&self) -> &[Text] {
        match &self.0.subject {
            Some(Subject::MissingParams(names)) => names,
            _ => &[],
        }
    }

    /// The given parameter that the statement does not have.
    pub fn unknown_param(&self) -> Option<&Text> {
        match &self.0.subject {
            Some(Subject::UnknownParam(name)) => Some(name),
            _ => None,
        }
    }

    /// Adds the name of the provider that does not answer.
    pub(crate) fn of_provider(self, name: &str) -> Self {
        self.about(Subject::Provider(name.into()))
    }

    /// Adds the time limit that a local query exceeded.
    pub(crate) fn of_query_timeout(self, limit: Duration) -> Self {
        self.about(Subject::QueryTimeout(limit))
    }

    /// Adds the parameters without a value.
    pub(crate) fn of_missing_params(self, names: &[&Text]) -> Self {
        let names = names.iter().map(|name| (*name).clone());
        self.about(Subject::MissingParams(names.collect()))
    }

    /// Adds the parameter that does not exist.
    pub(crate) fn of_unknown_param(self, name: &str) -> Self {
        self.about(Subject::UnknownParam(name.into()))
    }

    fn about(self, subject: Subject) -> Self {
        let Some(mut inner) = Arc::into_inner(self.0) else {
            unreachable!("nobody has a new error yet");
        };
        inner.subject = Some(subject);
        Self(Arc::new(inner))
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            subject: None,
            source: None,
        }))
    }

    /// The same error with a hint appended to the message.
    pub(crate) fn with_hint(&self, hint: &str) -> Self {
        let said = Self::new(self.kind(), format!("{self}; {hint}"));
        match self.provider_name() {
            Some(name) => said.of_provider(name),
            None => said,
        }
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self::boxed(kind, message, Box::new(source))
    }

    pub(crate) fn boxed(
        kind: ErrorKind,
        message: impl Into<String>,
        source: Box<dyn StdError + Send + Sync>,
    ) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            subject: None,
            source: Some(source),
        }))
    }

    /// An error at a line of the configuration.
    pub(crate) fn config(file: &Path, line: usize, problem: &str) -> Self {
        let message = format!("{}:{line}: {problem}", file.display());
        Self::new(ErrorKind::Config, message)
    }

    /// There is no configuration at `path`; `tables` are folders beside it that hold a `data.csv`.
    pub(crate) fn no_config(path: &Path, folder: &Path, tables: &[String]) -> Self {
        let entries: String = match tables {
            [] => "[[tables]], name = \"…\", data_file = \"…\"".to_owned(),
            tables => {
                let entry = |name: &String| format!("[[tables]], name = {name:?}");
                tables.iter().map(entry).collect::<Vec<_>>().join("; ")
            }
        };
        let message = format!(
            "{}: there is no knowdb.toml; create {} with the lines: version = 2; {entries}",
            path.display(),
            folder.join("knowdb.toml").display(),
        );
        Self::new(ErrorKind::Config, message)
    }

    /// The memory limit that a store reached, if it reached one.
    pub(crate) fn memory_limit(source: &rusqlite::Error) -> Option<&'static str> {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Some(
                "the size of a database is limited by SQLITE_MEMDB_DEFAULT_MAXSIZE, by default 1 \
                 GiB; set it in LIBSQLITE3_FLAGS when the program is built",
            ),
            Some(rusqlite::ErrorCode::OutOfMemory) => Some("out of memory"),
            _ => None,
        }
    }

    /// A file or folder that could not be opened or read.
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        let message = format!("{}: cannot be read", path.display());
        Self::with_source(ErrorKind::Environment, message, source)
    }

    /// SQLite refused an operation; `doing` names it, as in "table `x`: create.sql".
    pub(crate) fn sqlite(doing: impl fmt::Display, source: rusqlite::Error) -> Self {
        let kind = Self::sqlite_kind(&source);
        Self::with_source(kind, doing.to_string(), SqliteError(source))
    }

    /// The kind of an error of SQLite.
    pub(crate) fn sqlite_kind(source: &rusqlite::Error) -> ErrorKind {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::OutOfMemory) => {
                ErrorKind::LimitReached
            }
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::SystemIoFailure) => {
                ErrorKind::Environment
            }
            _ => ErrorKind::Refused,
        }
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
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}
