//! Errors of a verification.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option or an argument is invalid.
    Usage,
    /// A named limit was reached.
    Limit,
    /// The operating system refused something.
    Environment,
    /// The database under test did not give a state that the check needs.
    States,
}

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What a write connection or a reader failed with.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// An error of a verification. `Display` is one line; the cause is its source.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Cause>,
}

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    fn because(mut self, source: impl Into<Cause>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn not_a_fault(name: &str) -> Self {
        Self::new(ErrorKind::Usage, format!("not a fault: {name:?}"))
    }

    pub(crate) fn empty_length() -> Self {
        let message = "the phases of a fault plan are longer than 0, and their ranges ascend";
        Self::new(ErrorKind::Usage, message)
    }

    pub(crate) fn too_many_phases(phase_count_max: usize) -> Self {
        let message = format!(
            "the fault plan has more than {phase_count_max} phases; make them longer or the run shorter"
        );
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn too_many_contracts(contract_count_max: usize) -> Self {
        let message = format!("a history has at most {contract_count_max} contracts");
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn unlisted_contract(contract: impl fmt::Display) -> Self {
        let message = format!("the contract {contract} is not in the list of the history");
        Self::new(ErrorKind::Usage, message)
    }

    pub(crate) fn unknown_contract(index: usize) -> Self {
        let message = format!("the history has no contract {index}");
        Self::new(ErrorKind::Usage, message)
    }

    pub(crate) fn unknown_phase(index: usize) -> Self {
        let message = format!("the fault plan of the history has no phase {index}");
        Self::new(ErrorKind::Usage, message)
    }

    pub(crate) fn history_full(what: &str, count_max: usize) -> Self {
        let message = format!("the history holds its limit of {count_max} {what} a thread");
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn nothing_to_run(what: &str) -> Self {
        Self::new(ErrorKind::Usage, format!("a run needs {what}"))
    }

    pub(crate) fn too_many_threads(thread_count_max: usize) -> Self {
        let message = format!("a run has at most {thread_count_max} writers and as many readers");
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn too_many_keys(key_count_max: u32) -> Self {
        let message = format!("a run has at most {key_count_max} keys");
        Self::new(ErrorKind::Limit, message)
    }

    pub(crate) fn no_thread(source: io::Error) -> Self {
        Self::new(ErrorKind::Environment, "cannot start a thread").because(source)
    }

    pub(crate) fn no_states(source: Cause) -> Self {
        let message = "cannot read the states of the keys from the database";
        Self::new(ErrorKind::States, message).because(source)
    }

    pub(crate) fn incomplete_states(found: usize, key_count: usize) -> Self {
        let message =
            format!("{found} states were read of {key_count} keys, one of each is needed");
        Self::new(ErrorKind::States, message)
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
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
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}
