//! The rows of a file of JSON lines: an object a line, and the values at paths in it.
//!
//! A line is split into its members without a tree of values: a nested object or array stays the text
//! that it is, and numbers keep their digits.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::{Value as SqlValue, ValueRef};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::records::NextRecord;
use super::source::{self, FilePosition, Source};
use super::unsupported;
use crate::Result;
use crate::config::{ColumnPath, Columns, TableConfig};
use crate::error::Error;

/// The size limit of a line in bytes; a longer one is almost always a file without line breaks.
const LINE_SIZE_MAX: usize = 64 << 20;

/// The most different keys of a file whose columns are not configured: SQLite's limit of columns.
const KEY_COUNT_MAX: usize = 2000;

/// A reader of a file of JSON lines.
pub(super) struct JsonRows {
    columns: Vec<ColumnPath>,
    lines: Lines,
    /// The values of the current line.
    values: Vec<SqlValue>,
    /// For each column whether a line had its key.
    found: Vec<bool>,
    /// Whether there was a line.
    has_lines: bool,
}

/// The lines of a file.
struct Lines {
    file: PathBuf,
    source: BufReader<Source>,
    position: Arc<FilePosition>,
    bytes: Vec<u8>,
    /// The line in `bytes`, counted from 1.
    line: u64,
}

impl JsonRows {
    /// Opens the first of the data files of a table.
    pub(super) fn open(table: &TableConfig, files: &[PathBuf]) -> Result<Self> {
        let columns = match &table.columns {
            Columns::ByHeader(names) => names.iter().map(|name| ColumnPath::dotted(name)).collect(),
            Columns::ByPath(columns) => columns.clone(),
            Columns::ByIndex(_) => {
                unreachable!("the configuration refuses positions for JSON lines")
            }
            Columns::All => keys_of(table, files)?,
        };
        Ok(Self::new(columns, Lines::open(table, &files[0])?))
    }

    fn new(columns: Vec<ColumnPath>, lines: Lines) -> Self {
        Self {
            lines,
            values: vec![SqlValue::Null; columns.len()],
            found: vec![false; columns.len()],
            has_lines: false,
            columns,
        }
    }

    /// Reads the values at paths from bytes instead of a file.
    pub(super) fn read_bytes(
        table: &TableConfig,
        columns: Vec<ColumnPath>,
        bytes: Source,
    ) -> Result<Self> {
        let lines = Lines::read(table, &table.data_file, bytes, Arc::default())?;
        Ok(Self::new(columns, lines))
    }

    /// Continues with the next of the data files.
    pub(super) fn open_next(&mut self, table: &TableConfig, file: &Path) -> Result<()> {
        self.lines = Lines::open(table, file)?;
        Ok(())
    }

    /// The names of the values of a row.
    pub(super) fn names(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns.map(|column| column.name.clone()).collect()
    }

    /// Reads the next line that is not empty.
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        if !self.lines.next()? {
            return Ok(NextRecord::End);
        }
        self.has_lines = true;
        Ok(match self.read() {
            Ok(()) => NextRecord::Record,
            Err(reason) => NextRecord::Bad {
                line: self.lines.line,
                reason,
                is_fatal: false,
            },
        })
    }

    fn read(&mut self) -> std::result::Result<(), String> {
        let line = self.lines.text()?;
        let members = Members::of(line, line)?;
        for (index, ColumnPath { path, .. }) in self.columns.iter().enumerate() {
            let value = value_at(line, &members, path)?;
            self.found[index] |= value.is_some();
            self.values[index] = match value {
                Some(value) => sql_value(line, value)?,
                None => SqlValue::Null,
            };
        }
        Ok(())
    }

    /// A value of the current line.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        (&self.values[index]).into()
    }

    /// The current line, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.lines.line
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.lines.position.bytes_read()
    }

    /// Warnings about columns that no line has.
    pub(super) fn warnings(&self) -> Vec<String> {
        if !self.has_lines {
            return Vec::new();
        }
        let columns = self.columns.iter().zip(&self.found);
        let missing = columns.filter(|(_, found)| !**found);
        missing
            .map(|(column, _)| {
                let (name, path) = (&column.name, column.path.join("."));
                format!("column {name:?} is NULL in each row: no line has the key {path}")
            })
            .collect()
    }
}

impl Lines {
    fn open(table: &TableConfig, file: &Path) -> Result<Self> {
        let position = Arc::new(FilePosition::default());
        let bytes = source::open(table.readable(file), &position)
            .map_err(|source| Error::data_file(table, file, source))?;
        Self::read(table, file, bytes, position)
    }

    /// Reads lines from bytes, which `file` names in errors.
    fn read(
        table: &TableConfig,
        file: &Path,
        bytes: Source,
        position: Arc<FilePosition>,
    ) -> Result<Self> {
        let (head, bytes) = source::with_head(bytes, unsupported::HEAD_SIZE)
            .map_err(|source| Error::unreadable(file, 1, source))?;
        if let Some((what, instead)) = unsupported::problem_of_head(&head, encoding_rs::UTF_8) {
            return Err(Error::not_readable(table, file, what, instead));
        }
        Ok(Self {
            file: file.to_owned(),
            source: BufReader::new(bytes),
            position,
            bytes: Vec::new(),
            line: 0,
        })
    }

    /// Reads the next line that is not empty; returns whether there is one.
    fn next(&mut self) -> Result<bool> {
        loop {
            self.bytes.clear();
            let limit = LINE_SIZE_MAX as u64 + 1;
            let size = (&mut self.source)
                .take(limit)
                .read_until(b'\n', &mut self.bytes)
                .map_err(|error| Error::unreadable(&self.file, self.line + 1, error))?;
            if size == 0 {
                return Ok(false);
            }
            self.line += 1;
            if size > LINE_SIZE_MAX {
                return Err(Error::line_limit(&self.file, self.line, LINE_SIZE_MAX));
            }
            if self.line == 1 && self.bytes.starts_with(b"\xef\xbb\xbf") {
                self.bytes.drain(..3);
            }
            if !self.bytes.iter().all(is_space) {
                return Ok(true);
            }
        }
    }

    /// The line as text, without its end.
    fn text(&self) -> std::result::Result<&str, String> {
        let end = self.bytes.iter().rposition(|byte| !is_space(byte));
        let bytes = &self.bytes[..end.map_or(0, |end| end + 1)];
        std::str::from_utf8(bytes).map_err(|error| {
            // The bytes before are valid, so each character begins at one byte.
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let column = valid.chars().count() + 1;
            format!("column {column}: not UTF-8, which JSON has to be")
        })
    }
}

/// Whether a byte is white space in JSON, which a form feed is not.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A column for each key of the objects of files, in the order in which they first occur.
fn keys_of(table: &TableConfig, files: &[PathBuf]) -> Result<Vec<ColumnPath>> {
    let mut columns: Vec<ColumnPath> = Vec::new();
    let mut known = HashSet::new();
    let mut first_bad = None;
    for file in files {
        let mut lines = Lines::open(table, file)?;
        while lines.next()? {
            // The load itself reports a bad line or fails at it, unless there are no columns.
            let members = lines.text().and_then(|text| Members::of(text, text));
            let members = match members {
                Ok(members) => members,
                Err(reason) => {
                    let place = || format!("{}:{}", file.display(), lines.line);
                    first_bad.get_or_insert_with(|| Error::row(&place(), &reason));
                    continue;
                }
            };
            for (key, _) in members.0 {
                if known.contains(&*key) {
                    continue;
                }
                if columns.len() == KEY_COUNT_MAX {
                    return Err(Error::key_limit(file, lines.line, KEY_COUNT_MAX));
                }
                known.insert(key.to_string());
                columns.push(ColumnPath {
                    name: key.to_string(),
                    path: vec![key.into_owned()],
                });
            }
        }
    }
    match first_bad {
        Some(error) if columns.is_empty() => Err(error),
        _ => Ok(columns),
    }
}

/// The members of an object in their order, values as they are written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of an object that is `line` or a part of it.
    fn of(line: &str, object: &'a str) -> std::result::Result<Self, String> {
        if !object.trim_start().starts_with('{') {
            let column = column_of(line, object, 0);
            return Err(format!(
                "column {column}: not an object; write one object a line, as `jq -c '.[]'` does"
            ));
        }
        serde_json::from_str(object).map_err(|error| {
            let column = column_of(line, object, error.column().saturating_sub(1));
            let said = error.to_string();
            let reason = said.rsplit_once(" at line ").map_or(&*said, |(it, _)| it);
            format!("column {column}: {reason}")
        })
    }

    /// The value of a key, which may occur once.
    fn value(&self, line: &str, key: &str) -> std::result::Result<Option<&'a str>, String> {
        let mut found = self.0.iter().filter(|(known, _)| known == key);
        let (first, second) = (found.next(), found.next());
        if let Some((_, value)) = second {
            let column = column_of(line, value.get(), 0);
            return Err(format!(
                "column {column}: a second value of the key {key:?}"
            ));
        }
        Ok(first.map(|(_, value)| value.get()))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Text that is borrowed from the line unless it has escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The value at a path of keys of objects and positions in arrays, as it is written.
fn value_at<'a>(
    line: &str,
    members: &Members<'a>,
    path: &[String],
) -> std::result::Result<Option<&'a str>, String> {
    let [first, rest @ ..] = path else {
        return Ok(None);
    };
    let mut value = members.value(line, first)?;
    for part in rest {
        value = match value {
            Some(object) if object.starts_with('{') => {
                Members::of(line, object)?.value(line, part)?
            }
            Some(array) if array.starts_with('[') => {
                let items: Vec<&RawValue> = serde_json::from_str(array).unwrap_or_default();
                let item = part
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index));
                item.map(|item| item.get())
            }
            _ => return Ok(None),
        };
    }
    Ok(value)
}

/// A value in SQL. Objects and arrays stay as they are written, as do integers beyond 64 bits, which
/// are text.
fn sql_value(line: &str, value: &str) -> std::result::Result<SqlValue, String> {
    Ok(match value.as_bytes().first() {
        Some(b'n') => SqlValue::Null,
        Some(b't') => SqlValue::Integer(1),
        Some(b'f') => SqlValue::Integer(0),
        Some(b'"') => {
            let Key(text) = serde_json::from_str(value).map_err(|error| {
                let column = column_of(line, value, error.column().saturating_sub(1));
                let said = error.to_string();
                let reason = said.rsplit_once(" at line ").map_or(&*said, |(it, _)| it);
                format!("column {column}: {reason}")
            })?;
            SqlValue::Text(text.into_owned())
        }
        Some(b'{' | b'[') => SqlValue::Text(value.to_owned()),
        _ if value.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
            match value.parse::<f64>() {
                Ok(real) if real.is_finite() => SqlValue::Real(real),
                _ => {
                    let column = column_of(line, value, 0);
                    return Err(format!(
                        "column {column}: a number beyond the range of floats"
                    ));
                }
            }
        }
        _ => match value.parse() {
            Ok(int) => SqlValue::Integer(int),
            Err(_) => SqlValue::Text(value.to_owned()),
        },
    })
}

/// The column, in characters from 1, of a byte of a part of a line.
fn column_of(line: &str, part: &str, offset: usize) -> usize {
    let begin = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    let end = (begin + offset).min(line.len());
    1 + line[..line.floor_char_boundary(end)].chars().count()
}
