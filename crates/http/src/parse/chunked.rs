//! Chunked bodies (RFC 9112, 7.1), however they are cut.

use super::{BAD_REQUEST, Refusal};

/// Digits of a chunk's size: the size then fits into 60 bits and cannot overflow.
const DIGIT_COUNT_MAX: u8 = 15;

/// Bytes of one chunk's extensions, which are unused in practice, except by attackers.
const EXTENSION_SIZE_MAX: u16 = 256;

/// Bytes of all trailers, which are validated and dropped.
const TRAILER_SIZE_MAX: u16 = 8 << 10;

/// The state of the parser before the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a size.
    Size {
        digit_count: u8,
    },
    /// Blanks between the size and what follows it.
    Blank {
        size: u16,
    },
    /// In the extensions after a size.
    Extension {
        size: u16,
    },
    /// After the CR of the line with the size.
    SizeEnd,
    Data,
    /// After the data: CR, then LF.
    DataEnd,
    DataEndLf,
    /// At the beginning of a trailer line, or of the empty line.
    Trailer,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// Decodes the chunked coding.
#[derive(Clone, Debug)]
pub(crate) struct ChunkDecoder {
    state: State,
    /// The remaining bytes of the chunk.
    left: u64,
    trailer_size: u16,
}

/// The result of [`ChunkDecoder::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is data from `from` to `to`; the bytes after it have not been parsed.
    Data { from: usize, to: usize },
    /// All bytes are consumed and the body goes on.
    More,
    /// The body ended before the byte at `at`.
    End { at: usize },
}

impl ChunkDecoder {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Size { digit_count: 0 },
            left: 0,
            trailer_size: 0,
        }
    }

    /// Continues at byte `at` of `bytes`.
    pub(crate) fn next(&mut self, bytes: &[u8], mut at: usize) -> Result<Progress, Refusal> {
        while at < bytes.len() {
            if self.state == State::Data {
                let to = match usize::try_from(self.left) {
                    Ok(left) => bytes.len().min(at.saturating_add(left)),
                    Err(_) => bytes.len(),
                };
                self.left -= (to - at) as u64;
                if self.left == 0 {
                    self.state = State::DataEnd;
                }
                return Ok(Progress::Data { from: at, to });
            }
            self.step(bytes[at])?;
            at += 1;
            if self.state == State::Done {
                return Ok(Progress::End { at });
            }
        }
        Ok(Progress::More)
    }

    fn step(&mut self, byte: u8) -> Result<(), Refusal> {
        use State as S;
        self.state = match (self.state, byte) {
            (S::Size { digit_count }, _) if byte.is_ascii_hexdigit() => {
                if digit_count == DIGIT_COUNT_MAX {
                    return Err(BAD_REQUEST);
                }
                let digit = (byte as char).to_digit(16).ok_or(BAD_REQUEST)?;
                self.left = self.left * 16 + u64::from(digit);
                S::Size {
                    digit_count: digit_count + 1,
                }
            }
            (S::Size { digit_count: 0 }, _) => return Err(BAD_REQUEST),
            (S::Size { .. } | S::Extension { .. }, b'\r') => S::SizeEnd,
            (S::Size { .. }, b';') => S::Extension { size: 0 },
            // RFC 9112, 7.1.1 allows blanks only before the semicolon of an extension, where a
            // recipient must parse them. Some servers skip blanks before the end of the line,
            // others take them for a part of the size or refuse them; if two servers on a path
            // disagree, a request can be smuggled in a body. So `5 CRLF` is refused.
            (S::Size { .. }, b' ' | b'\t') => S::Blank { size: 0 },
            (S::Blank { size }, b' ' | b'\t') => S::Blank {
                size: grow(size, EXTENSION_SIZE_MAX)?,
            },
            (S::Blank { size }, b';') => S::Extension { size },
            (S::Extension { size }, _) if is_text(byte) => S::Extension {
                size: grow(size, EXTENSION_SIZE_MAX)?,
            },
            (S::SizeEnd, b'\n') if self.left == 0 => S::Trailer,
            (S::SizeEnd, b'\n') => S::Data,
            (S::DataEnd, b'\r') => S::DataEndLf,
            (S::DataEndLf, b'\n') => S::Size { digit_count: 0 },
            (S::Trailer, b'\r') => S::EndLf,
            (S::EndLf, b'\n') => S::Done,
            (S::Trailer | S::TrailerName, _) if is_token(byte) => S::TrailerName,
            (S::TrailerName, b':') => S::TrailerValue,
            (S::TrailerValue, b'\r') => S::TrailerLf,
            (S::TrailerValue, _) if is_text(byte) => S::TrailerValue,
            (S::TrailerLf, b'\n') => S::Trailer,
            _ => return Err(BAD_REQUEST),
        };
        if matches!(self.state, S::TrailerName | S::TrailerValue) {
            self.trailer_size =
                grow(self.trailer_size, TRAILER_SIZE_MAX).map_err(|_| Refusal(431))?;
        }
        Ok(())
    }
}

fn grow(size: u16, size_max: u16) -> Result<u16, Refusal> {
    match size < size_max {
        true => Ok(size + 1),
        false => Err(BAD_REQUEST),
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes in pieces of `piece_size` bytes; returns the data and the number of remaining bytes.
    fn decode(bytes: &[u8], piece_size: usize) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
        let mut decoder = ChunkDecoder::new();
        let mut data = Vec::new();
        let mut consumed = 0;
        for piece in bytes.chunks(piece_size) {
            let mut at = 0;
            loop {
                match decoder.next(piece, at)? {
                    Progress::Data { from, to } => {
                        data.extend_from_slice(&piece[from..to]);
                        at = to;
                    }
                    Progress::More => break,
                    Progress::End { at } => {
                        return Ok(Some((data, bytes.len() - consumed - at)));
                    }
                }
            }
            consumed += piece.len();
        }
        Ok(None)
    }

    fn check(body: &str, expected: Result<Option<(&str, usize)>, u16>) {
        for piece_size in 1..=body.len().max(1) {
            let found = decode(body.as_bytes(), piece_size);
            let expected = expected
                .map(|body| body.map(|(data, left)| (data.as_bytes().to_vec(), left)))
                .map_err(Refusal);
            assert_eq!(found, expected, "{body:?} in pieces of {piece_size}");
        }
    }

    #[test]
    fn bodies_are_taken_apart() {
        check("2\r\n20\r\n0\r\n\r\n", Ok(Some(("20", 0))));
        check("0\r\n\r\nGET", Ok(Some(("", 3))));
        check(
            "a\r\n0123456789\r\n001\r\nx\r\n000\r\n\r\n",
            Ok(Some(("0123456789x", 0))),
        );
        check(
            "1;a=b;c=\"d\"\r\nx\r\n0 \t;e\r\nA: b\r\nC:\r\n\r\n",
            Ok(Some(("x", 0))),
        );
        check("5\r\nabc", Ok(None));
        check("0\r\n", Ok(None));
        check("0\r\nA: b\r\n\r", Ok(None));
    }

    #[test]
    fn bodies_that_somebody_may_read_otherwise_are_refused() {
        for body in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 1\r\n",
            "1 \r\nx",
            "1\t\r\nx",
            "1  \t \r\nx",
            "0 \r\n\r\n",
            "1\nx\r\n",
            "1\rx",
            "1\r\nxy",
            "1\r\nx\n0\r\n\r\n",
            "1\r\nx\r0",
            "1\r\nxx\r\n",
            "0\r\n\n",
            "0\r\nA b: c\r\n",
            "0\r\n A: b\r\n",
            "0\r\n: b\r\n",
            "0\r\nA\r\n",
            "0\r\nA: b\n\r\n",
            "1;\n",
            "1;\0\r\n",
            "1;a\nb\r\n",
            "0000000000000001\r\n",
            "ffffffffffffffff\r\n",
        ] {
            check(body, Err(400));
        }
        check(&format!("1;{}\r\n", "x".repeat(257)), Err(400));
        check(&format!("0\r\nA: {}\r\n", "x".repeat(8 << 10)), Err(431));
    }
}
