//! The contents of files, plain or compressed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::Progress;
use crate::compression::Compression;

/// Compressed bytes are read in blocks of this size, as large as a pipe.
const COMPRESSED_BLOCK_SIZE: usize = 64 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of a regular file. What its first bytes say counts more than its name: a rotated
/// log may be called anything, and a `.gz` that is none fails as gzip.
pub(crate) fn content(
    mut file: File,
    path: &Path,
    progress: &Progress,
) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(ZSTD_MAGIC.len());
    (&mut file)
        .take(ZSTD_MAGIC.len() as u64)
        .read_to_end(&mut magic)?;
    file.rewind()?;
    let compression = match magic.as_slice() {
        [] => Compression::Plain,
        magic if magic.starts_with(&GZIP_MAGIC) => Compression::Gzip,
        magic if magic == ZSTD_MAGIC => Compression::Zstd,
        _ => Compression::of_path(path),
    };
    let file = progress.counting(file);
    let buffered = |file| BufReader::with_capacity(COMPRESSED_BLOCK_SIZE, file);
    Ok(match compression {
        Compression::Plain => Box::new(file),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(file))),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(buffered(file))?),
    })
}
