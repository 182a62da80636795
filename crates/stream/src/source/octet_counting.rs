//! Octet counting: a message after its length in bytes, as in syslog over TCP (RFC 6587, 3.4.1).

use std::io::{self, Read};
use std::iter;

use memchr::memchr;

/// How many bytes are read at once.
const READ_SIZE: usize = 16 << 10;

/// The most successive line breaks that become spaces; further ones are left out.
const BREAK_COUNT_MAX: usize = 1024;

/// The most digits of a length.
const DIGIT_COUNT_MAX: usize = 9;

/// Counted messages as lines.
///
/// Line breaks within a message become spaces, and those at its end are removed. What does not begin
/// with a length and a space is a line that ends with a newline: senders of that form (RFC 6587,
/// 3.4.2) may use the same port.
pub(super) struct OctetCounting<R> {
    inner: R,
    state: State,
    /// Lines that are not returned yet, from `returned` on.
    lines: Vec<u8>,
    returned: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Within the length; its digits so far are the lines from this place on.
    Length(usize),
    /// Within a message.
    Message {
        /// How many of its bytes are to come, at least one.
        left: usize,
        /// Line breaks that become spaces if something follows them.
        break_count: usize,
    },
    /// Within a line.
    Line,
}

impl<R> OctetCounting<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            state: State::Length(0),
            lines: Vec::new(),
            returned: 0,
        }
    }

    pub(super) fn inner(&self) -> &R {
        &self.inner
    }

    /// Whether bytes can be returned without reading.
    pub(super) fn has_lines(&self) -> bool {
        self.returned < self.end()
    }

    /// The end of what can be returned: digits may be a length.
    fn end(&self) -> usize {
        match self.state {
            State::Length(start) => start,
            State::Message { .. } | State::Line => self.lines.len(),
        }
    }

    fn convert(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            match self.state {
                State::Length(start) => match (&self.lines[start..], first) {
                    ([], b'1'..=b'9') | ([_, ..], b'0'..=b'9')
                        if self.lines.len() - start < DIGIT_COUNT_MAX =>
                    {
                        self.lines.push(*first);
                        bytes = rest;
                    }
                    (digits @ [_, ..], b' ') => {
                        let value = |digit: &u8| usize::from(digit - b'0');
                        let left = digits.iter().fold(0, |sum, digit| sum * 10 + value(digit));
                        self.lines.truncate(start);
                        self.state = State::Message {
                            left,
                            break_count: 0,
                        };
                        bytes = rest;
                    }
                    _ => self.state = State::Line,
                },
                State::Message { left, break_count } => {
                    let (message, rest) = bytes.split_at(left.min(bytes.len()));
                    self.message(message, left, break_count);
                    bytes = rest;
                }
                State::Line => {
                    let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
                    let (line, rest) = bytes.split_at(end);
                    self.lines.extend_from_slice(line);
                    if line.ends_with(b"\n") {
                        self.state = State::Length(self.lines.len());
                    }
                    bytes = rest;
                }
            }
        }
    }

    /// Appends bytes of a message that has `left` of them to come.
    fn message(&mut self, bytes: &[u8], left: usize, mut break_count: usize) {
        for (index, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
            // A sender must not fill the memory by them.
            break_count = (break_count + usize::from(index > 0)).min(BREAK_COUNT_MAX);
            if !part.is_empty() {
                self.lines.extend(iter::repeat_n(b' ', break_count));
                self.lines.extend_from_slice(part);
                break_count = 0;
            }
        }
        let left = left - bytes.len();
        self.state = if left > 0 {
            State::Message { left, break_count }
        } else {
            self.lines.push(b'\n');
            State::Length(self.lines.len())
        };
    }
}

impl<R: Read> Read for OctetCounting<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while !self.has_lines() {
            let mut bytes = [0; READ_SIZE];
            let size = self.inner.read(&mut bytes)?;
            if size == 0 {
                // Digits at the end are a last line.
                self.state = State::Line;
                break;
            }
            self.convert(&bytes[..size]);
        }
        let lines = &self.lines[self.returned..self.end()];
        let size = lines.len().min(room.len());
        room[..size].copy_from_slice(&lines[..size]);
        self.returned += size;
        if !self.has_lines() {
            self.lines.drain(..self.returned);
            if let State::Length(start) = &mut self.state {
                *start -= self.returned;
            }
            self.returned = 0;
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its parts one after the other, and then pauses before the end.
    struct Parts<'a>(Vec<&'a [u8]>);

    impl Read for Parts<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            if part.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            room[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    fn lines(parts: Vec<&[u8]>, room_size: usize) -> String {
        let mut counted = OctetCounting::new(Parts(parts));
        let (mut found, mut room) = (Vec::new(), vec![0; room_size]);
        loop {
            match counted.read(&mut room) {
                Ok(0) => return String::from_utf8(found).unwrap(),
                Ok(size) => found.extend_from_slice(&room[..size]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    const CASES: [(&str, &str); 9] = [
        ("6 <1>a b5 <1>cd", "<1>a b\n<1>cd\n"),
        // Line breaks of a message, at its end and within it.
        ("5 <1>a\n8 <1>a\n\nb\n", "<1>a\n<1>a  b\n"),
        ("1 \n3 \n\na3 a\r\n", "\n  a\na\r\n"),
        // Messages that begin like a length.
        ("4 12 a2 7 ", "12 a\n7 \n"),
        // Lines, and both forms in one connection.
        (
            "<1>a 5 b\n<2>c\n4 <3>d<4>e\n",
            "<1>a 5 b\n<2>c\n<3>d\n<4>e\n",
        ),
        // What is not a length.
        ("012 a\n12a\n1234567890 a\n", "012 a\n12a\n1234567890 a\n"),
        ("5\n\n2 ab", "5\n\nab\n"),
        // An end within a message, a line and a length.
        ("9 <1>a", "<1>a"),
        ("1 a12", "a\n12"),
    ];

    #[test]
    fn counted_messages_become_lines_however_they_are_split() {
        for (sent, expected) in CASES {
            for at in 0..=sent.len() {
                let (head, tail) = sent.as_bytes().split_at(at);
                for room_size in [1, 3, 100] {
                    // With a pause in between.
                    let found = lines(vec![head, b"", tail], room_size);
                    assert_eq!(found, expected, "{sent:?}, split at {at}, room {room_size}");
                }
            }
            let single = sent.as_bytes().chunks(1).collect();
            assert_eq!(lines(single, 2), expected, "{sent:?}, byte by byte");
        }
    }
}
