//! Bodies compressed while somebody waits for them.
//!
//! A whole body as gzip goes through libdeflate, which has it in two thirds of the time that a
//! streaming deflate takes at the same size; a body that comes in pieces goes through zlib-rs.
//! Brotli is the coding of files that were compressed beforehand: for JSON of 7 KB its quality 4
//! gives what gzip gives at level 6 in a sixth of the time, and quality 5 takes ten times as long
//! for 8 % less. So where a client likes both the same, a body made for it goes as gzip; one who
//! names brotli first, or alone, gets brotli.
//!
//! Compression tells how much a body resembles itself. Where it repeats what a stranger has sent
//! beside a secret, the size gives the secret away (the BREACH attack); so nothing is compressed
//! that a handler did not ask to be.

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
    /// Of gzip, 1 (fast) to 12 (small); streams take 9 for what is above. 6 by default, as zlib has it:
    /// what is gained beyond costs more and more time.
    pub gzip_level: u8,
    /// Of brotli, 0 to 11. 5 by default, the first that makes JSON smaller than gzip does; it
    /// takes several times as long.
    pub brotli_quality: u8,
    /// Bodies below this many bytes are left as they are. 1024 by default: they fill one packet
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

/// What a body made for a request is offered in, the first where the client likes all the same.
const OFFERS: [Encoding; 3] = [Encoding::Gzip, Encoding::Brotli, Encoding::Identity];

/// The coding in which a body made for a request goes out, by the request's `Accept-Encoding`;
/// `None` if the client refuses all of them, even the body as it is.
pub fn choose<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>) -> Option<Encoding> {
    negotiate::encoding(accept_encoding, &OFFERS)
}

/// Compresses whole bodies, one after another, with memory that it keeps. One a thread.
#[derive(Debug)]
pub struct Compressor {
    options: EncodingOptions,
    gzip: gzip::Buffered,
    /// A body before it is compressed.
    scratch: Vec<u8>,
}

impl Compressor {
    /// One that works so.
    pub fn new(options: EncodingOptions) -> Self {
        Self {
            options,
            gzip: gzip::Buffered::new(options.gzip_level()),
            scratch: Vec::new(),
        }
    }

    /// How it works.
    pub fn options(&self) -> &EncodingOptions {
        &self.options
    }

    /// Appends `body` in that coding to `output`.
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

    /// A body that will come in pieces.
    pub fn stream(&self, encoding: Encoding) -> EncodingStream {
        EncodingStream::new(encoding, &self.options)
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new(EncodingOptions::default())
    }
}

/// Whether compression makes bodies of a type smaller; images, sound, films and archives are
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
