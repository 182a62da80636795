//! Formats: splitting bytes into records, decoding records, and encoding them as text.

mod access;
mod csv;
mod csv_out;
mod frame;
mod input;
mod json;
mod json_out;
mod kv;
mod lines;
mod options;
mod output;
mod prefix;
mod raw;
mod regex;
mod seen;
mod syslog;
mod syslog_data;
mod times;
mod typed;

pub use access::fuzz_access;
pub use csv::fuzz_csv;
pub use input::InputFormat;
pub use options::FormatOptions;
pub use output::OutputFormat;
pub use syslog::fuzz_syslog;
pub use typed::{FieldKind, FieldType};

use lookaside_value::{Batch, NameTable, Names, Record, Text};

use crate::Rejects;

/// Splits a byte stream into complete records.
///
/// It has no state: `bytes` always begins with a record, so the result does not depend on how the
/// bytes were received.
pub trait Framing: Send + Sync {
    /// The length of the first record with its line end; `None` if it is incomplete.
    fn first(&self, bytes: &[u8], eof: bool) -> Option<usize>;

    /// The number of leading bytes that are complete records; at the end of the input, all of them.
    fn whole(&self, bytes: &[u8], eof: bool) -> usize;
}

/// Turns chunks into records; each worker has its own.
pub trait Decoder: Send {
    /// Appends the records of a chunk to a batch, and invalid lines to `rejects`.
    fn decode(&mut self, chunk: &Chunk<'_>, batch: &mut Batch, rejects: &mut Rejects);

    /// Prepares for a batch whose records are decoded one by one, by [`Self::decode_record`].
    fn begin(&mut self, batch: &mut Batch);

    /// Appends the record that is `bytes` as a whole, including any line ends, or rejects it. The
    /// record gets the number `line`. Empty records are skipped.
    fn decode_record(&mut self, bytes: &[u8], line: u64, batch: &mut Batch, rejects: &mut Rejects);
}

/// Turns batches into text; each worker has its own.
pub trait Encoder: Send {
    /// Prepares for records of a batch, of which `first` is the first one that will be encoded; may
    /// append a text before it.
    ///
    /// While [`OutputFormat::is_ready`] is false, only the next batch in the order of the input may
    /// be encoded: its first record determines the columns of all others.
    fn begin(&mut self, batch: &Batch, first: Option<&Record>, out: &mut String);

    /// Appends a record of that batch with its line end.
    ///
    /// # Errors
    /// Why the record cannot be written, as one lower-case phrase; nothing was appended.
    fn encode_record(
        &mut self,
        record: &Record,
        names: &Names,
        out: &mut String,
    ) -> Result<(), String>;

    /// Appends each record of a batch with its line end, and records that cannot be written to
    /// `rejects`.
    fn encode(&mut self, batch: &Batch, out: &mut String, rejects: &mut Rejects) {
        self.begin(batch, batch.records().first(), out);
        for record in batch.records() {
            if let Err(reason) = self.encode_record(record, batch.names(), out) {
                reject_record(record, batch.names(), reason, rejects);
            }
        }
    }
}

/// Appends a record as a line of JSON.
pub(crate) use json_out::write_record as write_json_record;

/// Rejects a record that cannot be written, as JSON.
pub(crate) fn reject_record(record: &Record, names: &Names, reason: String, rejects: &mut Rejects) {
    let mut json = String::new();
    json_out::write_record(record, names, &mut json);
    rejects.push(record.line, reason, json.as_bytes());
}

/// Complete records, and their position in their source.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The records with their line ends; the last may lack its own.
    pub bytes: &'a [u8],
    /// The line of the first byte, counted from 1.
    pub first_line: u64,
    /// The source's header, if the format has one, see [`InputFormat::has_header`].
    pub header: Option<&'a Header>,
}

impl<'a> Chunk<'a> {
    /// A chunk of a source without a header.
    pub fn new(bytes: &'a [u8], first_line: u64) -> Self {
        Self {
            bytes,
            first_line,
            header: None,
        }
    }
}

/// The names of a source's columns, read from its first record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header(pub(crate) Box<[Text]>);

impl Header {
    /// The names in their order.
    pub fn columns(&self) -> &[Text] {
        &self.0
    }
}

/// Frames and decodes `data`, encodes the result in every output format, and checks the invariants
/// for any input.
fn fuzz(format: &str, options: &[(&str, &str)], data: &[u8]) {
    let options = options
        .iter()
        .fold(FormatOptions::new(), |options, &(name, value)| {
            options.set(name, value)
        });
    let input = InputFormat::new(format, &options).expect("the caller's options are right");
    let mut names = NameTable::new();
    input.intern(&mut names);
    let outputs = OutputFormat::NAMES.map(|name| {
        let output = OutputFormat::new(name, &FormatOptions::new()).expect("a known name");
        output.intern(&mut names);
        output
    });

    let framing = input.framing();
    let whole = framing.whole(data, false);
    assert!(
        whole == 0 || data[whole - 1] == b'\n',
        "a cut that is not a line end"
    );
    assert_eq!(
        framing.whole(&data[..whole], false),
        whole,
        "whole records stay whole"
    );
    assert_eq!(framing.whole(data, true), data.len());

    let table = std::sync::Arc::new(names);
    let mut batch = Batch::new(table.clone());
    let mut rejects = Rejects::with_raw();
    let mut decoder = input.decoder(&table);
    decoder.decode(&Chunk::new(data, 1), &mut batch, &mut rejects);
    let line_count = memchr::memchr_iter(b'\n', data).count() as u64 + 1;
    assert!(
        batch.len() as u64 + rejects.count() <= line_count,
        "more records than lines"
    );
    for record in batch.records() {
        assert!(
            (1..=line_count).contains(&record.line),
            "a line that is not there"
        );
    }
    for output in outputs {
        let mut text = String::new();
        output
            .encoder(&table)
            .encode(&batch, &mut text, &mut rejects);
    }
}
