//! Tracks the quotes of a data file in parallel to the parser, to find the unclosed quote that
//! spoils a record, and how much it includes.
//!
//! The parser does not report this, and a stray quote makes one record of all lines up to the next
//! quote or the end of the file. Only the quotes themselves are examined, so a file without any
//! costs a search for one byte.

/// The number of lines that a quoted field of a bad record may include; beyond that, skipping the
/// record would lose more than one record.
pub(super) const SWALLOWED_LINE_COUNT_MAX: u64 = 1000;

/// The same limit in bytes, see [`SWALLOWED_LINE_COUNT_MAX`].
pub(super) const SWALLOWED_SIZE_MAX: u64 = 1 << 20;

/// The quotes of the current record.
#[derive(Debug)]
pub(super) struct Quotes {
    delimiter: u8,
    state: State,
    /// The byte before the next one.
    before: u8,
    /// Bytes of the record so far.
    size: u64,
    /// The line of the next byte, counted from 1.
    line: u64,
    /// The quoted field that is open.
    open: Quoted,
    /// The quoted field that includes the most lines; `None` if all are on one line.
    longest: Option<Quoted>,
    /// Text follows the closing quote of a field of several lines.
    has_tail: bool,
    /// The record is the first of its file, which a byte order mark may precede.
    is_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    Inside,
    /// After a quote within quotes, which ends them unless another quote follows.
    Closing,
}

/// A quoted field.
#[derive(Clone, Copy, Debug, Default)]
struct Quoted {
    /// The line on which its quote opens.
    line: u64,
    /// Its offset in the record.
    offset: u64,
    line_feed_count: u64,
}

/// The extent of a quoted field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swallowed {
    /// The line on which the quote opens, counted from 1.
    pub(super) line: u64,
    pub(super) line_count: u64,
    /// Bytes from the quote to the end of the record.
    pub(super) size: u64,
}

impl Swallowed {
    /// Whether it may include more than one record.
    pub(super) fn is_too_much(self) -> bool {
        self.line_count > SWALLOWED_LINE_COUNT_MAX || self.size > SWALLOWED_SIZE_MAX
    }
}

impl Quotes {
    pub(super) fn new(delimiter: u8) -> Self {
        Self {
            delimiter,
            state: State::Outside,
            before: b'\n',
            size: 0,
            line: 1,
            open: Quoted::default(),
            longest: None,
            has_tail: false,
            is_first: true,
        }
    }

    /// Begins a record on a line.
    pub(super) fn begin(&mut self, line: u64) {
        let is_first = self.is_first && self.size == 0;
        *self = Self {
            line,
            is_first,
            ..Self::new(self.delimiter)
        };
    }

    /// Processes the next bytes of the record.
    #[inline]
    pub(super) fn see(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Closing {
                self.state = match bytes[at] {
                    b'"' => {
                        at += 1;
                        State::Inside
                    }
                    byte => {
                        self.close(byte);
                        State::Outside
                    }
                };
                continue;
            }
            let quote = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found);
            self.pass(&bytes[at..quote.unwrap_or(bytes.len())]);
            let Some(quote) = quote else {
                break;
            };
            if self.state == State::Inside {
                self.state = State::Closing;
            } else if self.is_at_field_start(
                match quote {
                    0 => self.before,
                    _ => bytes[quote - 1],
                },
                quote,
            ) {
                self.state = State::Inside;
                self.open = Quoted {
                    line: self.line,
                    offset: self.size + quote as u64,
                    line_feed_count: 0,
                };
            }
            at = quote + 1;
        }
        if let Some(last) = bytes.last() {
            self.before = *last;
        }
        self.size += bytes.len() as u64;
    }

    /// Counts the lines of bytes without quotes.
    fn pass(&mut self, bytes: &[u8]) {
        let count = memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.line += count;
        if self.state == State::Inside {
            self.open.line_feed_count += count;
        }
    }

    fn is_at_field_start(&self, before: u8, offset: usize) -> bool {
        let is_behind_mark = self.is_first && self.size + offset as u64 == 3 && before == 0xbf;
        before == self.delimiter || matches!(before, b'\n' | b'\r') || is_behind_mark
    }

    /// Closes the open field, which the byte `next` follows.
    fn close(&mut self, next: u8) {
        if self.open.line_feed_count == 0 {
            return;
        }
        self.has_tail |= next != self.delimiter && !matches!(next, b'\n' | b'\r');
        let longest = self.longest.map_or(0, |longest| longest.line_feed_count);
        if self.open.line_feed_count > longest {
            self.longest = Some(self.open);
        }
    }

    /// Whether text follows the closing quote of a field of several lines, which no CSV writer
    /// produces.
    pub(super) fn has_tail(&self) -> bool {
        self.has_tail
    }

    /// The extent of the quoted field that is open at the end of the file, or that has the most
    /// lines of the record. `None` if each field is on one line.
    pub(super) fn swallowed(&self) -> Option<Swallowed> {
        let is_open = self.state == State::Inside;
        let longest = self.longest.unwrap_or_default();
        // After a quote at the end of the file, no byte shows whether it closes the field.
        let ends_file =
            self.state == State::Closing && self.open.line_feed_count > longest.line_feed_count;
        let quoted = match is_open || ends_file {
            true => self.open,
            false => self.longest?,
        };
        // The line feed at the end of the file does not begin a line.
        let ends_line = is_open && self.before == b'\n';
        Some(Swallowed {
            line: quoted.line,
            line_count: quoted.line_feed_count + u64::from(!ends_line),
            size: self.size - quoted.offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a record in one piece and in pieces of each size.
    fn check(record: &str, expected: Option<(u64, u64, u64)>, has_tail: bool) {
        for piece in 1..=record.len() {
            let mut quotes = Quotes::new(b',');
            quotes.begin(7);
            record
                .as_bytes()
                .chunks(piece)
                .for_each(|it| quotes.see(it));
            let seen = quotes.swallowed();
            let seen = seen.map(|it| (it.line, it.line_count, it.size));
            assert_eq!(seen, expected, "{record:?} by {piece}");
            assert_eq!(quotes.has_tail(), has_tail, "{record:?} by {piece}");
        }
    }

    #[test]
    fn quotes_are_told_by_where_they_stand() {
        check("a,b\n", None, false);
        check("a,\"b\"\n", None, false);
        check("a,\"b\"c\n", None, false);
        check("a,b\"c\nd\n", None, false);
        check("a,\"b\nc\"\n", Some((7, 2, 6)), false);
        check("\"b\nc\",\"d\ne\nf\"\r", Some((8, 3, 8)), false);
        check("a,\"b\"\"\nc\"\"\"\n", Some((7, 2, 10)), false);
        check("a,\"b\nc\"d\n", Some((7, 2, 7)), true);
        check("a,\"b\nc\nd\n", Some((7, 3, 7)), false);
        check("a,\"b\nc\nd", Some((7, 3, 6)), false);
        check("a,\"b", Some((7, 1, 2)), false);
        check("a,\"b\nc\"", Some((7, 2, 5)), false);
        check("a,\"b\"", None, false);
        check("\u{feff}\"b\nc\",d\n", Some((7, 2, 8)), false);
    }
}
