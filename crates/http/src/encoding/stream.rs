//! A body that is compressed piece by piece.

use super::{EncodingOptions, brotli, gzip};
use crate::negotiate::Encoding;

/// One body in a coding, of which pieces go in and pieces come out.
///
/// What a piece becomes may come out with a later one: [`flush`](Self::flush) where the client is
/// to see all there is. Dropped before [`finish`](Self::finish), the body is cut, and a decoder
/// notices.
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
    /// The beginning of a body. Its memory comes from the thread and goes back to the thread that
    /// ends it.
    pub fn new(encoding: Encoding, options: &EncodingOptions) -> Self {
        Self(match encoding {
            Encoding::Identity => Kind::Identity,
            Encoding::Gzip => {
                Kind::Gzip(gzip::Encoder::new(options.gzip_level().min(GZIP_LEVEL_MAX)))
            }
            Encoding::Brotli => Kind::Brotli(brotli::Encoder::new(options.brotli_quality(), 0)),
        })
    }

    /// Takes more of the body, and appends what of it is ready to `output`.
    pub fn write(&mut self, body: &[u8], output: &mut Vec<u8>) {
        match &mut self.0 {
            Kind::Identity => output.extend_from_slice(body),
            Kind::Gzip(encoder) => encoder.write(body, output),
            Kind::Brotli(encoder) => encoder.write(body, output),
        }
    }

    /// Appends all that was taken and has not come out, at the cost of some bytes.
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
