//! The records of a data file: header, mapping, and one record after the other with its line.

use std::io::Read;
use std::rc::Rc;

use csv::{ErrorKind, StringRecord};

use super::source::{self, Position};
use crate::Result;
use crate::config::{Columns, CsvConfig, TableConfig};
use crate::error::Error;

/// Bytes that the CSV parser asks for at once.
const PARSE_SIZE: usize = 128 << 10;

/// A data file that is being read.
pub(super) struct Records<'a> {
    table: &'a TableConfig,
    reader: csv::Reader<Box<dyn Read>>,
    position: Rc<Position>,
    /// The names of the columns, trimmed, if the file has them.
    header: Option<Vec<String>>,
    /// The current record.
    record: StringRecord,
    /// The first record was read already, to learn its width.
    peeked: bool,
    trim: bool,
}

/// What came next.
pub(super) enum Next {
    /// A record, see [`Records::field`].
    Record,
    /// A record that is none.
    Bad {
        /// Where it begins, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has ended.
    End,
}

impl<'a> Records<'a> {
    /// Opens the data file of a table and reads its header.
    pub(super) fn open(table: &'a TableConfig, csv: &CsvConfig) -> Result<Self> {
        let position = Rc::new(Position::default());
        let text = source::open(&table.data_file, csv.encoding, &position)
            .map_err(|source| Error::file(&table.data_file, source))?;
        Self::read(table, csv, text, position)
    }

    /// Reads the header of text that comes from anywhere.
    pub(super) fn read(
        table: &'a TableConfig,
        csv: &CsvConfig,
        text: Box<dyn Read>,
        position: Rc<Position>,
    ) -> Result<Self> {
        let reader = csv::ReaderBuilder::new()
            .delimiter(csv.delimiter)
            .has_headers(false)
            .buffer_capacity(PARSE_SIZE)
            .from_reader(text);
        let mut records = Self {
            table,
            reader,
            position,
            header: None,
            record: StringRecord::new(),
            peeked: false,
            trim: csv.trim,
        };
        if csv.has_header {
            records.header = match records.next()? {
                Next::Record => Some(records.fields().map(str::to_owned).collect()),
                Next::Bad { line, reason } => return Err(Error::row(table, line, &reason)),
                Next::End => None,
            };
        } else if let Next::Bad { line, reason } = records.next()? {
            return Err(Error::row(table, line, &reason));
        } else {
            records.peeked = true;
        }
        Ok(records)
    }

    /// The names of the columns, if the file has them.
    pub(super) fn header(&self) -> Option<&[String]> {
        self.header.as_deref()
    }

    /// How many fields a record has; 0 in a file without any record.
    pub(super) fn width(&self) -> usize {
        self.record.len()
    }

    /// The positions in a record of the fields that are bound, in order.
    pub(super) fn mapping(&self) -> Result<Vec<usize>> {
        match &self.table.columns {
            Columns::All => Ok((0..self.width()).collect()),
            Columns::ByIndex(indexes) => {
                let beyond = indexes.iter().find(|&&index| index >= self.width());
                match beyond {
                    // Without a record there is nothing to be beyond of, and nothing to load.
                    Some(index) if self.width() > 0 => {
                        Err(Error::beyond_record(self.table, *index, self.width()))
                    }
                    _ => Ok(indexes.clone()),
                }
            }
            Columns::ByHeader(names) => names.iter().map(|name| self.named(name)).collect(),
        }
    }

    fn named(&self, name: &str) -> Result<usize> {
        let header = self.header.as_deref().unwrap_or_default();
        let mut found = header
            .iter()
            .enumerate()
            .filter(|(_, column)| *column == name);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (Some(_), Some(_)) => Err(Error::ambiguous_header(self.table, name)),
            (None, _) => Err(Error::unknown_header(self.table, name, header)),
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// When reading cannot go on; a bad record is [`Next::Bad`].
    pub(super) fn next(&mut self) -> Result<Next> {
        if std::mem::take(&mut self.peeked) {
            return Ok(if self.record.is_empty() {
                Next::End
            } else {
                Next::Record
            });
        }
        self.position.begin_record();
        let error = match self.reader.read_record(&mut self.record) {
            Ok(true) => return Ok(Next::Record),
            Ok(false) => return Ok(Next::End),
            Err(error) => error,
        };
        let line = error
            .position()
            .map_or_else(|| self.reader.position().line(), csv::Position::line);
        match error.into_kind() {
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => Ok(Next::Bad {
                line,
                reason: format!("{len} fields where the first record has {expected_len}"),
            }),
            ErrorKind::Utf8 { err, .. } => Ok(Next::Bad {
                line,
                reason: format!("field {} is not UTF-8", err.field() + 1),
            }),
            ErrorKind::Io(source) => Err(Error::unreadable(self.table, line, source)),
            other => Ok(Next::Bad {
                line,
                reason: format!("{other:?}"),
            }),
        }
    }

    /// The field at a position of the current record, trimmed if so configured.
    #[inline]
    pub(super) fn field(&self, index: usize) -> Option<&str> {
        let field = self.record.get(index)?;
        Some(if self.trim { field.trim_ascii() } else { field })
    }

    /// All fields of the current record.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        (0..self.record.len()).filter_map(|index| self.field(index))
    }

    /// The line on which the current record begins, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.record.position().map_or(1, csv::Position::line)
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.position.file()
    }
}
