//! A body that is compressed piece by piece.

use super::{EncodingOptions, brotli, gzip};
use crate::negotiate::Encoding;

/// An encoder of one body, piece by piece.
///
/// The output of a piece may come out with a later one; call [`flush`](Self::flush) if the client
/// has to see everything at once. If the encoder is dropped before [`finish`](Self::finish), the
/// body is truncated, which a decoder detects.
#[derive(Debug)]
pub struct EncodingStream(Kind);

#[derive(Debug)]
enum Kind {
    Identity,
    Gzip(gzip::Encoder),
    Brotli(brotli::Encoder),
}

/// The highest level of zlib.
const GZIP_LEVEL_MAX: u8 = 9;

impl EncodingStream {
    /// Begins a body. Its memory is taken from a pool of this thread, and returned to that of the
    /// thread that ends it.
    pub fn new(encoding: Encoding, options: &EncodingOptions) -> Self {
        Self(match encoding {
            Encoding::Identity => Kind::Identity,
            Encoding::Gzip => {
                Kind::Gzip(gzip::Encoder::new(options.gzip_level().min(GZIP_LEVEL_MAX)))
            }
            Encoding::Brotli => Kind::Brotli(brotli::Encoder::new(options.brotli_quality(), 0)),
        })
    }

    /// Compresses a piece of the body, and appends available output to `output`.
    pub fn write(&mut self, body: &[u8], output: &mut Vec<u8>) {
        match &mut self.0 {
            Kind::Identity => output.extend_from_slice(body),
            Kind::Gzip(encoder) => encoder.write(body, output),
            Kind::Brotli(encoder) => encoder.write(body, output),
        }
    }

    /// Appends all pending output, at the cost of some bytes.
    pub fn flush(&mut self, output: &mut Vec<u8>) {
        match &mut self.0 {
            Kind::Identity => {}
            Kind::Gzip(encoder) => encoder.flush(output),
            Kind::Brotli(encoder) => encoder.flush(output),
        }
    }

    /// Ends the body.
    pub fn finish(mut self, output: &mut Vec<u8>) {
        match &mut self.0 {
            Kind::Identity => {}
            Kind::Gzip(encoder) => encoder.finish(b"", output),
            Kind::Brotli(encoder) => encoder.finish(b"", output),
        }
    }
}
