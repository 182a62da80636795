//! Octet counting: a message after its length in bytes, as in syslog over TCP (RFC 6587, 3.4.1).

use std::io::{self, Read};
use std::iter;

/// How many bytes are read at once.
const READ_SIZE: usize = 16 << 10;

/// The most successive line breaks that become spaces; further ones are left out.
const BREAK_COUNT_MAX: usize = 1024;

/// The most digits of a length.
const DIGIT_COUNT_MAX: usize = 9;

/// Counted messages as lines.
///
/// Line breaks within a message become spaces, and those at its end are removed. A connection that does
/// not begin with a digit consists of lines: senders of that form (RFC 6587, 3.4.2) may use the same
/// port. In others, anything else than a length and as many bytes is an error, after which there are
/// no further messages, as it is not known where one begins.
pub(super) struct OctetCounting<R> {
    inner: R,
    /// The largest length of a message.
    size_max: usize,
    state: State,
    /// Why there are no further messages.
    failure: Option<String>,
    /// Lines that are not returned yet, from `returned` on.
    lines: Vec<u8>,
    returned: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first byte.
    Begin,
    /// Within the length; its digits so far are the lines from this place on.
    Length(usize),
    /// Within a message.
    Message {
        /// How many of its bytes are to come, at least one.
        left: usize,
        /// Line breaks that become spaces if something follows them.
        break_count: usize,
    },
    /// In a connection that consists of lines.
    Lines,
}

impl<R> OctetCounting<R> {
    pub(super) fn new(inner: R, size_max: usize) -> Self {
        Self {
            inner,
            size_max,
            state: State::Begin,
            failure: None,
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
            State::Begin | State::Message { .. } | State::Lines => self.lines.len(),
        }
    }

    fn convert(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes
            && self.failure.is_none()
        {
            match self.state {
                State::Begin => {
                    self.state = match first.is_ascii_digit() {
                        true => State::Length(self.lines.len()),
                        false => State::Lines,
                    };
                }
                State::Length(start) => {
                    self.length(*first, start);
                    bytes = rest;
                }
                State::Message { left, break_count } => {
                    let (message, rest) = bytes.split_at(left.min(bytes.len()));
                    self.message(message, left, break_count);
                    bytes = rest;
                }
                State::Lines => {
                    self.lines.extend_from_slice(bytes);
                    return;
                }
            }
        }
    }

    /// Takes a byte of a length, whose digits begin at `start`.
    fn length(&mut self, byte: u8, start: usize) {
        let digits = &self.lines[start..];
        match (digits, byte) {
            // Some senders end messages by a newline that they do not count.
            ([], b'\n') => {}
            ([], b'1'..=b'9') | ([_, ..], b'0'..=b'9') if digits.len() < DIGIT_COUNT_MAX => {
                self.lines.push(byte);
            }
            ([_, ..], b' ') => {
                let value = |digit: &u8| usize::from(digit - b'0');
                let left = digits.iter().fold(0, |sum, digit| sum * 10 + value(digit));
                if left > self.size_max {
                    self.failure = Some(format!(
                        "a length of {left} bytes is beyond the limit of {}",
                        self.size_max
                    ));
                }
                self.lines.truncate(start);
                self.state = State::Message {
                    left,
                    break_count: 0,
                };
            }
            _ => {
                self.lines.truncate(start);
                self.failure = Some("a message does not begin with its length".to_owned());
            }
        }
    }

    /// Records the end of the connection, which may be within a message.
    fn end_connection(&mut self) {
        match self.state {
            State::Length(start) if start < self.lines.len() => {
                self.failure = Some("the connection ended within a length".to_owned());
            }
            State::Message { left, .. } => {
                self.failure = Some(format!(
                    "the connection ended {left} bytes before the end of a message"
                ));
            }
            State::Begin | State::Length(_) | State::Lines => {}
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
            if let Some(failure) = &self.failure {
                return Err(io::Error::new(io::ErrorKind::InvalidData, failure.clone()));
            }
            let mut bytes = [0; READ_SIZE];
            match self.inner.read(&mut bytes) {
                Ok(0) => {
                    self.end_connection();
                    if self.failure.is_none() {
                        return Ok(0);
                    }
                }
                Ok(size) => self.convert(&bytes[..size]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    self.end_connection();
                    if self.failure.is_none() {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
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

    /// The lines, and why there are no more if that is an error.
    fn lines(parts: Vec<&[u8]>, room_size: usize) -> (String, Option<String>) {
        let mut counted = OctetCounting::new(Parts(parts), 100);
        let (mut found, mut room) = (Vec::new(), vec![0; room_size]);
        let failure = loop {
            match counted.read(&mut room) {
                Ok(0) => break None,
                Ok(size) => found.extend_from_slice(&room[..size]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => break Some(error.to_string()),
            }
        };
        (String::from_utf8(found).unwrap(), failure)
    }

    const CASES: [(&str, &str, Option<&str>); 12] = [
        ("", "", None),
        ("6 <1>a b5 <1>cd", "<1>a b\n<1>cd\n", None),
        // Line breaks of a message, at its end, within it and after it.
        ("5 <1>a\n8 <1>a\n\nb\n", "<1>a\n<1>a  b\n", None),
        ("1 \n3 \n\na\n3 a\r\n", "\n  a\na\r\n", None),
        // Messages that begin like a length.
        ("4 12 a2 7 ", "12 a\n7 \n", None),
        // A connection of lines.
        ("<1>a 5 b\n4 <2>\nc", "<1>a 5 b\n4 <2>\nc", None),
        // What is not a length.
        ("1 ax1 b", "a\n", Some("does not begin with its length")),
        ("1 a12x", "a\n", Some("does not begin with its length")),
        ("0 a", "", Some("does not begin with its length")),
        (
            "1 a101 b",
            "a\n",
            Some("a length of 101 bytes is beyond the limit of 100"),
        ),
        // An end within a message and within a length.
        ("1 b9 <1>a", "b\n<1>a", Some("ended 5 bytes before the end")),
        ("1 a12", "a\n", Some("ended within a length")),
    ];

    #[test]
    fn counted_messages_become_lines_however_they_are_split() {
        let check = |parts, room_size, (sent, expected, failure): (&str, &str, Option<&str>)| {
            let (found, reason) = lines(parts, room_size);
            assert_eq!(found, expected, "{sent:?}");
            let is_expected = match (&reason, failure) {
                (Some(reason), Some(failure)) => reason.contains(failure),
                (reason, failure) => reason.is_none() && failure.is_none(),
            };
            assert!(is_expected, "{sent:?}: {reason:?}");
        };
        for case in CASES {
            let sent = case.0.as_bytes();
            for at in 1..sent.len() {
                let (head, tail) = sent.split_at(at);
                for room_size in [1, 3, 100] {
                    // With a pause in between.
                    check(vec![head, b"", tail], room_size, case);
                }
            }
            check(sent.chunks(1).collect(), 2, case);
        }
    }
}
