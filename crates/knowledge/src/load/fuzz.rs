//! The bodies of the fuzz targets over data files: CSV text and its mapping, JSON lines, and MaxMind
//! databases.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use encoding_rs::Encoding;
use rusqlite::types::ValueRef;
use serde::de::IgnoredAny;

use super::json_lines::JsonRows;
use super::mmdb::Networks;
use super::records::{NextRecord, Records};
use super::source::{self, FilePosition};
use crate::config::{ColumnPath, Columns, CsvConfig, ExpectedRows, TableConfig, TableFormat};

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
    let table = table(TableFormat::Csv, columns);
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

/// Reads `data` as a file of JSON lines: a byte of settings, then its bytes.
///
/// # Panics
/// When lines do not come in order, or a line is a row and is not JSON.
#[doc(hidden)]
pub fn json_lines_fuzz(data: &[u8]) {
    let [chunk, text @ ..] = data else {
        return;
    };
    let columns = ["a", "a.b", "a.0", "b"].map(ColumnPath::dotted);
    let table = table(TableFormat::JsonLines, Columns::ByPath(columns.to_vec()));
    let bytes = Chunks {
        bytes: text.iter().copied().collect(),
        chunk_size: 1 + usize::from(*chunk),
    };
    let Ok(mut rows) = JsonRows::read_bytes(&table, columns.to_vec(), Box::new(bytes)) else {
        return;
    };
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let mut line_before = 0;
    loop {
        let (line, is_row) = match rows.next() {
            Ok(NextRecord::Record) => (rows.line(), true),
            Ok(NextRecord::Bad { line, .. }) => (line, false),
            Ok(NextRecord::End) | Err(_) => return,
        };
        assert!(line > line_before, "lines come in order");
        line_before = line;
        let text = lines[line as usize - 1];
        let text = match line {
            1 => text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
            _ => text,
        };
        let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        assert!(is_json || !is_row, "line {line} is a row and not JSON");
        for index in 0..columns.len() {
            let _ = rows.value(index);
        }
    }
}

/// The most networks that are read of a database, which may have more of them than bytes.
const NETWORK_COUNT_MAX: usize = 1 << 12;

/// Reads `data` as a MaxMind database.
///
/// # Panics
/// When networks are not disjoint.
#[doc(hidden)]
pub fn mmdb_fuzz(data: &[u8]) {
    let columns = ["country", "city.en", "n", "@network"].map(ColumnPath::dotted);
    let table = table(TableFormat::Mmdb, Columns::ByPath(columns.to_vec()));
    let Ok(mut networks) = Networks::read(&table, &table.data_file, data.to_vec()) else {
        return;
    };
    let mut ranges = Vec::new();
    while ranges.len() < NETWORK_COUNT_MAX && matches!(networks.next(), Ok(true)) {
        let bound = |index| match networks.value(index) {
            ValueRef::Blob(bytes) => bytes.to_vec(),
            other => panic!("a bound is {other:?}"),
        };
        for index in 2..networks.names().len() {
            let _ = networks.value(index);
        }
        ranges.push((bound(0), bound(1)));
    }
    ranges.sort();
    assert!(
        ranges.iter().all(|(first, last)| first <= last),
        "a network has addresses"
    );
    let mut pairs = ranges.windows(2);
    assert!(
        pairs.all(|pair| pair[0].1 < pair[1].0),
        "networks are disjoint"
    );
}

/// A table whose rows are in this format.
fn table(format: TableFormat, columns: Columns) -> TableConfig {
    TableConfig {
        name: "t".to_owned(),
        folder: PathBuf::new(),
        data_file: PathBuf::from("data"),
        url: None,
        pattern: None,
        format,
        sqlite_table: String::new(),
        csv: None,
        columns,
        expected_rows: ExpectedRows::default(),
        enabled: true,
        refresh: None,
        line: 1,
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
    Records::read(table, file, csv, text, Arc::new(FilePosition::default()))
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
