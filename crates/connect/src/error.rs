//! Errors of connectors, by who caused them.

use std::fmt;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a connector cannot be opened.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

/// What caused an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL is wrong.
    Misuse,
    /// The broker cannot be reached, or lacks what the URL names.
    Environment,
}

impl Error {
    /// Returns what caused the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
        }))
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn bad_url(problem: &str) -> Self {
        let message = format!("not a URL of a connector: {problem}");
        Self::new(ErrorKind::Misuse, message)
            .with_hint("write a URL such as kafka://localhost:9092/clicks?group=lookaside")
    }

    pub(crate) fn unknown_kind(scheme: &str, known: &[&str]) -> Self {
        let message = format!("unknown scheme `{scheme}`; there are: {}", known.join(", "));
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn not_a_source(scheme: &str) -> Self {
        let message = format!("{scheme}:// is not a source; events are only written to it");
        let hint = match scheme {
            "http" | "https" => "pipe it in with `curl -sS URL |`, and name the input `-`",
            _ => {
                "`lookaside sources` lists what is read; a database for lookups is named in \
                 knowdb.toml"
            }
        };
        Self::new(ErrorKind::Misuse, message).with_hint(hint)
    }

    pub(crate) fn unknown_option(
        name: &str,
        option: &str,
        known: &[&str],
        hint: Option<&str>,
    ) -> Self {
        let distance = |candidate: &&&str| strsim::damerau_levenshtein(option, candidate);
        let suggestion = match known.iter().min_by_key(distance) {
            // A prefix of options.
            Some(near) if **near == *option => format!("`{near}` is followed by a name"),
            Some(near) if distance(&near) <= 2 => format!("did you mean `{near}`?"),
            _ => format!("there are: {}", known.join(", ")),
        };
        let error = Self::new(
            ErrorKind::Misuse,
            format!("`{name}` has no option `{option}`; {suggestion}"),
        );
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    pub(crate) fn bad_option(name: &str, option: &str, value: &str, wanted: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("`{name}`, option `{option}`: `{value}` is not {wanted}"),
        )
    }

    pub(crate) fn not_built_in(scheme: &str, feature: &str) -> Self {
        let message = format!("this build does not support {scheme}://");
        Self::new(ErrorKind::Misuse, message).with_hint(format!(
            "build the program with it: cargo install --features {feature}"
        ))
    }
}

/// What the kinds that are built in report.
#[cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
impl Error {
    /// The URL lacks a topic, or what corresponds to it, or has several.
    pub(crate) fn no_path(name: &str, what: &str, example: &str) -> Self {
        Self::new(ErrorKind::Misuse, format!("`{name}` names no {what}"))
            .with_hint(format!("add one {what} to the URL, as in {example}"))
    }

    #[cfg(any(
        feature = "kafka",
        feature = "nats",
        feature = "postgres",
        feature = "redis"
    ))]
    pub(crate) fn missing_option(name: &str, option: &str, hint: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("`{name}` needs the option `{option}`"),
        )
        .with_hint(hint)
    }

    pub(crate) fn refused(name: &str, message: &str, hint: Option<&str>) -> Self {
        let error = Self::new(ErrorKind::Misuse, format!("`{name}`: {message}"));
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    pub(crate) fn no_thread(name: &str, error: &std::io::Error) -> Self {
        let hint = "end other processes, or raise the limit of threads";
        Self::unavailable(name, &format!("no thread can be started: {error}"), hint)
    }

    pub(crate) fn unavailable(name: &str, reason: &str, hint: &str) -> Self {
        Self::new(ErrorKind::Environment, format!("`{name}`: {reason}")).with_hint(hint)
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
            .field("hint", &self.0.hint)
            .finish()
    }
}

impl std::error::Error for Error {}
