//! The rows of a table, whatever the format of its file.

use rusqlite::types::ValueRef;

use super::delimiter;
use super::json_lines::JsonRows;
use super::mmdb::Networks;
use super::records::{NextRecord, Records};
use crate::Result;
use crate::config::{Config, TableConfig, TableFormat};

/// A reader of rows: each is a list of values, which are bound to the parameters of an insert.
pub(super) enum Rows<'a> {
    Csv(Box<CsvRows<'a>>),
    Json(Box<JsonRows>),
    Networks(Box<Networks<'a>>),
}

/// The mapped fields of the records of a CSV file.
pub(super) struct CsvRows<'a> {
    records: Records<'a>,
    /// The positions of the fields, in the order of the parameters.
    mapping: Vec<usize>,
    warnings: Vec<String>,
}

impl<'a> Rows<'a> {
    /// Opens the file of a table.
    pub(super) fn open(config: &Config, table: &'a TableConfig) -> Result<Self> {
        let file = &table.data_file;
        Ok(match table.format {
            TableFormat::Csv => {
                let csv = config.csv_of(table);
                let records = Records::open(table, file, csv)?;
                Self::Csv(CsvRows::new(records, csv.delimiter)?.into())
            }
            TableFormat::JsonLines => Self::Json(JsonRows::open(table, file)?.into()),
            TableFormat::Mmdb => Self::Networks(Networks::open(table, file)?.into()),
        })
    }

    /// How many values a row has; 0 if that is unknown, as there are no rows.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Csv(rows) => rows.mapping.len(),
            Self::Json(rows) => rows.width(),
            Self::Networks(networks) => networks.width(),
        }
    }

    /// The names of the values of a row.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Csv(rows) => rows.names(),
            Self::Json(rows) => rows.names(),
            Self::Networks(networks) => networks.names(),
        }
    }

    /// Reads the next row.
    ///
    /// # Errors
    /// When reading cannot continue; a bad row is [`NextRecord::Bad`].
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        match self {
            Self::Csv(rows) => rows.next(),
            Self::Json(rows) => rows.next(),
            Self::Networks(networks) => Ok(match networks.next()? {
                true => NextRecord::Record,
                false => NextRecord::End,
            }),
        }
    }

    /// A value of the current row.
    #[inline]
    pub(super) fn value(&self, index: usize) -> ValueRef<'_> {
        match self {
            Self::Csv(rows) => ValueRef::Text(rows.field(index)),
            Self::Json(rows) => rows.value(index),
            Self::Networks(networks) => networks.value(index),
        }
    }

    /// The current row in messages.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Csv(rows) => rows.records.place(rows.records.line()),
            Self::Json(rows) => rows.place(rows.line()),
            Self::Networks(networks) => networks.place(),
        }
    }

    /// A line of the file in messages.
    pub(super) fn place_of_line(&self, line: u64) -> String {
        match self {
            Self::Csv(rows) => rows.records.place(line),
            Self::Json(rows) => rows.place(line),
            Self::Networks(networks) => networks.place(),
        }
    }

    /// How many bytes of a file of this size were read so far.
    pub(super) fn bytes_read(&self, size: u64) -> u64 {
        match self {
            Self::Csv(rows) => rows.records.bytes_read(),
            Self::Json(rows) => rows.bytes_read(),
            Self::Networks(networks) => (size as f64 * networks.progress()) as u64,
        }
    }

    /// Warnings about the file, after its last row.
    pub(super) fn warnings(&self) -> Vec<String> {
        match self {
            Self::Csv(rows) => rows.warnings.clone(),
            Self::Json(rows) => rows.warnings(),
            Self::Networks(networks) => networks.warnings(),
        }
    }
}

impl<'a> CsvRows<'a> {
    fn new(records: Records<'a>, delimiter: u8) -> Result<Self> {
        let begins_with_quote = records.begins_with_quote();
        let header = records.header();
        let warning =
            header.and_then(|header| delimiter::warning(header, begins_with_quote, delimiter));
        Ok(Self {
            mapping: records.mapping()?,
            warnings: warning.into_iter().collect(),
            records,
        })
    }

    /// The names of the fields: those of the header, `column_1` and so on without one.
    pub(super) fn names(&self) -> Vec<String> {
        let named = |&index: &usize| {
            let given = self.records.header().and_then(|header| header.get(index));
            match given.map(String::as_str) {
                None | Some("") => format!("column_{}", index + 1),
                Some(name) => name.to_owned(),
            }
        };
        self.mapping.iter().map(named).collect()
    }

    /// Reads the next record.
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        self.records.next()
    }

    /// A mapped field of the current record.
    #[inline]
    pub(super) fn field(&self, index: usize) -> &[u8] {
        self.records.field(self.mapping[index])
    }

    /// The line on which the current record begins, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.records.line()
    }
}
