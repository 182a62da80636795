//! The contents of files, plain or compressed.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::bufread::MultiGzDecoder;

use crate::Progress;
use crate::compression::Compression;

/// The block size for reading compressed bytes, the size of a pipe.
pub(crate) const COMPRESSED_BLOCK_SIZE: usize = 64 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The compression of bytes that begin with `head`, if they are compressed.
pub(crate) fn compression_of_head(head: &[u8]) -> Option<Compression> {
    if head.starts_with(&GZIP_MAGIC) {
        Some(Compression::Gzip)
    } else if head.starts_with(&ZSTD_MAGIC) {
        Some(Compression::Zstd)
    } else {
        None
    }
}

/// The content of a regular file from its current position. Its first bytes take precedence over
/// its name, which suggests `by_name`: a rotated log may have any name. A `.gz` file that is not
/// gzip fails as gzip.
pub(crate) fn content(
    mut file: File,
    by_name: Compression,
    progress: &Progress,
) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
    (&mut file)
        .take(ZSTD_MAGIC.len() as u64)
        .read_to_end(&mut head)?;
    file.seek(SeekFrom::Current(-(head.len() as i64)))?;
    let compression = match head.is_empty() {
        true => Compression::Plain,
        false => compression_of_head(&head).unwrap_or(by_name),
    };
    let file = progress.counting(file);
    let buffered = |file| BufReader::with_capacity(COMPRESSED_BLOCK_SIZE, file);
    Ok(match compression {
        Compression::Plain => Box::new(file),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(file))),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(buffered(file))?),
    })
}
