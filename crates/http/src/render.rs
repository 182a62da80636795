//! Replies as bytes.

use crate::clock::Stamp;
use crate::parse::is_text;
use crate::status::{PROBLEM_TYPE, problem, reason};

/// The properties of a request that determine the form of its reply. They are kept with the
/// request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResponseFraming {
    /// The request was a HEAD: no body is sent, but its length is.
    pub(crate) is_head: bool,
    /// The client uses HTTP/1.0, which has no chunked coding.
    pub(crate) is_old: bool,
    /// The connection closes after the reply.
    pub(crate) close: bool,
}

/// The interim response for `Expect: 100-continue` (RFC 9110, 10.1.1).
pub(crate) const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A reply that is being written, at the end of a buffer.
pub(crate) struct Draft {
    pub(crate) out: Vec<u8>,
    /// Where the reply begins.
    start: usize,
    pub(crate) framing: ResponseFraming,
    status: u16,
    /// Whether the status line is written.
    has_head: bool,
    is_broken: bool,
    /// The handler's closure has overwritten replies before this one instead of appending.
    pub(crate) is_lost: bool,
}

impl Draft {
    pub(crate) fn new(out: Vec<u8>, framing: ResponseFraming) -> Self {
        Self {
            start: out.len(),
            out,
            framing,
            status: 200,
            has_head: false,
            is_broken: false,
            is_lost: false,
        }
    }

    pub(crate) fn status(&mut self, status: u16) {
        // A status after the headers, or one that is not a final status, is an error of the
        // handler, which must not lead to a malformed response.
        self.is_broken |= self.has_head || !(200..=599).contains(&status);
        self.status = status;
    }

    fn begin(&mut self, stamp: &Stamp) {
        if self.has_head {
            return;
        }
        self.has_head = true;
        if self.status == 200 {
            self.out.extend_from_slice(&stamp.ok);
        } else {
            self.out.extend_from_slice(b"HTTP/1.1 ");
            self.out
                .extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
            self.out.push(b' ');
            self.out.extend_from_slice(reason(self.status).as_bytes());
            self.out.extend_from_slice(b"\r\n");
            self.out.extend_from_slice(&stamp.common);
        }
    }

    /// Writes the content type.
    #[inline]
    pub(crate) fn content_type(&mut self, stamp: &Stamp, value: &[u8]) {
        self.begin(stamp);
        self.is_broken |= !is_line(value);
        self.out.extend_from_slice(b"Content-Type: ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn header(&mut self, stamp: &Stamp, name: &str, value: &[u8]) {
        self.begin(stamp);
        // Text that a handler copies from a request must not inject headers.
        self.is_broken |= !is_header(name, value);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a status and prepared headers, which are well-formed.
    pub(crate) fn prepared(&mut self, stamp: &Stamp, status: u16, lines: &[u8]) {
        self.status(status);
        self.begin(stamp);
        self.out.extend_from_slice(lines);
    }

    pub(crate) fn header_number(&mut self, stamp: &Stamp, name: &str, value: u64) {
        self.header(stamp, name, itoa::Buffer::new().format(value).as_bytes());
    }

    /// Ends the headers.
    fn end_head(&mut self, stamp: &Stamp) {
        self.begin(stamp);
        if self.framing.close {
            self.out.extend_from_slice(b"Connection: close\r\n");
        } else if self.framing.is_old {
            self.out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
    }

    /// Whether replies with this status have no body (RFC 9110, 6.4.1).
    fn is_bodiless(&self) -> bool {
        matches!(self.status, 204 | 304)
    }

    fn length(&mut self, length: u64) {
        self.out.extend_from_slice(b"Content-Length: ");
        self.out
            .extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        self.out.extend_from_slice(b"\r\n\r\n");
    }

    pub(crate) fn body(&mut self, stamp: &Stamp, body: &[u8]) {
        if self.head_only(stamp, body.len() as u64) {
            self.out.extend_from_slice(body);
        }
    }

    /// Writes the head of a reply with a body of `length` bytes, and returns whether the body must
    /// follow.
    pub(crate) fn head_only(&mut self, stamp: &Stamp, length: u64) -> bool {
        self.end_head(stamp);
        if self.is_broken {
            self.check(stamp);
            return false;
        }
        if self.is_bodiless() {
            self.out.extend_from_slice(b"\r\n");
            return false;
        }
        self.length(length);
        !self.framing.is_head
    }

    /// Lets `write` append the body, and fills in its length.
    pub(crate) fn body_with(&mut self, stamp: &Stamp, write: impl FnOnce(&mut Vec<u8>)) {
        self.end_head(stamp);
        if self.is_bodiless() {
            self.out.extend_from_slice(b"\r\n");
            return self.check(stamp);
        }
        const NAME: &[u8] = b"Content-Length: ";
        self.out.extend_from_slice(NAME);
        let field = self.out.len();
        // Usually the length has as many digits as that of the previous body; otherwise the body is
        // moved.
        let size_guess = stamp.length_size.get();
        self.out.resize(field + size_guess, b' ');
        self.out.extend_from_slice(b"\r\n\r\n");
        let body = self.out.len();
        write(&mut self.out);
        let is_appended = self.out.len() >= body && self.out[..field].ends_with(NAME);
        if !is_appended {
            // For example, a handler has written `*out = body`.
            self.is_lost = self.start > 0;
            self.is_broken = true;
            self.out.clear();
            return self.check(stamp);
        }
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(self.out.len() - body).as_bytes();
        if self.framing.is_head {
            self.out.truncate(body);
        }
        let place = field..field + size_guess;
        if digits.len() == size_guess {
            self.out[place].copy_from_slice(digits);
        } else {
            stamp.length_size.set(digits.len());
            self.out.splice(place, digits.iter().copied());
        }
        self.check(stamp);
    }

    /// Ends the head of a reply whose body follows in pieces, and returns how they are framed.
    /// `None` if the handler made an error, so that it has become a complete 500.
    pub(crate) fn stream(&mut self, stamp: &Stamp) -> Option<Pieces> {
        if self.framing.is_old {
            // Only the end of the connection can be the end of the body.
            self.framing.close = true;
        }
        self.end_head(stamp);
        let pieces = match self.framing {
            ResponseFraming { is_head: true, .. } => Pieces::None,
            _ if self.is_bodiless() => Pieces::None,
            ResponseFraming { is_old: true, .. } => Pieces::Plain,
            _ => Pieces::Chunked,
        };
        if !self.framing.is_old && !self.is_bodiless() {
            self.out
                .extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        self.out.extend_from_slice(b"\r\n");
        let is_broken = self.is_broken;
        self.check(stamp);
        (!is_broken).then_some(pieces)
    }

    /// Tells the client to go on, before the reply itself begins.
    pub(crate) fn interim(&mut self) {
        self.out.truncate(self.start);
        self.out.extend_from_slice(INTERIM);
        *self = Self::new(std::mem::take(&mut self.out), self.framing);
    }

    /// Returns the buffer without this reply.
    pub(crate) fn take_back(&mut self) -> Vec<u8> {
        self.out.truncate(self.start);
        std::mem::take(&mut self.out)
    }

    /// The status that is sent.
    pub(crate) fn sent_status(&self) -> u16 {
        self.status
    }

    /// Discards what was written and answers 500, because of an error of the handler.
    pub(crate) fn fail(&mut self, stamp: &Stamp) {
        let framing = ResponseFraming {
            close: true,
            ..self.framing
        };
        self.out.truncate(self.start);
        let mut draft = Self::new(std::mem::take(&mut self.out), framing);
        draft.is_lost = self.is_lost;
        draft.problem(stamp, 500, problem(500));
        *self = draft;
    }

    /// Answers with a status and a rendered problem.
    pub(crate) fn problem(&mut self, stamp: &Stamp, status: u16, problem: &str) {
        self.status(status);
        self.content_type(stamp, PROBLEM_TYPE.as_bytes());
        self.body(stamp, problem.as_bytes());
    }

    fn check(&mut self, stamp: &Stamp) {
        if std::mem::take(&mut self.is_broken) {
            self.fail(stamp);
        }
    }
}

/// Whether this is exactly one header, and one that a handler may write: headers about the framing
/// are written by the server.
pub(crate) fn is_header(name: &str, value: &[u8]) -> bool {
    let is_framing = match name.len() {
        10 => name.eq_ignore_ascii_case("connection"),
        14 => name.eq_ignore_ascii_case("content-length"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        size => size == 0,
    };
    is_line(value) && is_line(name.as_bytes()) && !is_framing
}

/// Whether it contains no line break.
#[inline]
fn is_line(bytes: &[u8]) -> bool {
    is_text(bytes) || !bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// How the pieces of a body are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// There is no body.
    None,
    Chunked,
    /// Unframed, until the connection closes.
    Plain,
}

/// The number of hexadecimal digits that are reserved for a chunk's size; leading zeros are
/// allowed.
const CHUNK_SIZE_SIZE: usize = 8;

impl Pieces {
    /// Lets `write` append a piece. An empty one is dropped, since an empty chunk would end the
    /// body. Returns whether it was appended; if not, the whole buffer is invalid.
    pub(crate) fn write(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        const SIZE: &[u8] = b"00000000\r\n";
        let start = out.len();
        if self == Self::Chunked {
            out.extend_from_slice(SIZE);
        }
        let body = out.len();
        write(out);
        let Some(size) = out.len().checked_sub(body) else {
            return false;
        };
        if self == Self::Chunked && !out[..body].ends_with(SIZE) {
            return false;
        }
        match self {
            _ if size == 0 => out.truncate(start),
            Self::None => out.truncate(start),
            Self::Plain => {}
            Self::Chunked => {
                for (index, digit) in out[start..start + CHUNK_SIZE_SIZE].iter_mut().enumerate() {
                    let shift = 4 * (CHUNK_SIZE_SIZE - 1 - index);
                    *digit = b"0123456789abcdef"[size >> shift & 15];
                }
                out.extend_from_slice(b"\r\n");
            }
        }
        true
    }

    /// Ends the body. Only a chunked body can have trailers, which are complete lines.
    pub(crate) fn end(self, out: &mut Vec<u8>, trailers: &[u8]) {
        if self == Self::Chunked {
            out.extend_from_slice(b"0\r\n");
            out.extend_from_slice(trailers);
            out.extend_from_slice(b"\r\n");
        }
    }
}
