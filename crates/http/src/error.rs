//! Errors of starting and running a server.

mod static_files;
mod tls;

use std::fmt;
use std::io;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a server that cannot start, or has failed.
///
/// Mistakes of clients are not errors of the server: they are answered with a status.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Whose fault an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's arguments are invalid or do not fit together.
    Misuse,
    /// A socket, a file or another part of the environment failed.
    Environment,
    /// A thread of the server panicked.
    Defect,
    /// A thread of the server did not end within the given time.
    Timeout,
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    pub(crate) fn because(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn bad_address(text: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "`{}` is not an address to listen on; write it as 127.0.0.1:8300, [::1]:8300 or \
                 unix:/path/to/socket",
                text.escape_debug()
            ),
        )
    }

    pub(crate) fn long_socket_path(path: &str, size_max: usize) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the socket path `{path}` has {} bytes, but the limit is {size_max}; choose a \
                 shorter one",
                path.len()
            ),
        )
    }

    pub(crate) fn bad_option(name: &str, wanted: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("the option `{name}` has to be {wanted}"),
        )
    }

    pub(crate) fn cannot_listen(place: impl fmt::Display, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; is another server running there?",
            io::ErrorKind::PermissionDenied => "; ports below 1024 require a privilege",
            _ => "",
        };
        Self::new(
            ErrorKind::Environment,
            format!("cannot listen on {place}{hint}"),
        )
        .because(error)
    }

    pub(crate) fn environment(what: &str, error: io::Error) -> Self {
        Self::new(ErrorKind::Environment, format!("cannot {what}")).because(error)
    }

    pub(crate) fn pipeline(what: &str, error: lookaside_pipeline::Error) -> Self {
        Self::new(ErrorKind::Environment, format!("cannot {what}")).because(error)
    }

    pub(crate) fn busy(count: usize) -> Self {
        let threads = if count == 1 { "thread" } else { "threads" };
        Self::new(
            ErrorKind::Timeout,
            format!("{count} I/O {threads} did not end in time; the service blocks them"),
        )
    }

    pub(crate) fn panicked(thread: &str) -> Self {
        Self::new(
            ErrorKind::Defect,
            format!("the thread `{thread}` panicked; its message is on standard error"),
        )
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}
