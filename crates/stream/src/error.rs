//! Errors that end a run, by who caused them.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::unsupported::Unsupported;
use crate::{Rejects, Summary};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a stream cannot be set up or cannot continue.
///
/// A line that does not parse is not an error, see [`Rejects`](crate::Rejects).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    summary: Option<Summary>,
}

/// What caused an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller requested something that does not exist or is inconsistent.
    Misuse,
    /// The input as a whole is not valid in its format.
    Input,
    /// A file, a socket or another part of the environment failed.
    Environment,
    /// A worker panicked: a defect of this program or of the transform.
    Defect,
}

impl Error {
    /// Returns what caused the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The summary of the run until it failed; `None` if it had not begun.
    pub fn summary(&self) -> Option<&Summary> {
        self.0.summary.as_ref()
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
            summary: None,
        }))
    }

    fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the summary of the run that the error ended.
    pub(crate) fn after(mut self, summary: Summary) -> Self {
        self.0.summary = Some(summary);
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
            "format `regex`, option `pattern`: this is not a regular expression",
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

    pub(crate) fn other_columns(output: &str, columns: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "output `{output}` has the columns {columns}, not those of the option `columns`; \
                 write to another file"
            ),
        )
    }

    pub(crate) fn header_in_messages() -> Self {
        Self::new(
            ErrorKind::Misuse,
            "messages have no csv header; name the columns with the option `columns`, and do not set \
             `header` to true",
        )
    }

    pub(crate) fn unknown_columns(output: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the columns of csv output `{output}` are not known; name them with the output \
                 option `columns`"
            ),
        )
    }

    pub(crate) fn output_name(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "an output cannot be named `{name}`; use a name that no other output has, and not \
                 `default` or `none`"
            ),
        )
    }

    pub(crate) fn split_path(path: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!(
                "the path `{path}` to split has an empty part; write a field, or members separated \
                 by slashes, such as order/items"
            ),
        )
    }

    pub(crate) fn too_many_outputs(count_max: usize) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("a run has at most {count_max} outputs; write to fewer"),
        )
    }

    /// Prefixes the message with the source that the error concerns.
    pub(crate) fn in_source(mut self, source: &str) -> Self {
        self.0.message = format!("`{source}`: {}", self.0.message);
        self
    }

    pub(crate) fn header_too_long(source: &str, size_max: usize) -> Self {
        Self::new(
            ErrorKind::Input,
            format!("`{source}`: the header is longer than {size_max} bytes; is this the format?"),
        )
    }

    pub(crate) fn unknown_listener_option(name: &str, option: &str) -> Self {
        let message = format!(
            "input `{name}` has an unknown option `{option}`; write `framing=lines` or \
             `framing=octet-counting`"
        );
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn open_input(name: &str, error: io::Error) -> Self {
        let name = &*without_secrets(name);
        let (kind, message) = match error.kind() {
            io::ErrorKind::NotFound if has_scheme(name) => {
                let message = match is_http(name) {
                    true => format!(
                        "input `{name}` is a URL, which cannot be read; pipe it in with `curl -sS \
                         {name} |`, and name the input `-`"
                    ),
                    false => {
                        format!("input `{name}` has an unknown scheme; supported are {INPUT_KINDS}")
                    }
                };
                (ErrorKind::Misuse, message)
            }
            io::ErrorKind::NotFound => {
                (ErrorKind::Misuse, format!("input `{name}` does not exist"))
            }
            io::ErrorKind::InvalidInput if has_scheme(name) => {
                let (scheme, _) = name.split_once("://").unwrap_or_default();
                let message =
                    format!("input `{name}` is not an address; write {scheme}://ADDRESS:PORT");
                (ErrorKind::Misuse, message)
            }
            io::ErrorKind::IsADirectory => (
                ErrorKind::Misuse,
                format!("input `{name}` is a directory; name the files in it"),
            ),
            io::ErrorKind::AddrInUse => (
                ErrorKind::Environment,
                format!("input `{name}`: the port is taken; choose another one"),
            ),
            _ => (
                ErrorKind::Environment,
                format!("input `{name}` cannot be opened"),
            ),
        };
        let opened = Self::new(kind, message);
        // "No such file" is a misleading message for a name that is not a path.
        match error.kind() == io::ErrorKind::NotFound && has_scheme(name) {
            true => opened,
            false => opened.because(error),
        }
    }

    /// A file whose content is not supported as input.
    pub(crate) fn unsupported_input(name: &str, unsupported: Unsupported) -> Self {
        let (what, instead) = (unsupported.name, unsupported.read_instead(name));
        let message = format!("input `{name}` is {what}, which is not supported; {instead}");
        Self::new(ErrorKind::Misuse, message)
    }

    /// A name whose suffix stands for a format that is not supported as output.
    pub(crate) fn unsupported_output(name: &str, unsupported: Unsupported) -> Self {
        let (what, instead) = (unsupported.name, unsupported.write_instead());
        let message = format!("output `{name}` would be {what}, which is not supported; {instead}");
        Self::new(ErrorKind::Misuse, message)
    }

    /// A file name that is probably a misspelled special target.
    pub(crate) fn ambiguous_output(name: &str, meant: &str) -> Self {
        let message = format!(
            "output `{name}` would be a file of that name; write `{meant}` for {}, or `./{name}` for the file",
            match meant {
                "-" => "standard output",
                _ => "no output",
            }
        );
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn not_followable(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("input `{name}` is not a regular file and cannot be followed; omit --follow"),
        )
    }

    pub(crate) fn not_followable_compressed(name: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("input `{name}` is compressed and cannot be followed; omit --follow"),
        )
    }

    pub(crate) fn open_checkpoint(name: &str, error: io::Error) -> Self {
        let message = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("checkpoint `{name}`: the folder does not exist; create it first")
            }
            io::ErrorKind::IsADirectory => {
                format!("checkpoint `{name}` is a directory; name a file in it")
            }
            _ => format!("checkpoint `{name}` cannot be opened"),
        };
        Self::new(ErrorKind::Environment, message).because(error)
    }

    pub(crate) fn checkpoint_in_use(name: &str) -> Self {
        let message = format!("checkpoint `{name}` is used by another run; name another file");
        Self::new(ErrorKind::Environment, message)
    }

    pub(crate) fn no_checkpoint(name: &str) -> Self {
        let message = format!(
            "`{name}` is not a checkpoint of this version; name another file, or remove it to read the followed file from its start"
        );
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn no_mark(text: &str) -> Self {
        let message = format!("`{text}` is not a position in a followed file");
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn checkpoint_of_another(name: &str, found: &str, wanted: &str) -> Self {
        let message = format!(
            "checkpoint `{name}` belongs to {found}, not to {wanted}; name another file, or remove it to read the followed file from its start"
        );
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn write_checkpoint(name: &str, error: io::Error) -> Self {
        let message = format!("writing checkpoint `{name}` failed");
        Self::new(ErrorKind::Environment, message).because(error)
    }

    pub(crate) fn read_input(name: &str, error: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("reading input `{name}` failed"),
        )
        .because(error)
    }

    pub(crate) fn open_output(name: &str, error: io::Error) -> Self {
        let name = &*without_secrets(name);
        let message = match error.kind() {
            io::ErrorKind::NotFound if has_scheme(name) => match is_http(name) {
                true => format!(
                    "output `{name}` is a URL, which is not supported; write to standard output, \
                     and pipe it to `curl -sS -T - {name}`"
                ),
                false => {
                    format!("output `{name}` has an unknown scheme; supported are {OUTPUT_KINDS}")
                }
            },
            io::ErrorKind::InvalidInput if has_scheme(name) => {
                format!("output `{name}` is not an address; write tcp://HOST:PORT")
            }
            io::ErrorKind::NotFound => format!("output `{name}`: the folder does not exist"),
            io::ErrorKind::IsADirectory => {
                format!("output `{name}` is a directory; name a file in it")
            }
            _ if has_scheme(name) => {
                format!("output `{name}` cannot be opened; start its receiver first")
            }
            _ => format!("output `{name}` cannot be opened"),
        };
        let opened = Self::new(ErrorKind::Environment, message);
        // "No such file" is a misleading message for a name that is not a path.
        match error.kind() == io::ErrorKind::NotFound && has_scheme(name) {
            true => opened,
            false => opened.because(error),
        }
    }

    pub(crate) fn write_output(name: &str, error: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("writing output `{name}` failed"),
        )
        .because(error)
    }

    pub(crate) fn rotate_output(name: &str, error: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            format!("rotating output `{name}` failed"),
        )
        .because(error)
    }

    pub(crate) fn rotation_without_condition() -> Self {
        let message = "a rotation needs a size or a time; give one of them";
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn rotation_too_often() -> Self {
        let message = "a rotation needs a time of at least a second";
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn not_rotatable(name: &str, appears_whole: bool) -> Self {
        let reason = match appears_whole {
            true => {
                "its input ends, so that it appears only when it is complete; omit the rotation, or \
                 follow the input"
            }
            false => "only a file can be; omit the rotation, or write to a file",
        };
        let message = format!("output `{name}` cannot be rotated: {reason}");
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn output_in_use(name: &str) -> Self {
        let message = format!(
            "output `{name}` is written by another run, which excludes checkpoints and rotation; \
             write to another file"
        );
        Self::new(ErrorKind::Environment, message)
    }

    /// An output that lacks results which a checkpoint takes for written.
    pub(crate) fn output_shrank(name: &str, found: u64, recorded: u64, checkpoint: &str) -> Self {
        let message = format!(
            "output `{name}` has {found} bytes, and {recorded} had been written when checkpoint \
             `{checkpoint}` was stored, so that results are missing; remove the checkpoint to read \
             the followed file from its start, or move the output away to continue in a new file"
        );
        Self::new(ErrorKind::Environment, message)
    }

    pub(crate) fn output_is_another(name: &str, checkpoint: &str) -> Self {
        let message = format!(
            "output `{name}` is not the file that was written when checkpoint `{checkpoint}` was \
             stored; move it away to continue in a new file, or write to the other file, or remove \
             the checkpoint to read the followed file from its start"
        );
        Self::new(ErrorKind::Misuse, message)
    }

    pub(crate) fn output_is_input(output: &str, input: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("output `{output}` is also the input `{input}`; write to another file"),
        )
    }

    pub(crate) fn outputs_are_one(output: &str, other: &str) -> Self {
        Self::new(
            ErrorKind::Misuse,
            format!("outputs `{output}` and `{other}` are the same file; use two files"),
        )
    }

    pub(crate) fn compress(error: io::Error) -> Self {
        Self::new(ErrorKind::Environment, "the output cannot be compressed").because(error)
    }

    pub(crate) fn no_descriptor(error: io::Error) -> Self {
        Self::new(
            ErrorKind::Environment,
            "too many open files; increase the limit (`ulimit -n`)",
        )
        .because(error)
    }

    pub(crate) fn no_thread(error: io::Error) -> Self {
        Self::new(ErrorKind::Environment, "a worker thread cannot be started").because(error)
    }

    pub(crate) fn no_pipeline(error: lookaside_pipeline::Error) -> Self {
        Self::new(ErrorKind::Misuse, "a run cannot have so many workers").because(error)
    }

    pub(crate) fn panicked(message: &str) -> Self {
        Self::new(
            ErrorKind::Defect,
            format!("a worker panicked: {message}; please report this"),
        )
    }

    /// The first reject or failure of a strict run; there is at least one.
    pub(crate) fn strict(source: &str, rejects: &Rejects, failures: &Rejects) -> Self {
        let all = rejects.first().iter().chain(failures.first());
        let message = match all.min_by_key(|reject| reject.line) {
            Some(first) => format!("`{source}`, line {}: {}", first.line, first.reason),
            None => format!("`{source}` has rejected lines"),
        };
        Self::new(ErrorKind::Input, message)
    }
}

/// The inputs that [`Source::open`](crate::Source::open) supports.
const INPUT_KINDS: &str =
    "files, `-` for standard input, tcp://ADDRESS:PORT and udp://ADDRESS:PORT";

/// The outputs that [`Sink::open`](crate::Sink::open) supports.
const OUTPUT_KINDS: &str = "files, `-` for standard output, `null` and tcp://HOST:PORT";

/// Whether a name looks like `udp://…` rather than like a path.
fn has_scheme(name: &str) -> bool {
    let scheme = name.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A URL without user, password and options, for messages.
fn without_secrets(name: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = name.split_once("://").filter(|_| has_scheme(name)) else {
        return name.into();
    };
    // A password may contain any of the other delimiters.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split_once(['?', '&']).map_or(rest, |(rest, _)| rest);
    format!("{scheme}://{rest}").into()
}

/// Whether a name is a URL of a web server; schemes are case-insensitive.
fn is_http(name: &str) -> bool {
    let (scheme, _) = name.split_once("://").unwrap_or_default();
    ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
}

/// The most similar known name if one is similar enough, otherwise all of them.
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
