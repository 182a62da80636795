//! Decoding to lines of text for tables, and seeded mutations of bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use lookaside_stream::{Chunk, FormatOptions, InputFormat, OutputFormat, Rejects};
use lookaside_value::{Batch, NameTable, Value};

pub(crate) fn options(pairs: &[(&str, &str)]) -> FormatOptions {
    let start = FormatOptions::new();
    pairs
        .iter()
        .fold(start, |options, &(name, value)| options.set(name, value))
}

/// Decodes a whole source as a run does, including its header.
pub(crate) fn decode(format: &InputFormat, source: &[u8]) -> (Batch, Rejects) {
    let mut names = NameTable::new();
    format.intern(&mut names);
    let names = Arc::new(names);
    let mut batch = Batch::new(names.clone());
    let mut rejects = Rejects::with_raw();
    let (mut at, mut header) = (0, None);
    if format.has_header() {
        at = format.framing().first(source, true).unwrap_or(0);
        header = Some(format.header(&source[..at]).expect("a good header"));
    }
    let chunk = Chunk {
        bytes: &source[at..],
        first_line: 1 + source[..at].iter().filter(|&&byte| byte == b'\n').count() as u64,
        header: header.as_ref(),
    };
    format
        .decoder(&names)
        .decode(&chunk, &mut batch, &mut rejects);
    (batch, rejects)
}

/// Each record as `LINE name:type=value …`, then each reject as `LINE! reason`.
pub(crate) fn shown(batch: &Batch, rejects: &Rejects) -> String {
    let mut out = String::new();
    for record in batch.records() {
        write!(out, "{}", record.line).unwrap();
        for field in record.iter() {
            let (name, value) = (batch.names().text(field.name), &field.value);
            write!(out, " {name}:{}=", value.type_of()).unwrap();
            match value {
                Value::Time(time) => write!(out, "{time:?}").unwrap(),
                Value::Object(_) | Value::Array(_) => value.write_json(&mut out),
                _ => value.write_raw(&mut out),
            }
        }
        out.push('\n');
    }
    for reject in rejects.first() {
        writeln!(out, "{}! {}", reject.line, reject.reason).unwrap();
    }
    out
}

/// Checks what a source decodes to; lines of `expected` are trimmed.
#[track_caller]
pub(crate) fn check(
    format: &str,
    pairs: &[(&str, &str)],
    source: impl AsRef<[u8]>,
    expected: &str,
) {
    let format = InputFormat::new(format, &options(pairs)).unwrap();
    let (batch, rejects) = decode(&format, source.as_ref());
    let expected: String = expected
        .trim()
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert_eq!(
        shown(&batch, &rejects),
        expected,
        "{}",
        String::from_utf8_lossy(source.as_ref())
    );
}

/// Encodes a batch with a format's prologue in front; anything rejected follows as `! reason`.
pub(crate) fn encode(format: &str, pairs: &[(&str, &str)], batch: &Batch) -> String {
    let format = OutputFormat::new(format, &options(pairs)).unwrap();
    let mut names = NameTable::new();
    // The batch's own table is not accessible; equal names in equal order have equal numbers.
    for index in 0..batch.names().len() {
        let record = batch.records().iter().flat_map(|record| record.iter());
        let mut named = record.filter(|field| field.name.index() == index);
        names.intern(&named.next().map_or(format!("unused {index}"), |field| {
            batch.names().text(field.name).to_string()
        }));
    }
    format.intern(&mut names);
    let mut out = format.prologue();
    let mut rejects = Rejects::new();
    format.encoder(&names).encode(batch, &mut out, &mut rejects);
    for reject in rejects.first() {
        writeln!(out, "! {}", reject.reason).unwrap();
    }
    out
}

/// Splitmix64: equal seeds give equal numbers on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Changes, removes, duplicates or inserts a few bytes.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const TELLING: &[u8] = b"\"\\,= \n\r<>[]-:{}\t\0\xff\xc3.0129aTZ+";
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 => bytes.insert(at, *self.pick(TELLING)),
                1 if at < bytes.len() => bytes[at] = *self.pick(TELLING),
                2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                3 if at < bytes.len() => {
                    bytes.remove(at);
                }
                _ => {
                    let end = (at + self.below(16)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
    }
}
