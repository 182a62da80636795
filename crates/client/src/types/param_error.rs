//! Parameters whose values cannot be sent.

use std::error::Error;
use std::fmt;

/// A parameter whose value does not fit, or would lose something on its way to the server. `E` is
/// the error of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError<E> {
    name: Box<str>,
    error: E,
}

impl<E: Copy> ParamError<E> {
    pub(super) fn new(name: Box<str>, error: E) -> Self {
        Self { name, error }
    }

    /// The parameter's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What does not fit.
    pub fn error(&self) -> E {
        self.error
    }
}

impl<E: fmt::Display> fmt::Display for ParamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter `{}`: {}", self.name, self.error)
    }
}

impl<E: fmt::Debug + fmt::Display> Error for ParamError<E> {}
