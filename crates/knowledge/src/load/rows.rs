//! The rows of a table: those of its files, one after the other, whatever their format.

use std::fs;
use std::path::{Path, PathBuf};
use std::vec;

use rusqlite::types::ValueRef;

use super::columnar::ColumnarRows;
use super::delimiter;
use super::json_lines::JsonRows;
use super::mmdb::Networks;
use super::records::{NextRecord, Records};
use super::sqlite::SqliteRows;
use crate::Result;
use crate::config::{Config, CsvConfig, TableConfig, TableFormat};
use crate::error::Error;
use crate::file_pattern::FILE_COUNT_MAX;

/// A reader of rows: each is a list of values, which are bound to the parameters of an insert.
pub(super) struct Rows<'a> {
    table: &'a TableConfig,
    csv: CsvConfig,
    /// All files, those that are not opened yet, and the rows of the one that is.
    files: Vec<PathBuf>,
    next_files: vec::IntoIter<PathBuf>,
    current: FileRows<'a>,
    /// The sizes of all files, and of those before the current one, in bytes.
    size: u64,
    size_before: u64,
    /// The names of the values, which are the same in all files.
    names: Vec<String>,
    warnings: Vec<String>,
}

enum FileRows<'a> {
    Csv(Box<CsvRows<'a>>),
    Json(Box<JsonRows>),
    Networks(Box<Networks<'a>>),
    Columnar(Box<ColumnarRows>),
    Sqlite(Box<SqliteRows>),
}

/// The mapped fields of the records of a CSV file.
struct CsvRows<'a> {
    records: Records<'a>,
    /// The positions of the fields, in the order of the parameters.
    mapping: Vec<usize>,
}

/// A line in one of the files of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// The position of the file.
    file: usize,
    /// Counted from 1.
    line: u64,
}

impl<'a> Rows<'a> {
    /// Opens the first file of a table.
    pub(super) fn open(config: &Config, table: &'a TableConfig) -> Result<Self> {
        let files = files_of(table)?;
        let sizes = files.iter().map(|file| size_of(table.readable(file)));
        let size = sizes.sum();
        let mut next_files = files.clone().into_iter();
        let csv = *config.csv_of(table);
        let Some(first) = next_files.next() else {
            return Err(Error::no_files(table));
        };
        let current = match table.format {
            TableFormat::Csv => FileRows::Csv(CsvRows::open(table, &first, &csv)?.into()),
            TableFormat::JsonLines => FileRows::Json(JsonRows::open(table, &files)?.into()),
            TableFormat::Mmdb => FileRows::Networks(Networks::open(table, &first)?.into()),
            TableFormat::Parquet | TableFormat::Arrow => {
                FileRows::Columnar(ColumnarRows::open(table, &first)?.into())
            }
            TableFormat::Sqlite => FileRows::Sqlite(SqliteRows::open(table, &first)?.into()),
        };
        let mut rows = Self {
            table,
            csv,
            files,
            next_files,
            names: current.names(),
            current,
            size,
            size_before: 0,
            warnings: Vec::new(),
        };
        rows.add_warnings();
        if rows.names.is_empty() && rows.lacks_header() {
            return Err(Error::no_header(table, &rows.files[0]));
        }
        // A file without a record does not tell how many fields the others have.
        while rows.names.is_empty() && !csv.has_header && rows.open_next()? {
            rows.names = rows.current.names();
        }
        Ok(rows)
    }

    /// The files.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// How many values a row has; 0 if that is unknown, as there are no rows.
    pub(super) fn width(&self) -> usize {
        self.names.len()
    }

    /// The names of the values of a row: those of the header, `column_1` and so on without one.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The types that the file declares for the values, if it does.
    pub(super) fn declared_types(&self) -> Option<&[&'static str]> {
        match &self.current {
            FileRows::Sqlite(rows) => Some(rows.types()),
            _ => None,
        }
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// When reading cannot continue; a bad row is [`NextRecord::Bad`].
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        loop {
            let next = match &mut self.current {
                FileRows::Csv(rows) => rows.records.next()?,
                FileRows::Json(rows) => rows.next()?,
                FileRows::Networks(networks) => match networks.next()? {
                    true => NextRecord::Record,
                    false => NextRecord::End,
                },
                FileRows::Columnar(rows) => rows.next(self.table)?,
                FileRows::Sqlite(rows) => rows.next()?,
            };
            match next {
                NextRecord::End if self.open_next()? => {
                    let names = self.current.names();
                    let file = &self.files[self.file_index()];
                    if names.is_empty() && self.lacks_header() {
                        return Err(Error::no_header(self.table, file));
                    }
                    // Without a header, a file may have no record.
                    if names != self.names && !names.is_empty() {
                        let first = (&*self.files[0], &*self.names);
                        return Err(Error::other_columns(self.table, (file, &names), first));
                    }
                }
                next => return Ok(next),
            }
        }
    }

    /// Opens the next file; returns whether there is one.
    fn open_next(&mut self) -> Result<bool> {
        let Some(file) = self.next_files.next() else {
            return Ok(false);
        };
        self.size_before += size_of(self.table.readable(&self.files[self.file_index() - 1]));
        match &mut self.current {
            FileRows::Csv(rows) => **rows = CsvRows::open(self.table, &file, &self.csv)?,
            FileRows::Json(rows) => rows.open_next(self.table, &file)?,
            FileRows::Networks(_) | FileRows::Sqlite(_) => {
                unreachable!("a database is a single file")
            }
            FileRows::Columnar(rows) => {
                self.warnings.append(&mut rows.warnings());
                **rows = ColumnarRows::open(self.table, &file)?;
            }
        }
        self.add_warnings();
        Ok(true)
    }

    fn add_warnings(&mut self) {
        if let FileRows::Csv(rows) = &self.current
            && let Some(warning) = rows.warning(self.csv.delimiter)
            && !self.warnings.contains(&warning)
        {
            self.warnings.push(warning);
        }
    }

    /// Whether an empty file is an error, as one of several that have headers.
    fn lacks_header(&self) -> bool {
        self.table.format == TableFormat::Csv && self.csv.has_header && self.files.len() > 1
    }

    /// The position of the current file.
    fn file_index(&self) -> usize {
        self.files.len() - self.next_files.len() - 1
    }

    /// A value of the current row.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        match &self.current {
            FileRows::Csv(rows) => ValueRef::Text(rows.field(index)),
            FileRows::Json(rows) => rows.value(index),
            FileRows::Networks(networks) => networks.value(index),
            FileRows::Columnar(rows) => rows.value(index),
            FileRows::Sqlite(rows) => rows.value(index),
        }
    }

    /// The line of the current row, or its number in a format without lines.
    pub(super) fn spot(&self) -> Spot {
        let line = match &self.current {
            FileRows::Csv(rows) => rows.records.line(),
            FileRows::Json(rows) => rows.line(),
            FileRows::Networks(_) => 0,
            FileRows::Columnar(rows) => rows.row(),
            FileRows::Sqlite(rows) => rows.row(),
        };
        Spot::new(self.file_index(), line)
    }

    /// The current row in messages.
    pub(super) fn place(&self) -> String {
        match &self.current {
            FileRows::Networks(networks) => networks.place(),
            _ => self.place_of_line(self.spot().line),
        }
    }

    /// A line of the current file in messages, or a row in a format without lines.
    pub(super) fn place_of_line(&self, line: u64) -> String {
        let file = self.files[self.file_index()].display();
        match &self.current {
            FileRows::Columnar(_) | FileRows::Sqlite(_) => format!("{file}: row {line}"),
            _ => format!("{file}:{line}"),
        }
    }

    /// The sizes of all files in bytes.
    pub(super) fn bytes_total(&self) -> u64 {
        self.size
    }

    /// How many bytes of the files were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        let of_current = match &self.current {
            FileRows::Csv(rows) => rows.records.bytes_read(),
            FileRows::Json(rows) => rows.bytes_read(),
            FileRows::Networks(networks) => (self.size as f64 * networks.progress()) as u64,
            FileRows::Sqlite(rows) => (self.size as f64 * rows.progress()) as u64,
            FileRows::Columnar(rows) => {
                let size = size_of(self.table.readable(&self.files[self.file_index()]));
                (size as f64 * rows.progress()) as u64
            }
        };
        self.size_before + of_current
    }

    /// Warnings about the files, after the last row.
    pub(super) fn warnings(&self) -> Vec<String> {
        match &self.current {
            FileRows::Csv(_) => self.warnings.clone(),
            FileRows::Json(rows) => rows.warnings(),
            FileRows::Networks(networks) => networks.warnings(),
            FileRows::Sqlite(_) => Vec::new(),
            FileRows::Columnar(rows) => {
                let mut warnings = [&*self.warnings, &*rows.warnings()].concat();
                warnings.dedup();
                warnings
            }
        }
    }
}

impl FileRows<'_> {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Csv(rows) => rows.names(),
            Self::Json(rows) => rows.names(),
            Self::Networks(networks) => networks.names(),
            Self::Columnar(rows) => rows.names(),
            Self::Sqlite(rows) => rows.names(),
        }
    }
}

impl<'a> CsvRows<'a> {
    fn open(table: &'a TableConfig, file: &Path, csv: &CsvConfig) -> Result<Self> {
        let records = Records::open(table, file, csv)?;
        Ok(Self {
            mapping: records.mapping()?,
            records,
        })
    }

    fn names(&self) -> Vec<String> {
        let named = |&index: &usize| {
            let given = self.records.header().and_then(|header| header.get(index));
            match given.map(String::as_str) {
                None | Some("") => format!("column_{}", index + 1),
                Some(name) => name.to_owned(),
            }
        };
        self.mapping.iter().map(named).collect()
    }

    fn warning(&self, delimiter: u8) -> Option<String> {
        let begins_with_quote = self.records.begins_with_quote();
        delimiter::warning(self.records.header()?, begins_with_quote, delimiter)
    }

    #[inline]
    fn field(&self, index: usize) -> &[u8] {
        self.records.field(self.mapping[index])
    }
}

impl Spot {
    pub(super) fn new(file: usize, line: u64) -> Self {
        Self { file, line }
    }

    /// The line in messages about a table; the file as well if there are several.
    pub(super) fn shown(self, files: &[PathBuf]) -> String {
        let line = self.line;
        match files {
            [_] => format!("line {line}"),
            files => format!("line {line} of {}", files[self.file].display()),
        }
    }
}

/// The files with the rows of a table, in the order in which they are read.
pub(super) fn files_of(table: &TableConfig) -> Result<Vec<PathBuf>> {
    let files = match &table.pattern {
        // A file may have the name that is also a pattern.
        Some(pattern) if !table.data_file.is_file() => {
            let found = pattern.files();
            found.map_err(|source| Error::file(&table.data_file, source))?
        }
        _ => vec![table.data_file.clone()],
    };
    if files.len() > FILE_COUNT_MAX {
        return Err(Error::too_many_files(table, FILE_COUNT_MAX));
    }
    let is_other = |file: &&PathBuf| TableFormat::of(file) != table.format;
    match files.iter().find(is_other) {
        Some(file) if table.pattern.is_some() => Err(Error::other_format(table, file)),
        _ => Ok(files),
    }
}

fn size_of(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |meta| meta.len())
}
