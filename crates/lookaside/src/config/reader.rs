//! Typed reading of the server's own sections; each error names file, line and key.

use std::time::Duration;

use lookaside_knowledge::{Config, Contract};
use toml::{Table, Value};

use crate::failure::Failure;
use crate::suggestion::did_you_mean;

/// One table of the file and its path: `server`, `lookups.asn`, `server.keys.0`.
#[derive(Clone)]
pub(super) struct Section<'a> {
    config: &'a Config,
    path: String,
    table: &'a Table,
}

/// A value that is either a string or a table.
pub(super) enum TextOrSection<'a> {
    Text(&'a str),
    Section(Section<'a>),
}

impl<'a> Section<'a> {
    /// A top-level section of the file, if present.
    pub(super) fn top(config: &'a Config, name: &str) -> Option<Self> {
        let table = config.section(name)?;
        Some(Self {
            config,
            path: name.to_owned(),
            table,
        })
    }

    /// Returns an error for the first key that is not among `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Failure> {
        let unknown = self.table.keys().find(|key| !known.contains(&key.as_str()));
        let Some(key) = unknown else {
            return Ok(());
        };
        let hint = did_you_mean(key, known.iter().copied());
        let message = format!("unknown key {}.{key}{hint}", self.path);
        let known = format!("the keys of [{}] are {}", self.path, known.join(", "));
        Err(self.failure(key, &message).with_help(known))
    }

    /// The names of the keys in this section.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.table.keys().map(String::as_str)
    }

    /// The position of a key, or of the section if the key is missing: `knowdb.toml:12`.
    pub(super) fn place(&self, key: &str) -> String {
        let line = self.config.section_line(&format!("{}.{key}", self.path));
        let line = line.or_else(|| self.config.section_line(&self.path));
        format!("{}:{}", self.config.file.display(), line.unwrap_or(1))
    }

    /// An error at the position of a key.
    pub(super) fn failure(&self, key: &str, message: &str) -> Failure {
        Failure::new(format!("{}: {message}", self.place(key)))
    }

    /// An error about the value of a key.
    pub(super) fn bad(&self, key: &str, problem: &str) -> Failure {
        self.failure(key, &format!("{}.{key} {problem}", self.path))
    }

    /// A table below this one.
    pub(super) fn section(&self, key: &str) -> Result<Option<Self>, Failure> {
        let table = self.typed(key, "a table", Value::as_table)?;
        Ok(table.map(|table| Self {
            config: self.config,
            path: format!("{}.{key}", self.path),
            table,
        }))
    }

    /// A string, or a table below this one.
    pub(super) fn text_or_section(
        &self,
        key: &str,
        wanted: &str,
    ) -> Result<TextOrSection<'a>, Failure> {
        let value = self.table.get(key);
        match value {
            Some(Value::String(text)) => Ok(TextOrSection::Text(text)),
            Some(Value::Table(table)) => Ok(TextOrSection::Section(Self {
                config: self.config,
                path: format!("{}.{key}", self.path),
                table,
            })),
            value => {
                let found = value.map_or("nothing".to_owned(), found);
                Err(self.bad(key, &format!("must be {wanted}, not {found}")))
            }
        }
    }

    /// A list of tables below this one.
    pub(super) fn sections(&self, key: &str) -> Result<Vec<Self>, Failure> {
        let wanted = format!("a list of tables, written [[{}.{key}]]", self.path);
        let list = self.typed(key, &wanted, Value::as_array)?;
        let items = list.into_iter().flatten().enumerate();
        items
            .map(|(index, item)| {
                let table = item.as_table();
                let table = table.ok_or_else(|| self.bad(key, &format!("must be {wanted}")))?;
                Ok(Self {
                    config: self.config,
                    path: format!("{}.{key}.{index}", self.path),
                    table,
                })
            })
            .collect()
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, Failure> {
        self.typed(key, "a string", Value::as_str)
    }

    /// A required string.
    pub(super) fn needed_string(&self, key: &str, example: &str) -> Result<&'a str, Failure> {
        self.string(key)?
            .ok_or_else(|| self.bad(key, &format!("is missing; write {example}")))
    }

    /// A string or a list of them.
    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<&'a str>>, Failure> {
        self.strings_like(key, "a string or a list of strings")
    }

    /// A string or a list of them, described as `wanted` in messages.
    pub(super) fn strings_like(
        &self,
        key: &str,
        wanted: &str,
    ) -> Result<Option<Vec<&'a str>>, Failure> {
        self.typed(key, wanted, |value| match value {
            Value::String(text) => Some(vec![text.as_str()]),
            Value::Array(items) => items.iter().map(Value::as_str).collect(),
            _ => None,
        })
    }

    /// All values of this section with their names, each as text.
    pub(super) fn texts(&self) -> Result<Vec<(String, String)>, Failure> {
        let entries = self.table.iter();
        entries
            .map(|(key, value)| {
                let text = match value {
                    Value::String(text) => Some(text.clone()),
                    Value::Integer(number) => Some(number.to_string()),
                    Value::Float(number) => Some(number.to_string()),
                    Value::Boolean(bool) => Some(bool.to_string()),
                    Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
                };
                let text = text.ok_or_else(|| self.bad(key, "must be a string or a number"))?;
                Ok((key.clone(), text))
            })
            .collect()
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A whole number from `min` to `max`.
    pub(super) fn number(&self, key: &str, min: u64, max: u64) -> Result<Option<u64>, Failure> {
        let Some(number) = self.typed(key, "a whole number", Value::as_integer)? else {
            return Ok(None);
        };
        let found = u64::try_from(number)
            .ok()
            .filter(|it| (min..=max).contains(it));
        let problem = || format!("must be from {min} to {max}, not {number}");
        found.map(Some).ok_or_else(|| self.bad(key, &problem()))
    }

    /// A number of bytes.
    pub(super) fn bytes(&self, key: &str, min: u64, max: u64) -> Result<Option<u64>, Failure> {
        const WANTED: &str = "a whole number of bytes, such as 8388608 for 8 MiB";
        self.typed(key, WANTED, Value::as_integer)?;
        self.number(key, min, max)
    }

    /// A time in milliseconds.
    pub(super) fn millis(
        &self,
        key: &str,
        min: u64,
        max: u64,
    ) -> Result<Option<Duration>, Failure> {
        Ok(self.number(key, min, max)?.map(Duration::from_millis))
    }

    /// What an answer has to include: `any`, `now` or a time.
    pub(super) fn contract(&self, key: &str) -> Result<Option<Contract>, Failure> {
        let Some(text) = self.string(key)? else {
            return Ok(None);
        };
        let contract = text.parse::<Contract>();
        contract.map(Some).map_err(|error| {
            let problem = format!("is {text:?}, but {error}");
            self.bad(key, &problem)
        })
    }

    fn typed<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let problem = || format!("must be {wanted}, not {}", found(value));
        read(value)
            .map(Some)
            .ok_or_else(|| self.bad(key, &problem()))
    }
}

/// Describes a value of the wrong type.
fn found(value: &Value) -> String {
    // Nearly all lists are lists of strings, so one of the items has the wrong type.
    let odd = match value {
        Value::Array(items) => items.iter().find(|item| !item.is_str()),
        _ => None,
    };
    match odd {
        Some(item) => format!("a list that contains {}", kind_of(item)),
        None => kind_of(value).to_owned(),
    }
}

/// The type of a value, for messages that report another expected type.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with decimals",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}
