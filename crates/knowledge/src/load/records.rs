//! The records of a data file: header, mapping, and each record with its line.
//!
//! Parsing is `csv-core`'s. It is driven here rather than through a reader, because errors need the
//! line on which a record really begins, and the quote that was never closed.

use std::io::{self, Cursor, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv_core::ReadRecordResult;

use super::quotes::{Quotes, SWALLOWED_LINE_COUNT_MAX, SWALLOWED_SIZE_MAX, Swallowed};
use super::source::{self, FilePosition, Source};
use super::unsupported;
use crate::Result;
use crate::config::{Columns, CsvConfig, TableConfig};
use crate::error::Error;

/// The size of the input buffer in bytes.
const INPUT_SIZE: usize = 128 << 10;

/// The size limit of one record in bytes, without its quotes. A longer record nearly always has an
/// unclosed quote, and would otherwise read the rest of the file into memory.
const RECORD_SIZE_MAX: usize = 256 << 20;

/// The most fields of one record; twice what a SQLite statement can bind.
const FIELD_COUNT_MAX: usize = 1 << 16;

/// A reader of a data file.
pub(super) struct Records<'a> {
    table: &'a TableConfig,
    file: PathBuf,
    trim: bool,
    source: Source,
    position: Arc<FilePosition>,
    parser: csv_core::Reader,
    quotes: Quotes,
    input: Box<[u8]>,
    /// The part of `input` that is not parsed yet.
    rest: Range<usize>,
    state: State,
    /// The line on which the unparsed rest begins, counted from 1.
    rest_line: u64,
    /// The names of the columns, trimmed, if the file has them.
    header: Option<Vec<String>>,
    /// The first record begins with a quote.
    begins_with_quote: bool,
    /// How many fields each record has, once one was read.
    width: Option<usize>,
    /// The first record was read already, to learn its width.
    peeked: bool,
    /// The current record: the line on which it begins, its fields without separators, and the end
    /// of each. Both buffers are longer than the part in use.
    line: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The text has ended; a line break is added in case the last line has none.
    Ending,
    /// The parser was told that the text has ended.
    Ended,
}

/// The next item of a data file.
pub(super) enum NextRecord {
    /// A record, see [`Records::field`].
    Record,
    /// An invalid record.
    Bad {
        /// Where it begins, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
        /// It includes so many lines or bytes that skipping it would lose other records.
        is_fatal: bool,
    },
    /// The file has ended.
    End,
}

impl<'a> Records<'a> {
    /// Opens a data file of a table and reads its header.
    pub(super) fn open(table: &'a TableConfig, file: &Path, csv: &CsvConfig) -> Result<Self> {
        if let Some((what, instead)) = unsupported::problem(file) {
            return Err(Error::not_readable(table, file, what, instead));
        }
        let position = Arc::new(FilePosition::default());
        let bytes = source::open(table.readable(file), &position)
            .map_err(|source| Error::data_file(table, file, source))?;
        let (head, bytes) = source::with_head(bytes, unsupported::HEAD_SIZE)
            .map_err(|source| Error::unreadable(file, 1, source))?;
        if let Some((what, instead)) = unsupported::problem_of_head(&head, csv.encoding) {
            return Err(Error::not_readable(table, file, what, instead));
        }
        let text = source::decoded(bytes, csv.encoding);
        Self::read(table, file, csv, text, position)
    }

    /// The records of a block of a file, which begins on a line. The first block of a file is read by
    /// [`Self::read`].
    pub(super) fn of_block(
        table: &'a TableConfig,
        file: &Path,
        csv: &CsvConfig,
        (text, line): (Vec<u8>, u64),
        width: Option<usize>,
    ) -> Self {
        Self {
            rest_line: line,
            width,
            ..Self::new(
                table,
                file,
                csv,
                Box::new(Cursor::new(text)),
                Arc::default(),
            )
        }
    }

    /// Reads the header of text from any reader.
    pub(super) fn read(
        table: &'a TableConfig,
        file: &Path,
        csv: &CsvConfig,
        source: Source,
        position: Arc<FilePosition>,
    ) -> Result<Self> {
        let mut records = Self::new(table, file, csv, source, position);
        records.fill()?;
        let text = &records.input[records.rest.clone()];
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut text = text.iter().skip_while(|byte| matches!(byte, b'\r' | b'\n'));
        records.begins_with_quote = text.next() == Some(&b'"');
        match records.next()? {
            NextRecord::Record if csv.has_header => {
                records.header = Some(records.names().collect());
            }
            NextRecord::Record => records.peeked = true,
            NextRecord::Bad { line, reason, .. } => {
                return Err(Error::row(&records.place(line), &reason));
            }
            NextRecord::End => {}
        }
        Ok(records)
    }

    fn new(
        table: &'a TableConfig,
        file: &Path,
        csv: &CsvConfig,
        source: Source,
        position: Arc<FilePosition>,
    ) -> Self {
        let parser = csv_core::ReaderBuilder::new()
            .delimiter(csv.delimiter)
            .build();
        Self {
            table,
            file: file.to_owned(),
            trim: csv.trim,
            source,
            position,
            parser,
            quotes: Quotes::new(csv.delimiter),
            input: vec![0; INPUT_SIZE].into(),
            rest: 0..0,
            state: State::Reading,
            rest_line: 1,
            header: None,
            begins_with_quote: false,
            width: None,
            peeked: false,
            line: 1,
            text: vec![0; 1 << 10],
            ends: vec![0; 1 << 5],
        }
    }

    /// The names of the columns, if the file has them.
    pub(super) fn header(&self) -> Option<&[String]> {
        self.header.as_deref()
    }

    /// Whether the first record begins with a quote.
    pub(super) fn begins_with_quote(&self) -> bool {
        self.begins_with_quote
    }

    /// How many fields each record has; 0 if there is none.
    pub(super) fn width(&self) -> usize {
        self.width.unwrap_or(0)
    }

    /// The positions in a record of the fields that are bound, in order.
    pub(super) fn mapping(&self) -> Result<Vec<usize>> {
        match (&self.table.columns, self.width) {
            (Columns::All, width) => Ok((0..width.unwrap_or(0)).collect()),
            // Without a record, the positions cannot be checked and nothing is loaded.
            (Columns::ByIndex(indexes), None) => Ok(indexes.clone()),
            (Columns::ByIndex(indexes), Some(width)) => {
                match indexes.iter().find(|&&index| index >= width) {
                    Some(index) => Err(Error::beyond_record(self.table, &self.file, *index, width)),
                    None => Ok(indexes.clone()),
                }
            }
            (Columns::ByPath(_), _) => unreachable!("the configuration refuses paths for CSV"),
            (Columns::ByHeader(names), _) => names.iter().map(|name| self.named(name)).collect(),
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
            (Some(_), Some(_)) => Err(Error::ambiguous_header(&self.file, name)),
            (None, _) => Err(Error::unknown_header(self.table, &self.file, name, header)),
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// When reading cannot continue; a bad record is [`NextRecord::Bad`].
    pub(super) fn next(&mut self) -> Result<NextRecord> {
        if std::mem::take(&mut self.peeked) {
            return Ok(NextRecord::Record);
        }
        match self.parse()? {
            Parsed::Record { text_size, width } => Ok(self.judge(text_size, width)),
            Parsed::OpenQuote => Ok(self.bad("a quote is not closed".to_owned())),
            Parsed::End => Ok(NextRecord::End),
        }
    }

    fn parse(&mut self) -> Result<Parsed> {
        let (mut text_size, mut width) = (0, 0);
        let mut begun = false;
        loop {
            if self.rest.is_empty() && self.state == State::Reading {
                self.fill()?;
            }
            let input = &self.input[self.rest.clone()];
            let text = &mut self.text[text_size..];
            let ends = &mut self.ends[width..];
            let (result, read, written, ended) = self.parser.read_record(input, text, ends);
            self.rest.start += read;
            let mut parsed = &input[..read];
            if !begun {
                // Empty lines, and the line feed of the previous line, are not part of the record.
                let blank = parsed
                    .iter()
                    .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                    .count();
                self.rest_line += line_feed_count(&parsed[..blank]);
                parsed = &parsed[blank..];
                self.line = self.rest_line;
                begun = !parsed.is_empty();
                self.quotes.begin(self.line);
            }
            // The added line break at the end is not part of the file.
            if self.state == State::Reading {
                self.quotes.see(parsed);
            }
            self.rest_line += line_feed_count(parsed);
            text_size += written;
            width += ended;
            match result {
                ReadRecordResult::Record => return Ok(Parsed::Record { text_size, width }),
                ReadRecordResult::End => return Ok(Parsed::End),
                ReadRecordResult::InputEmpty if self.state == State::Ending => {
                    // The added line break did not end a record: it is part of a field, or there
                    // was no record.
                    self.state = State::Ended;
                    if written > 0 {
                        self.parser.reset();
                        return Ok(Parsed::OpenQuote);
                    }
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.text.len() < RECORD_SIZE_MAX => {
                    self.text.resize(self.text.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < FIELD_COUNT_MAX => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputFull => {
                    return Err(Error::record_limit(
                        &self.file,
                        self.line,
                        RECORD_SIZE_MAX,
                        "bytes",
                    ));
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(Error::record_limit(
                        &self.file,
                        self.line,
                        FIELD_COUNT_MAX,
                        "fields",
                    ));
                }
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        let size = loop {
            match self.source.read(&mut self.input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::unreadable(&self.file, self.rest_line, error)),
                Ok(size) => break size,
            }
        };
        self.rest = 0..size;
        if size == 0 {
            self.state = State::Ending;
            self.input[0] = b'\n';
            self.rest = 0..1;
        }
        Ok(())
    }

    /// Checks a parsed record.
    fn judge(&mut self, text_size: usize, width: usize) -> NextRecord {
        let expected = self.width.unwrap_or(width);
        if width != expected {
            let fields = if width == 1 { "field" } else { "fields" };
            return self.bad(format!(
                "{width} {fields} where the first record has {expected}"
            ));
        }
        let text = &self.text[..text_size];
        // Two halves of a character in adjacent fields are only valid UTF-8 when joined.
        let valid = std::str::from_utf8(text).is_ok_and(|text| {
            self.ends[..width]
                .iter()
                .all(|&end| text.is_char_boundary(end))
        });
        if !valid {
            let is_wrong = |index: &usize| std::str::from_utf8(&text[self.range(*index)]).is_err();
            let index = (0..width).find(is_wrong).unwrap_or(0);
            return self.bad(format!("field {} is not UTF-8", index + 1));
        }
        if self.quotes.has_tail() {
            return self.bad("text follows the closing quote of a field".to_owned());
        }
        self.width = Some(width);
        NextRecord::Record
    }

    fn bad(&self, mut reason: String) -> NextRecord {
        let swallowed = self.quotes.swallowed();
        let is_fatal = swallowed.is_some_and(Swallowed::is_too_much);
        if let Some(Swallowed {
            line,
            line_count,
            size,
        }) = swallowed
        {
            let lines = if line_count == 1 { "line" } else { "lines" };
            reason.push_str(&format!(
                "; the quote that opens on line {line} spans {line_count} {lines}, {size} bytes"
            ));
        }
        if is_fatal {
            reason.push_str(&format!(
                "; correct or remove it: on_error = \"skip\" skips records of at most \
                 {SWALLOWED_LINE_COUNT_MAX} lines and {} MiB",
                SWALLOWED_SIZE_MAX >> 20
            ));
        }
        NextRecord::Bad {
            line: self.line,
            reason,
            is_fatal,
        }
    }

    fn range(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// The field at a position of the current record as UTF-8, trimmed if so configured.
    #[inline]
    pub(super) fn field(&self, index: usize) -> &[u8] {
        let field = &self.text[self.range(index)];
        if self.trim { field.trim_ascii() } else { field }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let name = |index| String::from_utf8_lossy(self.field(index)).into_owned();
        (0..self.width()).map(name)
    }

    /// The line on which the current record begins, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// A line of the file in messages.
    pub(super) fn place(&self, line: u64) -> String {
        format!("{}:{line}", self.file.display())
    }

    /// Bytes read from the file so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.position.bytes_read()
    }
}

enum Parsed {
    Record { text_size: usize, width: usize },
    OpenQuote,
    End,
}

fn line_feed_count(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
