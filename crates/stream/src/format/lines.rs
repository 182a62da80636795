//! The loop that all formats with one record per line share.

use std::borrow::Cow;

use lookaside_value::{Batch, Names, Record};
use memchr::memchr;

use super::{Chunk, Decoder};
use crate::Rejects;

/// Why a line is not a record, as one lower-case phrase.
pub(crate) type Reason = Cow<'static, str>;

/// Reads one line of a format.
pub(crate) trait ParseLine: Send {
    /// Called before each chunk: names of the previous batch are no longer valid.
    fn begin(&mut self) {}

    /// Appends the fields of a line to an empty record; the line is not empty and has no line end.
    /// The fields of a failed line are discarded.
    fn parse(&mut self, line: &str, names: &mut Names, record: &mut Record) -> Result<(), Reason>;
}

/// Decodes chunks line by line. Empty lines are skipped.
pub(crate) struct LineDecoder<P> {
    pub(crate) parser: P,
    pub(crate) line_size_max: usize,
}

impl<P: ParseLine> Decoder for LineDecoder<P> {
    fn begin(&mut self, _: &mut Batch) {
        self.parser.begin();
    }

    fn decode_record(&mut self, bytes: &[u8], line: u64, batch: &mut Batch, rejects: &mut Rejects) {
        match text(bytes) {
            Ok(text) => self.line(text.trim_end_matches('\n'), line, batch, rejects),
            Err(reason) => rejects.push(line, reason, bytes),
        }
    }

    fn decode(&mut self, chunk: &Chunk<'_>, batch: &mut Batch, rejects: &mut Rejects) {
        self.parser.begin();
        let bytes = without_mark(chunk);
        let mut line = chunk.first_line;
        // Checking all bytes at once is far cheaper than each line; invalid bytes are rare.
        match simdutf8::basic::from_utf8(bytes) {
            Ok(mut rest) => {
                while !rest.is_empty() {
                    let end = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
                    self.line(&rest[..end], line, batch, rejects);
                    rest = rest.get(end + 1..).unwrap_or_default();
                    line += 1;
                }
            }
            Err(_) => {
                let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                for bytes in lines.split(|&byte| byte == b'\n') {
                    match text(bytes) {
                        Ok(text) => self.line(text, line, batch, rejects),
                        Err(reason) => rejects.push(line, reason, without_return(bytes)),
                    }
                    line += 1;
                }
            }
        }
    }
}

impl<P: ParseLine> LineDecoder<P> {
    #[inline]
    fn line(&mut self, text: &str, line: u64, batch: &mut Batch, rejects: &mut Rejects) {
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            return;
        }
        if text.len() > self.line_size_max {
            rejects.push_too_long(line, self.line_size_max, text.as_bytes());
            return;
        }
        let mut record = batch.new_record();
        record.line = line;
        match self.parser.parse(text, batch.names_mut(), &mut record) {
            Ok(()) => batch.push(record),
            Err(reason) => {
                batch.recycle(record);
                rejects.push(line, reason, text.as_bytes());
            }
        }
    }
}

/// The bytes of a chunk without the byte order mark that some programs write before the first line.
pub(crate) fn without_mark<'a>(chunk: &Chunk<'a>) -> &'a [u8] {
    match chunk.bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(bytes) if chunk.first_line == 1 => bytes,
        _ => chunk.bytes,
    }
}

/// U+FEFF in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn without_return(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Bytes as text, or the number of the first invalid byte, counted from 1.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Reason> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        format!("byte {} (0x{:02x}) is not UTF-8", at + 1, bytes[at]).into()
    })
}
