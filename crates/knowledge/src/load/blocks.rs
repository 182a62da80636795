//! Cuts the text of a CSV file into blocks that end with a record, for several threads.
//!
//! Where a record ends depends on the quotes before it, so the text is cut in order, by a search for
//! quotes and line feeds that is much faster than parsing. Each thread cuts a block and parses it while
//! the others do the same.

use std::io::{self, Read as _};
use std::mem;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::source::{self, FilePosition, Source};
use crate::config::{CsvConfig, TableConfig};
use crate::lock::lock;

/// The least size of a block in bytes, except for the last one.
const BLOCK_SIZE: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// The greatest size of a block in bytes: a file with a longer record is not cut.
const BLOCK_SIZE_MAX: usize = 64 << 20;

/// The least number of bytes to read at once: that of a reader that decodes.
const READ_SIZE_MIN: usize = 64;

/// The most threads: more would wait for the one that cuts.
const THREAD_COUNT_MAX: usize = 16;

/// Whole records of a file.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Its position among the blocks.
    number: usize,
    pub(super) text: Vec<u8>,
    /// The line on which it begins, counted from 1.
    pub(super) line: u64,
}

impl Block {
    /// Whether it is the first of its file, which begins with the header.
    pub(super) fn is_first(&self) -> bool {
        self.number == 0
    }
}

/// Why a file cannot be cut.
#[derive(Debug)]
pub(super) enum CutError {
    /// The file cannot be read.
    Unreadable,
    /// A record is very long, or blocks would be parsed otherwise than the whole file.
    Unsuitable,
}

/// Cuts one file.
struct Cutter {
    source: Source,
    /// The text that is not cut yet.
    rest: Vec<u8>,
    records: RecordEnds,
    number: usize,
    line: u64,
    is_read: bool,
}

/// Finds ends of records: line feeds outside of quotes.
#[derive(Debug)]
struct RecordEnds {
    delimiter: u8,
    is_quoted: bool,
    /// How many bytes of the text were examined.
    seen: usize,
    /// The end of the last record that ends there; 0 if none does.
    end: usize,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Cutter {
    fn next(&mut self) -> Result<Option<Block>, CutError> {
        let mut size_wanted = BLOCK_SIZE;
        while !self.is_read && (self.rest.len() < size_wanted || self.records.end == 0) {
            if self.rest.len() >= size_wanted {
                size_wanted = self.rest.len() + BLOCK_SIZE;
            }
            if size_wanted > BLOCK_SIZE_MAX {
                return Err(CutError::Unsuitable);
            }
            self.read(size_wanted - self.rest.len())?;
            self.records.see(&self.rest, self.number == 0);
        }
        let end = match self.is_read {
            true => self.rest.len(),
            false => self.records.end,
        };
        if end == 0 {
            return Ok(None);
        }
        // A parser removes a mark at the start of its text, but it is only one at the start of a file.
        if self.number > 0 && self.rest.starts_with(BYTE_ORDER_MARK) {
            return Err(CutError::Unsuitable);
        }
        let rest = self.rest.split_off(end);
        let text = mem::replace(&mut self.rest, rest);
        self.records.cut(end);
        let block = Block {
            number: self.number,
            line: self.line,
            text,
        };
        self.number += 1;
        self.line += memchr::memchr_iter(b'\n', &block.text).count() as u64;
        Ok(Some(block))
    }
}

impl Cutter {
    /// Reads up to `size` more bytes.
    fn read(&mut self, size: usize) -> Result<(), CutError> {
        let start = self.rest.len();
        self.rest.resize(start + size.max(READ_SIZE_MIN), 0);
        let size = loop {
            match self.source.read(&mut self.rest[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(CutError::Unreadable),
                Ok(size) => break size,
            }
        };
        self.rest.truncate(start + size);
        self.is_read = size == 0;
        Ok(())
    }
}

impl RecordEnds {
    fn new(delimiter: u8) -> Self {
        Self {
            delimiter,
            is_quoted: false,
            seen: 0,
            end: 0,
        }
    }

    /// Removes the first `size` bytes of the text.
    fn cut(&mut self, size: usize) {
        self.seen = self.seen.saturating_sub(size);
        self.end = 0;
    }

    /// Examines the text from where it ended at the last call.
    ///
    /// A quote opens a quoted field only at the start of the field; in a quoted field, two quotes stand
    /// for one.
    fn see(&mut self, text: &[u8], is_start_of_file: bool) {
        while self.seen < text.len() {
            let rest = &text[self.seen..];
            let quote = memchr::memchr(b'"', rest).map(|found| self.seen + found);
            if !self.is_quoted {
                let until = quote.unwrap_or(text.len());
                if let Some(found) = memchr::memrchr(b'\n', &text[self.seen..until]) {
                    self.end = self.seen + found + 1;
                }
            }
            let Some(quote) = quote else {
                self.seen = text.len();
                return;
            };
            if self.is_quoted {
                match text.get(quote + 1) {
                    // The next byte decides, which is not read yet.
                    None => {
                        self.seen = quote;
                        return;
                    }
                    Some(b'"') => self.seen = quote + 2,
                    Some(_) => {
                        self.is_quoted = false;
                        self.seen = quote + 1;
                    }
                }
                continue;
            }
            self.is_quoted = match text[..quote].last() {
                None => true,
                Some(before) => {
                    matches!(before, b'\n' | b'\r')
                        || *before == self.delimiter
                        || is_start_of_file && text[..quote] == *BYTE_ORDER_MARK
                }
            };
            self.seen = quote + 1;
        }
    }
}

/// Parses a file in blocks, on all cores, and returns the results in the order of the blocks.
///
/// `state` makes the state of a thread, and `parse` is called with it and a block. `advanced` is called
/// on this thread with the number of bytes that were read from the file so far.
pub(super) fn parse<S, T: Send, E: Send + From<CutError>>(
    table: &TableConfig,
    file: &Path,
    csv: &CsvConfig,
    state: impl Fn() -> S + Sync,
    parse: impl Fn(&mut S, Block) -> Result<T, E> + Sync,
    mut advanced: impl FnMut(u64),
) -> Result<Vec<T>, E> {
    let position = Arc::new(FilePosition::default());
    let bytes = source::open(table.readable(file), &position);
    let bytes = bytes.map_err(|_| CutError::Unreadable)?;
    let mut cutter = Cutter {
        source: source::decoded(bytes, csv.encoding),
        rest: Vec::new(),
        records: RecordEnds::new(csv.delimiter),
        number: 0,
        line: 1,
        is_read: false,
    };
    let Some(first) = cutter.next()? else {
        return Ok(Vec::new());
    };
    // A small file needs no threads.
    let thread_count = match cutter.is_read {
        true => 1,
        false => thread_count(),
    };
    let shared = Mutex::new(Shared {
        cutter,
        results: Vec::new(),
        failure: None,
    });
    let work = |first: Option<Block>, advanced: &mut dyn FnMut()| {
        let (mut state, mut block) = (state(), first);
        loop {
            let next = match block.take() {
                Some(block) => Some(block),
                None => lock(&shared).next(),
            };
            let Some(next) = next else {
                return;
            };
            let number = next.number;
            let result = parse(&mut state, next);
            lock(&shared).add(number, result);
            advanced();
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread_count {
            let spawned = thread::Builder::new()
                .name("lookaside-load".into())
                .spawn_scoped(scope, || work(None, &mut || ()));
            // The other threads do the work.
            drop(spawned);
        }
        work(Some(first), &mut || advanced(position.bytes_read()));
    });
    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = shared.failure {
        return Err(error);
    }
    let mut results = shared.results;
    results.sort_unstable_by_key(|(number, _)| *number);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// How many threads work on a table.
pub(super) fn thread_count() -> usize {
    let available = thread::available_parallelism().map_or(1, NonZero::get);
    available.min(THREAD_COUNT_MAX)
}

/// What the threads share.
struct Shared<T, E> {
    cutter: Cutter,
    results: Vec<(usize, T)>,
    /// The failure of the first block that failed.
    failure: Option<(usize, E)>,
}

impl<T, E: From<CutError>> Shared<T, E> {
    /// The next block, unless one has failed.
    fn next(&mut self) -> Option<Block> {
        if self.failure.is_some() {
            return None;
        }
        match self.cutter.next() {
            Ok(block) => block,
            Err(error) => {
                self.fail(self.cutter.number, error.into());
                None
            }
        }
    }

    fn add(&mut self, number: usize, result: Result<T, E>) {
        match result {
            Ok(result) => self.results.push((number, result)),
            Err(error) => self.fail(number, error),
        }
    }

    fn fail(&mut self, number: usize, error: E) {
        if self
            .failure
            .as_ref()
            .is_none_or(|(first, _)| number < *first)
        {
            self.failure = Some((number, error));
        }
    }
}
