//! Decodes request bodies with a `Content-Encoding` (RFC 9110, section 8.4).
//!
//! The output of a decoder is bounded by its reader, never by a header of the data: a complete body
//! by the limit for uncompressed bodies, a stream by the reader's buffer. A decoder itself uses the
//! memory of its window, 16 MiB at most.

use std::io::{self, BufReader, Read};
use std::time::{Duration, Instant};

use flate2::bufread::MultiGzDecoder;
use lookaside_http::{BodyReader, Request};
use lookaside_stream::LiveRead;

use super::super::problem::Problem;

/// The names of the codings, for the header `Accept-Encoding` of a refusal.
pub(super) const CODINGS: &str = "gzip, br, zstd";

/// Zstandard's window, as RFC 9659 bounds it for HTTP: 8 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The size of a brotli decoder's input buffer.
const BROTLI_INPUT_SIZE: usize = 4 << 10;

/// A supported coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    fn of_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"br" => Some(Self::Brotli),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// The coding of a request's body; `None` if it has none.
///
/// # Errors
/// 415 for an unsupported coding, and for several stacked codings.
pub(crate) fn content_coding(request: &Request<'_>) -> Result<Option<Coding>, Problem> {
    of_values(request.header_values("Content-Encoding"))
}

fn of_values<'v>(values: impl Iterator<Item = &'v [u8]>) -> Result<Option<Coding>, Problem> {
    let names = values.flat_map(|value| value.split(|byte| *byte == b','));
    let mut names = names
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
    let Some(name) = names.next() else {
        return Ok(None);
    };
    match (Coding::of_name(name), names.next()) {
        (Some(coding), None) => Ok(Some(coding)),
        _ => Err(Problem::new(415, "the coding of the body is not supported")
            .detail(format!("Content-Encoding may be one of {CODINGS}"))),
    }
}

/// Decodes a complete body.
///
/// # Errors
/// 400 if the body is invalid for its coding, 413 if it decodes to more than `size_max` bytes.
pub(crate) fn decode(coding: Coding, body: &[u8], size_max: usize) -> Result<Vec<u8>, Problem> {
    let mut decoded = Vec::new();
    let read = Decoder::new(coding, body).and_then(|decoder| {
        let mut bounded = decoder.take((size_max as u64).saturating_add(1));
        bounded.read_to_end(&mut decoded)
    });
    if let Err(error) = read {
        return Err(Problem::new(400, "the body cannot be decoded").detail(error.to_string()));
    }
    match decoded.len() <= size_max {
        true => Ok(decoded),
        false => Err(Problem::new(413, "the body is too large")
            .detail(format!("the decoded body has more than {size_max} bytes"))),
    }
}

/// The low seven bits of the first byte of a brotli stream with a large window, of up to 1 GiB. The
/// decoder accepts such streams, but `br` means RFC 7932, which ends at 16 MiB and has no such
/// byte.
const BROTLI_LARGE_WINDOW: u8 = 0x11;

/// Reads a brotli stream, and fails if it has a large window.
struct StandardWindow<R> {
    body: R,
    is_begun: bool,
}

impl<R: Read> Read for StandardWindow<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = self.body.read(room)?;
        if let Some(first) = room[..size].first()
            && !std::mem::replace(&mut self.is_begun, true)
            && first & 0x7f == BROTLI_LARGE_WINDOW
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its window is larger than 16 MiB",
            ));
        }
        Ok(size)
    }
}

/// A decoder with its encoded input.
enum Decoder<R: Read> {
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    Brotli(Box<brotli::Decompressor<StandardWindow<R>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<R>>),
}

impl<R: Read> Decoder<R> {
    fn new(coding: Coding, body: R) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(body)))),
            Coding::Brotli => {
                let body = StandardWindow {
                    body,
                    is_begun: false,
                };
                let decoder = brotli::Decompressor::new(body, BROTLI_INPUT_SIZE);
                Self::Brotli(Box::new(decoder))
            }
            Coding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(body)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Self::Zstd(decoder)
            }
        })
    }

    fn coding(&self) -> Coding {
        match self {
            Self::Gzip(_) => Coding::Gzip,
            Self::Brotli(_) => Coding::Brotli,
            Self::Zstd(_) => Coding::Zstd,
        }
    }

    /// The source of the encoded bytes.
    fn body(&mut self) -> &mut R {
        match self {
            Self::Gzip(decoder) => decoder.get_mut().get_mut(),
            Self::Brotli(decoder) => &mut decoder.get_mut().body,
            Self::Zstd(decoder) => decoder.get_mut().get_mut(),
        }
    }

    fn read_some(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(room),
            Self::Zstd(decoder) => decoder.read(room),
            Self::Brotli(decoder) => {
                let size = decoder.read(room)?;
                // The other decoders check for trailing data at the end by themselves.
                if size == 0 && !room.is_empty() {
                    let more = decoder.read(room)? + decoder.get_mut().read(&mut [0])?;
                    if more > 0 {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "more bytes after its end",
                        ));
                    }
                }
                Ok(size)
            }
        }
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.read_some(room).map_err(|error| match error.kind() {
            // Errors of the transport, and input that has not arrived yet.
            io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::TimedOut
            | io::ErrorKind::ConnectionAborted => error,
            kind => {
                let name = self.coding().name();
                io::Error::new(kind, format!("the body is not valid {name}: {error}"))
            }
        })
    }
}

/// The body of a stream, decoded as it arrives.
pub(super) enum LiveBody {
    Plain(BodyReader),
    Coded(Box<Inflow>),
}

/// A decoder and its encoded body.
pub(super) struct Inflow(Decoder<Awaited>);

/// A body whose reads wait until a deadline at most.
struct Awaited {
    body: BodyReader,
    until: Option<Instant>,
}

impl Read for Awaited {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(until) = self.until else {
            return self.body.read(room);
        };
        let timeout = until.saturating_duration_since(Instant::now());
        let size = self.body.read_within(room, timeout)?;
        size.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl LiveBody {
    /// # Errors
    /// When there is no memory for a decoder.
    pub(super) fn new(body: BodyReader, coding: Option<Coding>) -> io::Result<Self> {
        let Some(coding) = coding else {
            return Ok(Self::Plain(body));
        };
        // A decoder that reads from the body in its constructor must not wait.
        let until = Some(Instant::now());
        let decoder = Decoder::new(coding, Awaited { body, until })?;
        Ok(Self::Coded(Box::new(Inflow(decoder))))
    }
}

impl LiveRead for LiveBody {
    fn read_within(
        &mut self,
        room: &mut [u8],
        timeout: Option<Duration>,
    ) -> io::Result<Option<usize>> {
        let decoder = match self {
            Self::Plain(body) => {
                return match timeout {
                    Some(timeout) => body.read_within(room, timeout),
                    None => body.read(room).map(Some),
                };
            }
            Self::Coded(inflow) => &mut inflow.0,
        };
        // A deadline that overflows the clock is no deadline.
        decoder.body().until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match decoder.read(room) {
            Ok(size) => Ok(Some(size)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn coded(coding: Coding, body: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Gzip => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(body).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Brotli => {
                let mut coded = Vec::new();
                let mut encoder = brotli::CompressorWriter::new(&mut coded, 4096, 1, 18);
                encoder.write_all(body).unwrap();
                drop(encoder);
                coded
            }
            Coding::Zstd => zstd::encode_all(body, 1).unwrap(),
        }
    }

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    #[test]
    fn headers_name_one_coding() {
        let of = |values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            of_values(values).map_err(|problem| problem.status)
        };
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["identity"], Ok(None)),
            (&[""], Ok(None)),
            (&["gzip"], Ok(Some(Coding::Gzip))),
            (&["X-GZIP"], Ok(Some(Coding::Gzip))),
            (&["identity, br"], Ok(Some(Coding::Brotli))),
            (&["", " zstd "], Ok(Some(Coding::Zstd))),
            (&["deflate"], Err(415)),
            (&["gzip, br"], Err(415)),
            (&["gzip", "gzip"], Err(415)),
            (&["gzip;q=1"], Err(415)),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
    }

    #[test]
    fn bodies_are_decoded_within_their_limit() {
        let body: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for coding in ALL {
            let coded = coded(coding, &body);
            assert!(decode(coding, &coded, body.len()).unwrap() == body);
            let refused = decode(coding, &coded, body.len() - 1).unwrap_err();
            assert_eq!(refused.status, 413, "{coding:?}");
            assert!(
                decode(coding, &self::coded(coding, b""), 0)
                    .unwrap()
                    .is_empty()
            );
        }
    }

    #[test]
    fn a_bomb_costs_no_more_than_the_limit() {
        // A quarter of a gigabyte of zeros in a few kilobytes, in frames that are repeated.
        let zeros = vec![0; 4 << 20];
        for coding in [Coding::Gzip, Coding::Zstd] {
            let bomb = coded(coding, &zeros).repeat(64);
            assert_eq!(decode(coding, &bomb, 1 << 20).unwrap_err().status, 413);
        }
        let bomb = coded(Coding::Brotli, &zeros);
        assert_eq!(
            decode(Coding::Brotli, &bomb, 1 << 20).unwrap_err().status,
            413
        );
    }

    #[test]
    fn what_is_cut_or_followed_by_more_is_refused() {
        let body = b"{\"host\":\"web-1\",\"status\":200}\n".repeat(50);
        for coding in ALL {
            let whole = coded(coding, &body);
            for size in 0..whole.len() {
                let refused = decode(coding, &whole[..size], 1 << 20);
                // An empty input is neither a gzip member nor a Zstandard frame.
                let is_empty = size == 0 && refused.as_ref().is_ok_and(Vec::is_empty);
                assert!(
                    is_empty || refused.as_ref().is_err_and(|it| it.status == 400),
                    "{coding:?} cut at {size}"
                );
            }
            let more = [whole.as_slice(), b"more"].concat();
            let refused = decode(coding, &more, 1 << 20).map_err(|it| it.status);
            assert_eq!(refused, Err(400), "{coding:?}");
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                // Any result is fine, as long as it terminates.
                let _ = decode(coding, &flipped, 1 << 20);
            }
        }
    }
}
