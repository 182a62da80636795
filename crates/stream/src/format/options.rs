//! Options of a format, as flags and configuration files give them.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Error, Result};

/// Named options of a format; of two with one name the later counts.
///
/// ```
/// use lookaside_stream::{FormatOptions, InputFormat};
///
/// let options = FormatOptions::new().set("delimiter", ";");
/// assert!(InputFormat::new("csv", &options).is_ok());
/// assert!(InputFormat::new("json", &options).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct FormatOptions {
    all: Vec<(String, String)>,
    /// What a message writes before an option that it advises.
    prefix: &'static str,
}

impl FormatOptions {
    /// No option: every default holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.all.retain(|(known, _)| *known != name);
        self.all.push((name, value.into()));
        self
    }

    /// How whoever reads a message sets an option: `--output-option ` before `NAME=VALUE`, say.
    #[must_use]
    pub fn advised_as(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// These options for the format of that name, which knows the options `known`.
    pub(crate) fn of<'a>(
        &'a self,
        format: &'static str,
        known: &[&str],
    ) -> Result<OptionReader<'a>> {
        match self.all.iter().find(|(name, _)| !known.contains(&&**name)) {
            Some((name, _)) => Err(Error::unknown_option(format, name, known)),
            None => Ok(OptionReader {
                options: self,
                format,
            }),
        }
    }
}

/// Reads the options of one format; all names in it are known to the format.
#[derive(Clone, Copy)]
pub(crate) struct OptionReader<'a> {
    options: &'a FormatOptions,
    format: &'static str,
}

impl<'a> OptionReader<'a> {
    pub(crate) fn text(self, name: &str) -> Option<&'a str> {
        let mut options = self.options.all.iter();
        options
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn prefix(self) -> &'static str {
        self.options.prefix
    }

    pub(crate) fn parse<T: FromStr<Err: Display>>(
        self,
        name: &str,
        default: T,
        wanted: &str,
    ) -> Result<T> {
        match self.text(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| self.bad(name, value, wanted)),
        }
    }

    /// A single ASCII character, or one of the words `tab`, `\t`, `blank`, `comma`, `semicolon`
    /// and `pipe`, which shells and configuration files carry more easily.
    pub(crate) fn separator(self, name: &str, default: u8) -> Result<u8> {
        let Some(value) = self.text(name) else {
            return Ok(default);
        };
        match value {
            "tab" | "\\t" => Ok(b'\t'),
            "blank" => Ok(b' '),
            "comma" => Ok(b','),
            "semicolon" => Ok(b';'),
            "pipe" => Ok(b'|'),
            _ => match value.as_bytes() {
                &[byte] if byte.is_ascii() && !b"\"\\\r\n".contains(&byte) => Ok(byte),
                _ => Err(self.bad(
                    name,
                    value,
                    "one ASCII character other than a quote, a backslash and a line end",
                )),
            },
        }
    }

    /// Names parted by commas, blanks around them dropped.
    pub(crate) fn columns(self, name: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let columns: Vec<&str> = value.split(',').map(str::trim).collect();
        for (index, column) in columns.iter().enumerate() {
            if column.is_empty() || columns[..index].contains(column) {
                return Err(self.bad(name, value, "a list of different names parted by commas"));
            }
        }
        Ok(Some(columns))
    }

    pub(crate) fn bad(self, name: &str, value: &str, wanted: &str) -> Error {
        Error::bad_option(self.format, name, value, wanted)
    }
}
