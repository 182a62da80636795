//! Typed reading of a parsed TOML document; every error names file, line and key.

use std::num::IntErrorKind;
use std::ops::Range;
use std::path::Path;

use lookaside_value::Value;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::Result;
use crate::error::Error;

/// The similarity (Jaro-Winkler, 1.0 is equal) from which a known key is suggested for a misspelled
/// one.
const SUGGESTION_SIMILARITY_MIN: f64 = 0.75;

/// The text that positions in errors refer to.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// The line, counted from 1, that holds the byte at `offset`.
    pub(super) fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    /// An error at a byte of the text.
    pub(super) fn error(&self, offset: usize, message: impl AsRef<str>) -> Error {
        Error::config(self.file, self.line(offset), message.as_ref())
    }
}

/// One table of the document.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    source: Source<'a>,
    /// Empty for the document itself.
    name: &'a str,
    table: &'a DeTable<'a>,
    offset: usize,
}

impl<'a> Section<'a> {
    /// The document itself.
    pub(super) fn root(source: Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self {
            source,
            name: "",
            table,
            offset: 0,
        }
    }

    /// The line on which the section begins.
    pub(super) fn line(&self) -> usize {
        self.source.line(self.offset)
    }

    /// Returns an error for keys that are not in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        for (key, _) in self.table {
            if known.contains(&&**key.get_ref()) {
                continue;
            }
            let place = self.path(key.get_ref());
            let message = match nearest(key.get_ref(), known) {
                Some(near) => format!("unknown key {place}; did you mean {near}?"),
                None => format!(
                    "unknown key {place}; the known keys are {}",
                    known.join(", ")
                ),
            };
            return Err(self.source.error(key.span().start, message));
        }
        Ok(())
    }

    /// Whether the key is there, whatever its type.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// All keys, in the order of the document.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        let mut keys: Vec<(usize, &str)> = self
            .table
            .iter()
            .map(|(key, _)| (key.span().start, &**key.get_ref()))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Whether the key holds a list.
    pub(super) fn is_list(&self, key: &str) -> bool {
        let value = self.value(key);
        value.is_some_and(|value| value.get_ref().as_array().is_some())
    }

    /// A boolean.
    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", |value| value.as_bool())
    }

    /// A string.
    pub(super) fn str(&self, key: &str) -> Result<Option<&'a str>> {
        self.typed(key, "a string", |value| value.as_str())
    }

    /// A whole number from 0.
    pub(super) fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a non-negative integer", integer)
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(word) = self.str(key)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(known, _)| *known == word);
        let Some((_, value)) = found else {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let expected = known.join(" or ");
            return Err(self.bad(key, &format!("must be {expected}, not {word:?}")));
        };
        Ok(Some(*value))
    }

    /// All keys with their values: strings, integers, floats and booleans.
    pub(super) fn scalars(&self) -> Result<Vec<(String, Value)>> {
        let pairs = self.table.iter().map(|(key, value)| {
            let key = key.get_ref();
            let scalar = match value.get_ref() {
                DeValue::String(text) => Some(Value::from(&**text)),
                DeValue::Integer(int) => {
                    let int = i64::from_str_radix(int.as_str(), int.radix());
                    int.ok().map(Value::Int)
                }
                DeValue::Float(float) => {
                    let float = float.as_str().parse().ok();
                    float.filter(|it: &f64| it.is_finite()).map(Value::Float)
                }
                DeValue::Boolean(bool) => Some(Value::Bool(*bool)),
                _ => None,
            };
            let scalar =
                scalar.ok_or_else(|| self.bad(key, "must be a string, a number, true or false"))?;
            Ok((key.to_string(), scalar))
        });
        pairs.collect()
    }

    /// A list of strings.
    pub(super) fn strs(&self, key: &str) -> Result<Vec<&'a str>> {
        self.list(key, "a list of strings", |value| value.as_str())
    }

    /// A list of whole numbers from 0.
    pub(super) fn usizes(&self, key: &str) -> Result<Vec<usize>> {
        self.list(key, "a list of non-negative integers", |value| {
            integer(value).and_then(|int| usize::try_from(int).ok())
        })
    }

    /// A table below this one.
    pub(super) fn section(&self, key: &'a str) -> Result<Option<Self>> {
        let table = self.typed(key, "a table", |value| value.as_table())?;
        Ok(table.map(|table| Self {
            name: key,
            table,
            offset: self.span(key).start,
            ..*self
        }))
    }

    /// An array of tables below this one.
    pub(super) fn sections(&self, key: &'a str) -> Result<Vec<Self>> {
        let wanted = format!("a list of tables, written [[{key}]]");
        let Some(list) = self.typed(key, &wanted, |value| value.as_array())? else {
            return Ok(Vec::new());
        };
        list.iter()
            .map(|item| {
                let table = item.get_ref().as_table();
                let table = table.ok_or_else(|| self.bad(key, &format!("must be {wanted}")))?;
                Ok(Self {
                    name: key,
                    table,
                    offset: item.span().start,
                    ..*self
                })
            })
            .collect()
    }

    /// An error at a key's value, or at the section where the key is missing.
    pub(super) fn bad(&self, key: &str, problem: &str) -> Error {
        let place = self.path(key);
        self.source
            .error(self.span(key).start, format!("{place} {problem}"))
    }

    /// Collects every key below this section with its line, as dotted paths; items of a list are
    /// numbered from 0.
    pub(super) fn collect_lines(&self, into: &mut impl Extend<(String, usize)>) {
        fn walk(
            source: Source<'_>,
            path: &str,
            table: &DeTable<'_>,
            into: &mut impl Extend<(String, usize)>,
        ) {
            for (key, value) in table {
                let path = format!("{path}.{}", key.get_ref());
                into.extend([(path.clone(), source.line(key.span().start))]);
                match value.get_ref() {
                    DeValue::Table(table) => walk(source, &path, table, into),
                    DeValue::Array(items) => {
                        for (index, item) in items.iter().enumerate() {
                            let path = format!("{path}.{index}");
                            into.extend([(path.clone(), source.line(item.span().start))]);
                            if let Some(table) = item.get_ref().as_table() {
                                walk(source, &path, table, into);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        into.extend([(self.name.to_owned(), self.line())]);
        walk(self.source, self.name, self.table, into);
    }

    fn path(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    fn span(&self, key: &str) -> Range<usize> {
        match self.value(key) {
            Some(value) => value.span(),
            None => self.offset..self.offset,
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let found = value.get_ref();
        read(found).map(Some).ok_or_else(|| {
            let problem = match found {
                DeValue::Integer(int) if is_beyond(int) => {
                    format!("must be at most {}, not {}", i64::MAX, int.as_str())
                }
                DeValue::Integer(int) => format!("must be {wanted}, not {}", int.as_str()),
                other => format!("must be {wanted}, not {}", article(other.type_str())),
            };
            self.bad(key, &problem)
        })
    }

    fn list<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Vec<T>> {
        let Some(list) = self.typed(key, wanted, |value| value.as_array())? else {
            return Ok(Vec::new());
        };
        list.iter()
            .map(|item| {
                read(item.get_ref()).ok_or_else(|| {
                    let message = format!("{} must be {wanted}", self.path(key));
                    self.source.error(item.span().start, message)
                })
            })
            .collect()
    }
}

/// Integers may be written in any base.
fn integer(value: &DeValue<'_>) -> Option<u64> {
    let int = value.as_integer()?;
    let value = i64::from_str_radix(int.as_str(), int.radix()).ok()?;
    u64::try_from(value).ok()
}

/// Whether an integer is larger than TOML allows.
fn is_beyond(int: &DeInteger<'_>) -> bool {
    match i128::from_str_radix(int.as_str(), int.radix()) {
        Ok(value) => value > i64::MAX.into(),
        Err(error) => *error.kind() == IntErrorKind::PosOverflow,
    }
}

fn article(type_name: &str) -> String {
    match type_name {
        "array" => "an array".to_owned(),
        other => format!("a {other}"),
    }
}

fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(key, name), *name))
        .filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
