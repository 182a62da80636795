//! Errors of a pipeline, by who caused them.

use std::any::Any;
use std::{fmt, io};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a pipeline could not be built or did not finish.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<io::Error>,
}

/// What caused an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller requested a pipeline that cannot be built.
    Misuse,
    /// The operating system could not start a thread.
    Environment,
    /// A stage panicked, or the worker of one of its threads was dropped before the end.
    StageFailed,
    /// A producer that is not the sole one panicked in the middle of
    /// [`Producer::push_from`](crate::Producer::push_from).
    ProducerFailed,
}

impl Error {
    /// Returns what caused the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self(Box::new(Inner {
            kind,
            message,
            source: None,
        }))
    }

    pub(crate) fn lg_size(lg_size: u32, max: u32) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("a ring of 2^{lg_size} slots is too large; the maximum is 2^{max}"),
        )
    }

    pub(crate) fn no_threads(stage: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("stage `{stage}` has no thread; it needs at least one"),
        )
    }

    pub(crate) fn too_small(size: usize, boundary_count: usize) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("a ring of {size} slots is too small for its stages; give it {boundary_count}"),
        )
    }

    pub(crate) fn thread(name: &str, source: io::Error) -> Self {
        let mut error = Self::new(
            ErrorKind::Environment,
            format!("thread `{name}` could not be started"),
        );
        error.0.source = Some(source);
        error
    }

    /// `payload` is the panic payload, if the pipeline owned the thread.
    pub(crate) fn stage_failed(stage: &str, payload: Option<&(dyn Any + Send)>) -> Self {
        let text = payload.and_then(|payload| {
            let text = payload.downcast_ref::<&str>().copied();
            text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        });
        let message = match text {
            Some(text) => format!("stage `{stage}` panicked: {text}"),
            None => format!("stage `{stage}` panicked or ended early"),
        };
        Self::new(ErrorKind::StageFailed, message)
    }

    pub(crate) fn producer_failed() -> Self {
        Self::new(
            ErrorKind::ProducerFailed,
            "a producer panicked, or produced fewer items than it announced, while it held slots"
                .to_owned(),
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_ref()?;
        Some(source)
    }
}

/// Why a pipeline did not accept an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The ring is full at the moment.
    Full,
    /// The pipeline was closed.
    Closed,
    /// A stage or a producer failed; [`Pipeline::join`](crate::Pipeline::join) returns which.
    Failed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full",
            Self::Closed => "the pipeline is closed",
            Self::Failed => "the pipeline failed",
        })
    }
}

impl std::error::Error for Reason {}

/// An item that a pipeline did not accept, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// The item, unchanged.
    pub item: T,
    /// Why it was not accepted.
    pub reason: Reason,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refused({:?})", self.reason)
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> std::error::Error for Refused<T> {}
