//! The body of the fuzz target over CSV text and its mapping.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::rc::Rc;

use encoding_rs::Encoding;

use super::records::{NextRecord, Records};
use super::source::{self, FilePosition};
use crate::config::{Columns, CsvConfig, ExpectedRows, TableConfig, TableFormat};

/// Encodings with different decoders.
const ENCODINGS: [&Encoding; 6] = [
    encoding_rs::UTF_8,
    encoding_rs::UTF_8,
    encoding_rs::UTF_16LE,
    encoding_rs::GB18030,
    encoding_rs::ISO_2022_JP,
    encoding_rs::WINDOWS_1252,
];

/// The number of records that are checked a second time, which takes quadratic time.
const CHECKED_COUNT_MAX: usize = 32;

/// Reads `data` as a data file: two bytes of settings, then its bytes.
///
/// # Panics
/// When a record violates an invariant of the loader: equal widths, UTF-8, a mapping within the
/// record, and a line number at which the same record is found again.
#[doc(hidden)]
pub fn csv_mapping_fuzz(data: &[u8]) {
    let [settings, chunk, text @ ..] = data else {
        return;
    };
    let csv = CsvConfig {
        has_header: settings & 1 == 0,
        trim: settings & 2 == 0,
        delimiter: [b',', b'\t', b';', b'|'][usize::from(settings >> 2 & 3)],
        encoding: ENCODINGS[usize::from(settings >> 4) % ENCODINGS.len()],
    };
    let columns = match chunk >> 6 {
        0 => Columns::All,
        1 => Columns::ByIndex(vec![1, 0]),
        _ if csv.has_header => Columns::ByHeader(vec!["b".to_owned(), "a".to_owned()]),
        _ => Columns::ByIndex(vec![2]),
    };
    let table = TableConfig {
        name: "t".to_owned(),
        folder: PathBuf::new(),
        data_file: PathBuf::from("data.csv"),
        url: None,
        pattern: None,
        format: TableFormat::Csv,
        csv: None,
        columns,
        expected_rows: ExpectedRows::default(),
        enabled: true,
        refresh: None,
        line: 1,
    };
    let chunk_size = 8 + usize::from(chunk & 63);
    let Ok(mut records) = read(&table, &csv, text, chunk_size) else {
        return;
    };
    let mapping = records.mapping();
    let mut found: Vec<(u64, Vec<Vec<u8>>)> = Vec::new();
    let mut line_before = 1;
    loop {
        let (line, is_record) = match records.next() {
            Ok(NextRecord::Record) => (records.line(), true),
            Ok(NextRecord::Bad { line, .. }) => (line, false),
            Ok(NextRecord::End) | Err(_) => break,
        };
        assert!(line >= line_before, "records come in order");
        line_before = line;
        if !is_record {
            continue;
        }
        for &index in mapping.iter().flatten() {
            assert!(
                std::str::from_utf8(records.field(index)).is_ok(),
                "fields are text"
            );
        }
        if found.len() < CHECKED_COUNT_MAX {
            found.push((line, all_fields(&records)));
        }
    }
    // Excluded are a lone carriage return, which begins a record within a line, a byte order mark,
    // which is one only at the beginning, and other encodings, whose bytes cannot be split into
    // lines.
    let has_mark = text.windows(3).any(|bytes| bytes == "\u{feff}".as_bytes());
    if csv.encoding == encoding_rs::UTF_8 && !has_mark && !has_lone_return(text) {
        let csv = CsvConfig {
            has_header: false,
            ..csv
        };
        for (line, fields) in found {
            let again = read(&table, &csv, text_from(text, line), text.len() + 8);
            let mut again = again.expect("a record was found here before");
            assert!(
                matches!(again.next(), Ok(NextRecord::Record)),
                "line {line}"
            );
            assert_eq!(again.line(), 1);
            assert_eq!(all_fields(&again), fields, "line {line}");
        }
    }
}

fn read<'a>(
    table: &'a TableConfig,
    csv: &CsvConfig,
    text: &[u8],
    chunk_size: usize,
) -> crate::Result<Records<'a>> {
    let bytes = Chunks {
        bytes: text.iter().copied().collect(),
        chunk_size,
    };
    let text = source::decoded(Box::new(bytes), csv.encoding);
    let file = &table.data_file;
    Records::read(table, file, csv, text, Rc::new(FilePosition::default()))
}

fn all_fields(records: &Records<'_>) -> Vec<Vec<u8>> {
    (0..records.width())
        .map(|index| records.field(index).to_vec())
        .collect()
}

fn text_from(text: &[u8], line: u64) -> &[u8] {
    let mut rest = text;
    for _ in 1..line {
        let end = rest.iter().position(|&byte| byte == b'\n');
        rest = &rest[end.expect("a line for each number") + 1..];
    }
    rest
}

fn has_lone_return(text: &[u8]) -> bool {
    let is_lone =
        |(index, byte): (usize, &u8)| *byte == b'\r' && text.get(index + 1) != Some(&b'\n');
    text.iter().enumerate().any(is_lone)
}

/// A reader that returns its bytes in small pieces, so that the input is split at every position.
struct Chunks {
    bytes: VecDeque<u8>,
    chunk_size: usize,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.chunk_size.min(buffer.len());
        (&mut self.bytes).take(size as u64).read(buffer)
    }
}
