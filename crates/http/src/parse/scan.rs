//! The grammar of a head: finds its parts (RFC 9112, 2 to 5) in one pass.
//!
//! It is stricter than the RFC requires: a line ends in CR LF only, since parsers that accept a
//! bare LF and parsers that do not see different requests in the same bytes. A byte that cannot be
//! part of a head is refused as soon as it arrives, without waiting for the rest.

use std::ops::Range;

use super::{BAD_REQUEST, Refusal};

/// Methods are short words; this is about twice the longest registered one. A longer one is 501
/// (RFC 9112, 3).
const METHOD_SIZE_MAX: usize = 64;

/// Why no head was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    Partial,
    Refused(Refusal),
}

const BAD: Stop = Stop::Refused(BAD_REQUEST);

/// Scans a head from its beginning to its end.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The scanned bytes.
    pub(super) fn taken(&self) -> &'a [u8] {
        &self.bytes[..self.at]
    }

    /// Scans the empty lines that a client may send before a request (RFC 9112, 2.2), and its
    /// method.
    #[inline]
    pub(super) fn method(&mut self) -> Result<&'a [u8], Stop> {
        while let Some(b'\r' | b'\n') = self.bytes.get(self.at) {
            self.line_end()?;
        }
        let method = self.token();
        match self.bytes.get(self.at) {
            _ if method.len() > METHOD_SIZE_MAX => Err(Stop::Refused(Refusal(501))),
            None => Err(Stop::Partial),
            Some(b' ') if !method.is_empty() => {
                self.at += 1;
                Ok(method)
            }
            Some(_) => Err(BAD),
        }
    }

    #[inline]
    pub(super) fn target(&mut self, size_max: usize) -> Result<&'a [u8], Stop> {
        let start = self.at;
        self.at = skip::<b'!'>(self.bytes, start);
        let target = &self.bytes[start..self.at];
        match self.bytes.get(self.at) {
            _ if target.len() > size_max => Err(Stop::Refused(Refusal(414))),
            None => Err(Stop::Partial),
            Some(b' ') if !target.is_empty() => {
                self.at += 1;
                Ok(target)
            }
            Some(_) => Err(BAD),
        }
    }

    /// Scans the minor version, and the end of the line. HTTP/1.2 or later is treated as 1.1, which
    /// is also the version of the reply (RFC 9110, 2.5).
    #[inline]
    pub(super) fn version(&mut self) -> Result<u8, Stop> {
        let rest = &self.bytes[self.at..];
        let Some(line) = rest.first_chunk::<10>() else {
            return Err(short_version(rest));
        };
        let minor = match line {
            b"HTTP/1.1\r\n" => 1,
            b"HTTP/1.0\r\n" => 0,
            [
                b'H',
                b'T',
                b'T',
                b'P',
                b'/',
                b'1',
                b'.',
                b'2'..=b'9',
                b'\r',
                b'\n',
            ] => 1,
            _ => return Err(short_version(rest)),
        };
        self.at += line.len();
        Ok(minor)
    }

    /// Scans the next header; `None` at the empty line that ends them, which is consumed. The value
    /// is trimmed.
    #[inline]
    pub(super) fn header(&mut self) -> Result<Option<Header>, Stop> {
        if let Some(b'\r' | b'\n') = self.bytes.get(self.at) {
            return self.line_end().map(|()| None);
        }
        let name_from = self.at;
        let name = self.token();
        match self.bytes.get(self.at) {
            None => return Err(Stop::Partial),
            // A name that begins with a blank is a folded line (RFC 9112, 5.2), and one that ends
            // with a blank is used for smuggling (5.1).
            Some(b':') if !name.is_empty() => {}
            Some(_) => return Err(BAD),
        }
        let name = name_from..self.at;
        self.at += 1;
        while let Some(b' ' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        let value_from = self.at;
        self.at = skip::<b' '>(self.bytes, self.at);
        while let Some(b'\t') = self.bytes.get(self.at) {
            self.at = skip::<b' '>(self.bytes, self.at + 1);
        }
        let mut value_to = self.at;
        self.line_end()?;
        while value_to > value_from && matches!(self.bytes[value_to - 1], b' ' | b'\t') {
            value_to -= 1;
        }
        Ok(Some(Header {
            name,
            value: value_from..value_to,
        }))
    }

    #[inline]
    fn line_end(&mut self) -> Result<(), Stop> {
        match self.bytes[self.at..] {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                Ok(())
            }
            [] | [b'\r'] => Err(Stop::Partial),
            _ => Err(BAD),
        }
    }

    #[inline]
    fn token(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let size = rest.iter().position(|&byte| !TOKEN[usize::from(byte)]);
        let token = &rest[..size.unwrap_or(rest.len())];
        self.at += token.len();
        token
    }
}

/// The position of a header in its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    name: Range<usize>,
    value: Range<usize>,
}

impl Header {
    #[inline]
    pub(crate) fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.name.clone()]
    }

    #[inline]
    pub(crate) fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        &head[self.value.clone()]
    }
}

/// The error for the end of a request line that is not a supported version.
#[cold]
fn short_version(rest: &[u8]) -> Stop {
    // A zero matches any digit.
    let is_like = |pattern: &[u8]| {
        let mut pairs = rest.iter().zip(pattern);
        pairs.all(|(&byte, &like)| byte == like || (like == b'0' && byte.is_ascii_digit()))
    };
    const LINES: [&[u8]; 2] = [b"HTTP/0.0\r\n", b"HTTP/0\r\n"];
    match LINES.into_iter().find(|line| is_like(line)) {
        None => BAD,
        Some(line) if rest.len() < line.len() => Stop::Partial,
        // It is another version, which is not supported.
        Some(_) => Stop::Refused(Refusal(505)),
    }
}

/// The characters of header names and methods (RFC 9110, 5.6.2).
const TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");

/// A table of the letters, the digits and `others`.
pub(super) const fn table(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
}

/// Whether it contains no control characters, not even a tab.
#[inline]
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    skip::<b' '>(bytes, 0) == bytes.len()
}

/// The position of the first byte, from `from` on, that is less than `LEAST` or is DEL; the end if
/// there is none. Eight bytes are tested at once: most lines are longer than that.
#[inline]
fn skip<const LEAST: u8>(bytes: &[u8], from: usize) -> usize {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    let mut at = from;
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        // A borrow can only come from a matching byte, and only the first match counts.
        let is_low = word.wrapping_sub(all(LEAST)) & !word;
        let without_del = word ^ all(0x7f);
        let is_del = without_del.wrapping_sub(all(1)) & !without_del;
        let found = (is_low | is_del) & all(0x80);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_found = |&byte: &u8| byte < LEAST || byte == 0x7f;
    let rest = bytes[at..].iter().position(is_found);
    rest.map_or(bytes.len(), |size| at + size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_eight_bytes_finds_what_skipping_one_does() {
        for length in [0, 1, 7, 8, 9, 16, 23] {
            for place in 0..=length {
                for byte in 0..=255 {
                    for around in [b'a', b'~', b'!', 0x80, 0xff] {
                        let mut bytes = vec![around; length];
                        bytes.splice(place.min(length).., [byte, b'\r', 0x7f]);
                        let visible = |byte: u8| byte >= b'!' && byte != 0x7f;
                        let expected = bytes.iter().position(|&byte| !visible(byte));
                        assert_eq!(Some(skip::<b'!'>(&bytes, 0)), expected, "{bytes:?}");
                        let text = |byte: u8| byte >= b' ' && byte != 0x7f;
                        let expected = bytes.iter().position(|&byte| !text(byte));
                        assert_eq!(Some(skip::<b' '>(&bytes, 0)), expected, "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn tokens_are_those_of_the_rfc() {
        let token: Vec<u8> = (0..=255).filter(|&byte| TOKEN[usize::from(byte)]).collect();
        assert_eq!(
            String::from_utf8(token).as_deref(),
            Ok("!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~")
        );
    }
}
