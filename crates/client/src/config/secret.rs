//! Text that is never shown.

use std::fmt;

/// A password. It is shown as `***`; [`expose`](Self::expose) has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// The text itself, to prove to the server that it is known.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Box<str>>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
