//! What can end a run, and whose fault it is.

use std::fmt;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a stream cannot be set up or cannot go on.
///
/// A line that does not parse is no error, see [`Rejects`](crate::Rejects).
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
    /// The caller asked for something that does not exist or does not fit together.
    Misuse,
    /// The input as a whole is not what its format says.
    Input,
    /// A file, socket or other part of the environment failed.
    Environment,
}

impl Error {
    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn unknown_format(direction: &str, name: &str, known: &[&str]) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "unknown {direction} format `{name}`; {}",
                suggestion(name, known)
            ),
        )
    }

    pub(crate) fn unknown_option(format: &str, option: &str, known: &[&str]) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "format `{format}` has no option `{option}`; {}",
                suggestion(option, known)
            ),
        )
    }

    pub(crate) fn bad_option(format: &str, option: &str, value: &str, wanted: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("format `{format}`, option `{option}`: `{value}` is not {wanted}"),
        )
    }

    pub(crate) fn missing_option(format: &str, option: &str, hint: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("format `{format}` needs the option `{option}`: {hint}"),
        )
    }

    pub(crate) fn bad_pattern(error: regex::Error) -> Self {
        Self::new(
            ErrorKind::Misuse,
            "format `regex`, option `pattern`: this is no regular expression",
        )
        .because(error)
    }

    pub(crate) fn bad_header(reason: &str) -> Self {
        Self::new(
            ErrorKind::Input,
            format!(
                "the csv header in line 1 {reason}; set `header` to false and name the `columns`"
            ),
        )
    }
}

/// The nearest known name if one is near, else all of them.
fn suggestion(name: &str, known: &[&str]) -> String {
    let distance = |candidate: &&&str| strsim::damerau_levenshtein(name, candidate);
    match known.iter().min_by_key(distance) {
        Some(near) if distance(&near) <= 2 => format!("did you mean `{near}`?"),
        _ => format!("there are: {}", known.join(", ")),
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}
