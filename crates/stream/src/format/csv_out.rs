//! `csv` output: the same columns in every record.

use std::sync::{Arc, OnceLock};

use lookaside_value::{Batch, Name, Names, Record, Text, Value};

use super::{Encoder, FormatOptions, InputFormat};
use crate::{Error, Result};

/// The options of a CSV output, shared by all its encoders.
#[derive(Debug)]
pub(crate) struct CsvOut {
    pub(crate) delimiter: u8,
    pub(crate) has_header: bool,
    /// Whether it is appended to an output that has content, and so a header if it needs one.
    pub(crate) is_continued: bool,
    pub(crate) extra: Extra,
    /// Set by the option, or by the first record.
    pub(crate) columns: OnceLock<Box<[Text]>>,
    /// The prefix of an option in messages.
    pub(crate) advice: &'static str,
}

/// How a record with a field without a column is handled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extra {
    /// The record is rejected, so that no data is lost silently.
    Reject,
    /// The field is left out.
    Ignore,
}

impl CsvOut {
    /// The header of a file, if it is enabled and the columns are known.
    pub(crate) fn header(&self) -> String {
        let mut out = String::new();
        if let (true, Some(columns)) = (self.has_header, self.columns.get()) {
            self.write_header(columns, &mut out);
        }
        out
    }

    /// The options for appending to an output that begins with `bytes`.
    pub(crate) fn continuing(&self, bytes: &[u8], output: &str) -> Result<Self> {
        let columns = self.columns.clone();
        if self.has_header
            && let Some(found) = self.header_of(bytes, output)?
        {
            let kept = columns.get_or_init(|| found.clone());
            if *kept != found {
                let found: Vec<_> = found.iter().map(Text::as_str).collect();
                return Err(Error::other_columns(output, &found.join(",")));
            }
        }
        Ok(Self {
            delimiter: self.delimiter,
            has_header: self.has_header,
            is_continued: true,
            extra: self.extra,
            columns,
            advice: self.advice,
        })
    }

    /// The columns in the first record of `bytes`.
    fn header_of(&self, bytes: &[u8], output: &str) -> Result<Option<Box<[Text]>>> {
        let delimiter = char::from(self.delimiter).to_string();
        let options = FormatOptions::new().set("delimiter", delimiter);
        let format = InputFormat::new("csv", &options)?;
        let Some(size) = format.framing().first(bytes, true) else {
            return Ok(None);
        };
        let header = format.header(&bytes[..size]);
        let header = header.map_err(|error| error.in_source(output))?;
        Ok(Some(header.columns().into()))
    }

    fn write_header(&self, columns: &[Text], out: &mut String) {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(self.delimiter as char);
            }
            write_text(column, self.delimiter, out);
        }
        out.push('\n');
    }
}

/// Writes each field in its column, null and missing fields empty, objects and arrays as JSON.
pub(crate) struct CsvEncoder {
    csv: Arc<CsvOut>,
    /// The columns' names in the current batch; `None` if the batch has no such field at all.
    names: Vec<Option<Name>>,
    /// A buffer for a value whose text must be checked before it is written.
    value: String,
}

impl CsvEncoder {
    pub(crate) fn new(csv: Arc<CsvOut>) -> Self {
        Self {
            csv,
            names: Vec::new(),
            value: String::new(),
        }
    }

    fn take_columns(&self, record: &Record, names: &Names, out: &mut String) {
        self.csv.columns.get_or_init(|| {
            let mut columns: Vec<Text> = Vec::new();
            for field in record.visible() {
                let column = names.text(field.name);
                if !columns.contains(column) {
                    columns.push(column.clone());
                }
            }
            if self.csv.has_header && !self.csv.is_continued {
                self.csv.write_header(&columns, out);
            }
            columns.into()
        });
    }

    fn resolve(&mut self, names: &Names) {
        let columns = self.csv.columns.get().map_or(&[][..], |columns| columns);
        self.names.clear();
        self.names
            .extend(columns.iter().map(|column| names.name(column)));
    }

    /// The first field that has no column.
    fn extra(&self, record: &Record) -> Option<Name> {
        let mut fields = record.visible().map(|field| field.name).enumerate();
        let extra = fields.find(|&(index, name)| {
            // In most records the fields are in the order of the columns.
            let usual = self.names.get(index) == Some(&Some(name));
            !usual && !self.names.contains(&Some(name))
        });
        extra.map(|(_, name)| name)
    }
}

impl Encoder for CsvEncoder {
    fn begin(&mut self, batch: &Batch, first: Option<&Record>, out: &mut String) {
        if let Some(first) = first.filter(|_| self.csv.columns.get().is_none()) {
            self.take_columns(first, batch.names(), out);
        }
        self.resolve(batch.names());
    }

    #[inline]
    fn encode_record(
        &mut self,
        record: &Record,
        names: &Names,
        out: &mut String,
    ) -> Result<(), String> {
        if self.csv.extra == Extra::Reject
            && let Some(name) = self.extra(record)
        {
            return Err(format!(
                "no CSV column for `{}`; name all columns ({prefix}columns=a,b,c) or omit such \
                 fields ({prefix}extra=ignore)",
                names.text(name),
                prefix = self.csv.advice
            ));
        }
        let delimiter = self.csv.delimiter;
        let start = out.len();
        for (index, name) in self.names.iter().enumerate() {
            if index > 0 {
                out.push(delimiter as char);
            }
            match name.and_then(|name| record.value(name)) {
                None => {}
                Some(value) if value.is_null() => {}
                Some(Value::Text(text)) => write_text(text, delimiter, out),
                Some(nested @ (Value::Object(_) | Value::Array(_))) => {
                    self.value.clear();
                    nested.write_json(&mut self.value);
                    write_text(&self.value, delimiter, out);
                }
                Some(value) => {
                    self.value.clear();
                    value.write_raw(&mut self.value);
                    write_text(&self.value, delimiter, out);
                }
            }
        }
        if out.len() == start {
            // An empty line would be skipped by readers.
            out.push_str("\"\"");
        }
        out.push('\n');
        Ok(())
    }
}

/// Quotes text that holds a delimiter, a quote or a line end.
fn write_text(text: &str, delimiter: u8, out: &mut String) {
    // Without an early exit the loop is vectorised.
    let breaks = text.bytes().fold(false, |breaks, byte| {
        breaks | (byte == delimiter) | (byte == b'"') | (byte == b'\n') | (byte == b'\r')
    });
    if !breaks {
        out.push_str(text);
        return;
    }
    out.push('"');
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }
    out.push('"');
}
