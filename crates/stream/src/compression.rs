//! Compression of output, per chunk, in the workers.
//!
//! Each chunk becomes a separate gzip member or zstd frame. Both formats define that concatenated
//! members are one file, so all cores compress, and the output of a stopped run is a valid file.
//! Chunks are far larger than gzip's 32 KiB window; the cost is about 20 bytes per chunk.

use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;

/// zstd's default: for text such as logs, higher levels cost disproportionately more time.
const ZSTD_LEVEL: i32 = 3;

/// How a sink's bytes are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    #[default]
    Plain,
    /// gzip, with a member for each chunk.
    Gzip,
    /// zstd, with a frame for each chunk.
    Zstd,
}

impl Compression {
    /// The compression that the suffix of a file name selects: `.gz`, `.zst`, or none;
    /// case-insensitive.
    pub fn of_path(path: &Path) -> Self {
        let is = |suffix: &str| {
            let found = path.extension();
            found.is_some_and(|found| found.eq_ignore_ascii_case(suffix))
        };
        if is("gz") {
            Self::Gzip
        } else if is("zst") {
            Self::Zstd
        } else {
            Self::Plain
        }
    }

    /// A compressor for chunks; each worker has its own.
    pub(crate) fn compressor(self) -> io::Result<Compressor> {
        let codec = match self {
            Self::Plain => Codec::Plain,
            Self::Gzip => Codec::Gzip,
            Self::Zstd => Codec::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        let spare = Vec::new();
        Ok(Compressor { codec, spare })
    }
}

/// Compresses chunks; belongs to one worker.
pub(crate) struct Compressor {
    codec: Codec,
    /// An empty buffer, reused for the next compressed chunk.
    spare: Vec<u8>,
}

enum Codec {
    Plain,
    Gzip,
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// Replaces bytes by their compressed form; empty input stays empty.
    pub(crate) fn compress(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        if !bytes.is_empty() {
            self.compress_member(bytes)?;
        }
        Ok(())
    }

    /// Replaces bytes, even if empty, by a complete member: an empty file is not a gzip file.
    pub(crate) fn compress_member(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.codec {
            Codec::Plain => return Ok(()),
            Codec::Gzip => {
                let mut encoder = GzEncoder::new(&mut self.spare, flate2::Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()?;
            }
            Codec::Zstd(compressor) => {
                let size_max = zstd::zstd_safe::compress_bound(bytes.len());
                self.spare.reserve(size_max);
                compressor.compress_to_buffer(bytes, &mut self.spare)?;
            }
        }
        std::mem::swap(bytes, &mut self.spare);
        self.spare.clear();
        Ok(())
    }
}
