//! Errors of URLs and settings.

use std::error::Error;
use std::fmt;
use std::path::Path;

/// The error of a URL, a setting or a password file; it never contains a password.
pub struct ConfigError(Box<Inner>);

struct Inner {
    message: String,
    source: Option<std::io::Error>,
}

/// The hint for the most common error in the part before the settings.
const ENCODE: &str = "in a user name or password, write `@` as %40, `:` as %3A, `/` as %2F, `?` as %3F, `#` as %23, \
     `&` as %26 and `%` as %25";

/// The largest edit distance at which a known word is suggested.
const DISTANCE_MAX: usize = 3;

impl ConfigError {
    fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            message: message.into(),
            source: None,
        }))
    }

    pub(super) fn no_url() -> Self {
        Self::new("this is not a connection URL, which looks like postgres://USER@HOST/DATABASE")
    }

    pub(super) fn other_server(found: &str, wanted: &str) -> Self {
        Self::new(format!(
            "this is a URL of {found}; a URL that begins with `{wanted}://` is required"
        ))
    }

    pub(super) fn unknown_scheme(scheme: &str, known: &[&str]) -> Self {
        // Without the scheme, a URL begins with a user and a password.
        let quotable = scheme.len() < 20 && scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
        if quotable {
            let hint = suggestion(scheme, known);
            Self::new(format!(
                "a connection URL cannot begin with `{scheme}://`{hint}"
            ))
        } else {
            Self::no_url()
        }
    }

    pub(super) fn stray(letter: char) -> Self {
        Self::new(format!(
            "the URL has a `{letter}` in a place where it is not allowed; {ENCODE}"
        ))
    }

    pub(super) fn bad_encoding(part: &str) -> Self {
        Self::new(format!(
            "the URL's {part} has a `%` without two hexadecimal digits, or ones that are not UTF-8; \
             a `%` itself is written %25"
        ))
    }

    pub(super) fn bad_host(number: usize, reason: &str) -> Self {
        Self::new(format!("host {number} of the URL {reason}; {ENCODE}"))
    }

    pub(super) fn bad_port(number: usize) -> Self {
        Self::new(format!(
            "the port of host {number} is not a number from 1 to 65535; {ENCODE}"
        ))
    }

    pub(super) fn no_value(key: &str) -> Self {
        Self::new(format!(
            "the URL's setting `{key}` has no value; write {key}=VALUE"
        ))
    }

    pub(super) fn twice(key: &str) -> Self {
        Self::new(format!("the URL sets `{key}` twice"))
    }

    pub(super) fn unknown_key(key: &str, known: &[&str]) -> Self {
        let hint = suggestion(key, known);
        Self::new(format!("the URL has an unknown setting `{key}`{hint}"))
    }

    pub(super) fn unsupported_key(key: &str, reason: &str) -> Self {
        Self::new(format!(
            "the URL's setting `{key}` is not supported: {reason}"
        ))
    }

    /// `origin` is `the URL's setting x` or `the variable X`.
    pub(super) fn bad_value(origin: &str, value: &str, wanted: &str) -> Self {
        Self::new(format!("{origin}: `{value}` is not {wanted}"))
    }

    pub(super) fn not_one_of(origin: &str, value: &str, known: &[&str]) -> Self {
        let hint = suggestion(value, known);
        Self::new(format!("{origin}: `{value}` is not a valid value{hint}"))
    }

    pub(super) fn counts_differ(what: &str, count: usize, host_count: usize) -> Self {
        Self::new(format!("{count} {what} were given for {host_count} hosts"))
    }

    pub(super) fn no_user() -> Self {
        Self::new("neither the URL nor the environment names a user; write USER@ before the host")
    }

    pub(super) fn contradiction(message: &str) -> Self {
        Self::new(message)
    }

    pub(super) fn passfile_open(path: &Path) -> Self {
        Self::new(format!(
            "the password file `{}` can be read by other users and is not used; run `chmod \
             600` on it",
            path.display()
        ))
    }

    pub(super) fn passfile_unreadable(path: &Path, error: std::io::Error) -> Self {
        let message = format!("the password file `{}` cannot be read", path.display());
        Self(Box::new(Inner {
            message,
            source: Some(error),
        }))
    }
}

/// The nearest known word if one is close, otherwise all known words.
fn suggestion(word: &str, known: &[&str]) -> String {
    let distance = |candidate: &str| strsim::damerau_levenshtein(word, candidate);
    match known.iter().min_by_key(|candidate| distance(candidate)) {
        Some(near) if distance(near) <= DISTANCE_MAX.min(near.len() / 2) => {
            format!("; did you mean `{near}`?")
        }
        _ => format!("; there are: {}", known.join(", ")),
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigError")
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
