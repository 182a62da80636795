//! Compression of bodies on the fly.
//!
//! Whole bodies are compressed with gzip by libdeflate, which takes two thirds of the time of a
//! streaming deflate for the same size; streamed bodies use zlib-rs. Brotli is meant for
//! precompressed files: for JSON of 7 KB, gzip at level 6 reaches the size of Brotli's quality 4 in
//! a sixth of the time, and quality 5 takes ten times as long for 8 % less. So if a client prefers
//! both equally, gzip wins; a client that prefers brotli, or accepts only that, gets brotli.
//!
//! The compressed size reveals repetitions in a body. If a body contains both a secret and data
//! chosen by an attacker, the size can reveal the secret (the BREACH attack); so only bodies are
//! compressed whose handler requests it.

mod brotli;
mod gzip;
mod recycler;
mod reply;
mod stream;
#[cfg(test)]
mod tests;

pub use reply::BodyEncoding;
pub use stream::EncodingStream;

use crate::negotiate::{self, Encoding};

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingOptions {
    /// The level of gzip, 1 (fast) to 12 (small); streams use at most 9. 6 by default, as in zlib:
    /// higher levels gain little for their time.
    pub gzip_level: u8,
    /// The quality of brotli, 0 to 11. 5 by default, the lowest that makes JSON smaller than gzip
    /// does; it takes several times as long.
    pub brotli_quality: u8,
    /// Bodies below this many bytes are not compressed. 1024 by default: they fit into one packet
    /// with their head, compressed or not.
    pub size_min: usize,
}

impl Default for EncodingOptions {
    fn default() -> Self {
        Self {
            gzip_level: 6,
            brotli_quality: 5,
            size_min: 1024,
        }
    }
}

impl EncodingOptions {
    fn gzip_level(&self) -> u8 {
        self.gzip_level.clamp(1, 12)
    }

    fn brotli_quality(&self) -> u8 {
        self.brotli_quality.min(11)
    }
}

/// The codings for generated bodies; on a tie of the client's preferences, the first wins.
const OFFERS: [Encoding; 3] = [Encoding::Gzip, Encoding::Brotli, Encoding::Identity];

/// Chooses the coding of a generated body by the request's `Accept-Encoding`; `None` if the client
/// refuses all of them, even identity.
pub fn choose<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>) -> Option<Encoding> {
    negotiate::encoding(accept_encoding, &OFFERS)
}

/// Compresses whole bodies and reuses its memory; meant to be one per thread.
#[derive(Debug)]
pub struct Compressor {
    options: EncodingOptions,
    gzip: gzip::Buffered,
    /// A body before it is compressed.
    scratch: Vec<u8>,
}

impl Compressor {
    /// Creates a compressor.
    pub fn new(options: EncodingOptions) -> Self {
        Self {
            options,
            gzip: gzip::Buffered::new(options.gzip_level()),
            scratch: Vec::new(),
        }
    }

    /// Its options.
    pub fn options(&self) -> &EncodingOptions {
        &self.options
    }

    /// Appends `body` in a coding to `output`.
    pub fn compress(&mut self, encoding: Encoding, body: &[u8], output: &mut Vec<u8>) {
        match encoding {
            Encoding::Identity => output.extend_from_slice(body),
            Encoding::Gzip => self.gzip.compress(body, output),
            Encoding::Brotli => {
                let quality = self.options.brotli_quality();
                brotli::Encoder::new(quality, body.len()).finish(body, output);
            }
        }
    }

    /// Begins a body that is compressed in pieces.
    pub fn stream(&self, encoding: Encoding) -> EncodingStream {
        EncodingStream::new(encoding, &self.options)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new(EncodingOptions::default())
    }
}

/// Whether bodies of a content type are worth compressing; images, audio, video and archives are
/// compressed already.
pub fn is_compressible(content_type: &str) -> bool {
    let end = content_type.find(';').unwrap_or(content_type.len());
    let name = content_type[..end].trim_ascii_end();
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let ends_in = |suffix: &str| {
        let start = name.len().saturating_sub(suffix.len());
        name.as_bytes()[start..].eq_ignore_ascii_case(suffix.as_bytes())
    };
    let is_text = name
        .get(..5)
        .is_some_and(|main| main.eq_ignore_ascii_case("text/"));
    // A stream of events has to be flushed after each of them, which leaves little to compress.
    (is_text && !is("text/event-stream"))
        || ends_in("+json")
        || ends_in("+xml")
        || COMPRESSIBLE.iter().any(|other| is(other))
}

const COMPRESSIBLE: [&str; 17] = [
    "application/javascript",
    "application/json",
    "application/jsonl",
    "application/manifest",
    "application/msgpack",
    "application/vnd.msgpack",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];
