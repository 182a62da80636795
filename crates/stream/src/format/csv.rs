//! `csv` input: fields separated by a delimiter, quoted as in RFC 4180.

use std::sync::Arc;

use lookaside_value::{Batch, LikelyDelimiter, Name, Names, Record, Text};
use memchr::{memchr, memchr_iter};

use super::frame::{Quoted, quoted_end};
use super::lines::{BYTE_ORDER_MARK, Reason, text, without_mark};
use super::typed::BoundTypes;
use super::{Chunk, Decoder, Header};
use crate::{Error, Rejects, Result};

/// The options of a CSV input.
#[derive(Clone, Debug)]
pub(crate) struct Csv {
    pub(crate) delimiter: u8,
    /// Whether the first record of each source names the columns (or is skipped, if `columns` do).
    pub(crate) has_header: bool,
    /// The names of the columns, if they are not taken from the header.
    pub(crate) columns: Option<Header>,
}

impl Csv {
    /// Reads the header from the first record of a source.
    pub(crate) fn header(&self, record: &[u8]) -> Result<Header> {
        let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
        let unreadable = |reason: Reason| Error::bad_header(&format!("cannot be read: {reason}"));
        let record = text(record).map_err(unreadable)?;
        let mut columns: Vec<Text> = Vec::new();
        let mut fields = Fields::new(without_line_end(record), self.delimiter);
        while let Some(field) = fields.next() {
            let column = field.map_err(unreadable)?;
            if self.columns.is_none() {
                let place = columns.len() + 1;
                if column.is_empty() {
                    return Err(Error::bad_header(&format!(
                        "has no name for column {place}"
                    )));
                }
                if columns.contains(&column) {
                    return Err(Error::bad_header(&format!("names `{column}` twice")));
                }
            }
            columns.push(column);
        }
        match &self.columns {
            None => Ok(Header(columns.into())),
            Some(header) if header.0.len() == columns.len() => Ok(header.clone()),
            Some(header) => Err(Error::bad_header(&format!(
                "has {} fields, but `columns` names {}",
                columns.len(),
                header.0.len()
            ))),
        }
    }
}

impl Csv {
    /// The likely delimiter, if the header is a single column: its display form and its option
    /// value.
    pub(crate) fn likely_delimiter(
        &self,
        record: &[u8],
        header: &Header,
    ) -> Option<(&'static str, &'static str)> {
        let [column] = header.columns() else {
            return None;
        };
        let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
        let begins_with_quote = record.starts_with(b"\"");
        let likely = LikelyDelimiter::of_header(column, begins_with_quote, self.delimiter)?;
        let word = match likely {
            LikelyDelimiter::Comma => "comma",
            LikelyDelimiter::Semicolon => "semicolon",
            LikelyDelimiter::Tab => "tab",
            LikelyDelimiter::Pipe => "pipe",
        };
        Some((likely.shown(), word))
    }
}

/// Decodes records, which must all have as many fields as the header.
pub(crate) struct CsvDecoder {
    pub(crate) csv: Arc<Csv>,
    pub(crate) line_size_max: usize,
    /// The columns' names, resolved for each batch.
    pub(crate) columns: Vec<Name>,
    pub(crate) types: Option<BoundTypes>,
}

impl Decoder for CsvDecoder {
    fn begin(&mut self, batch: &mut Batch) {
        let csv = Arc::clone(&self.csv);
        let header = csv.columns.as_ref();
        let header = header.expect("a run of messages has checked that columns are named");
        self.resolve(header, batch.names_mut());
    }

    fn decode_record(&mut self, bytes: &[u8], line: u64, batch: &mut Batch, rejects: &mut Rejects) {
        match text(bytes) {
            Ok(text) => self.record(text, line, batch, rejects),
            Err(reason) => rejects.push(line, reason, bytes),
        }
    }

    fn decode(&mut self, chunk: &Chunk<'_>, batch: &mut Batch, rejects: &mut Rejects) {
        let csv = Arc::clone(&self.csv);
        let header = chunk.header.or(csv.columns.as_ref());
        let header = header.expect("the chunks of a source with a header carry it");
        self.resolve(header, batch.names_mut());

        let framing = Quoted {
            delimiter: self.csv.delimiter,
        };
        let mut line = chunk.first_line;
        let bytes = without_mark(chunk);
        let all_text = simdutf8::basic::from_utf8(bytes).ok();
        let mut at = 0;
        while at < bytes.len() {
            let end = framing
                .record_size(&bytes[at..])
                .map_or(bytes.len(), |size| at + size);
            match all_text {
                Some(text) => self.record(&text[at..end], line, batch, rejects),
                None => match text(&bytes[at..end]) {
                    Ok(text) => self.record(text, line, batch, rejects),
                    Err(reason) => {
                        let bytes = &bytes[at..end];
                        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                        rejects.push(line, reason, bytes.strip_suffix(b"\r").unwrap_or(bytes));
                    }
                },
            }
            line += memchr_iter(b'\n', &bytes[at..end]).count() as u64;
            at = end;
        }
    }
}

impl CsvDecoder {
    /// Prepares for a batch.
    fn resolve(&mut self, header: &Header, names: &mut Names) {
        if let Some(types) = &mut self.types {
            types.begin();
        }
        self.columns.clear();
        self.columns
            .extend(header.0.iter().map(|column| names.intern(column)));
    }

    #[inline]
    fn record(&mut self, text: &str, line: u64, batch: &mut Batch, rejects: &mut Rejects) {
        let text = without_line_end(text);
        if text.is_empty() {
            return;
        }
        if text.len() > self.line_size_max {
            rejects.push_too_long(line, self.line_size_max, text.as_bytes());
            return;
        }
        let mut record = batch.new_record();
        record.line = line;
        let mut parsed = self.fields(text, &mut record);
        if let (Ok(()), Some(types)) = (&parsed, &mut self.types) {
            parsed = types.apply(&mut record);
        }
        match parsed {
            Ok(()) => batch.push(record),
            Err(reason) => {
                batch.recycle(record);
                rejects.push(line, reason, text.as_bytes());
            }
        }
    }

    #[inline]
    fn fields(&self, text: &str, record: &mut Record) -> Result<(), Reason> {
        let mut fields = Fields::new(text, self.csv.delimiter);
        for (index, &name) in self.columns.iter().enumerate() {
            match fields.next() {
                Some(field) => record.push(name, field?),
                None => return Err(wrong_count(index, self.columns.len())),
            }
        }
        let mut count = self.columns.len();
        while let Some(field) = fields.next() {
            field?;
            count += 1;
        }
        match count == self.columns.len() {
            true => Ok(()),
            false => Err(wrong_count(count, self.columns.len())),
        }
    }
}

fn wrong_count(count: usize, wanted: usize) -> Reason {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} field{plural}, but {wanted} columns").into()
}

fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// The fields of one record.
struct Fields<'a> {
    /// The rest after the last delimiter; `None` after the last field.
    rest: Option<&'a str>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    fn new(record: &'a str, delimiter: u8) -> Self {
        Self {
            rest: Some(record),
            delimiter,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Result<Text, Reason>> {
        let rest = self.rest?;
        if rest.starts_with('"') {
            return Some(self.quoted(rest));
        }
        Some(Ok(Text::from(self.plain(rest))))
    }

    #[inline]
    fn plain(&mut self, rest: &'a str) -> &'a str {
        match memchr(self.delimiter, rest.as_bytes()) {
            None => {
                self.rest = None;
                rest
            }
            Some(end) => {
                self.rest = Some(&rest[end + 1..]);
                &rest[..end]
            }
        }
    }

    fn quoted(&mut self, rest: &'a str) -> Result<Text, Reason> {
        let Some(end) = quoted_end(rest.as_bytes(), 1) else {
            self.rest = None;
            return Err("a quoted field has no closing quote".into());
        };
        let text = &rest[1..end];
        // Text between the closing quote and the delimiter belongs to the field.
        let tail = self.plain(&rest[end + 1..]);
        Ok(match (memchr(b'"', text.as_bytes()), tail) {
            (None, "") => Text::from(text),
            (None, tail) => Text::from(format!("{text}{tail}")),
            (Some(_), tail) => Text::from(text.replace("\"\"", "\"") + tail),
        })
    }
}

/// Decodes `data` as CSV with two columns; must not panic for any input.
#[doc(hidden)]
pub fn fuzz_csv(data: &[u8]) {
    super::fuzz("csv", &[("columns", "a,b")], data);
}
