//! Options of a format, from flags and configuration files.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Error, Result};

/// Named options of a format; of two with the same name, the later applies.
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
    /// The prefix of an option in hints of messages.
    prefix: &'static str,
}

impl FormatOptions {
    /// No options, so that all defaults apply.
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

    /// Sets how messages tell users to set an option: the prefix of `NAME=VALUE`, such as
    /// `--output-option `.
    #[must_use]
    pub fn advised_as(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// A reader of these options for the format with this name, which supports the options `known`.
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

/// Reads the options of one format; all names in it are supported by the format.
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
    /// and `pipe`, which are easier to write in shells and configuration files.
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

    /// Names separated by commas, without the blanks around them.
    pub(crate) fn columns(self, name: &str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        let columns: Vec<&str> = value.split(',').map(str::trim).collect();
        for (index, column) in columns.iter().enumerate() {
            if column.is_empty() || columns[..index].contains(column) {
                return Err(self.bad(name, value, "a list of different names separated by commas"));
            }
        }
        Ok(Some(columns))
    }

    pub(crate) fn bad(self, name: &str, value: &str, wanted: &str) -> Error {
        Error::bad_option(self.format, name, value, wanted)
    }
}
