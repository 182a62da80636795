//! The crate's one error: whose fault it is, one line that names the place, and what caused it.

use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Whose fault a failure is, and so what can be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration is wrong; the message names file, line and key.
    Config,
    /// The data of a table is wrong; the message names file and line.
    Data,
    /// A statement or its parameters are wrong; it will fail again.
    Refused,
    /// A database could not be reached or broke off; it may work later.
    Unavailable,
    /// A named limit was reached.
    LimitReached,
    /// The operating system refused a file, memory or a thread.
    Environment,
}

/// A failure, cheap to clone, since one failure can concern many callers.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
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

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            source: Some(Box::new(source)),
        }))
    }

    /// The configuration is wrong at a line.
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
            "{}: no knowdb.toml; write {} with the lines: version = 2; {entries}",
            path.display(),
            folder.join("knowdb.toml").display(),
        );
        Self::new(ErrorKind::Config, message)
    }

    /// A file or folder that the operating system did not give.
    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        let message = format!("{}: cannot be read", path.display());
        Self::with_source(ErrorKind::Environment, message, source)
    }

    /// SQLite refused something while `doing`, which reads as "table `x`: create.sql".
    pub(crate) fn sqlite(doing: impl fmt::Display, source: rusqlite::Error) -> Self {
        let kind = match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::OutOfMemory) => {
                ErrorKind::LimitReached
            }
            Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::SystemIoFailure) => {
                ErrorKind::Environment
            }
            _ => ErrorKind::Refused,
        };
        Self::with_source(kind, doing.to_string(), source)
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
