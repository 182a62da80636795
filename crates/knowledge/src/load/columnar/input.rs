//! The bytes of a file, which are read at any offset.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use super::super::source::{self, FilePosition};
use super::Damage;

/// The size limit of a file that is decompressed, in bytes. It is kept in memory while it is loaded,
/// because both formats are read at offsets.
const UNPACKED_SIZE_MAX: u64 = 4 << 30;

/// The bytes that a reader of small values reads at once.
const READ_SIZE: usize = 8 << 10;

/// A file, or its decompressed content.
#[derive(Clone)]
pub(in super::super) enum Input {
    File { file: Arc<File>, size: u64 },
    Memory(Bytes),
}

impl Input {
    /// Opens a file, and decompresses it if its name ends in a known suffix.
    pub(super) fn open(path: &Path) -> Result<Self, Damage> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        let is_packed = |suffix: &str| matches!(&*suffix.to_ascii_lowercase(), "gz" | "zst");
        if !suffix.is_some_and(is_packed) {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            return Ok(Self::File {
                file: Arc::new(file),
                size,
            });
        }
        let mut content = Vec::new();
        source::open(path, &Arc::<FilePosition>::default())?
            .take(UNPACKED_SIZE_MAX + 1)
            .read_to_end(&mut content)?;
        match content.len() as u64 > UNPACKED_SIZE_MAX {
            true => Err(Damage::Limit(format!(
                "the decompressed file has more than {UNPACKED_SIZE_MAX} bytes; decompress it"
            ))),
            false => Ok(Self::Memory(content.into())),
        }
    }

    /// The number of bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads bytes, all of which have to be in the file. Nothing is allocated if they are not.
    pub(super) fn bytes_at(&self, offset: u64, size: u64) -> io::Result<Bytes> {
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > self.size()) {
            let message = format!("{size} bytes at {offset} are beyond the end of the file");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        match self {
            Self::File { file, .. } => {
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes.into())
            }
            Self::Memory(bytes) => Ok(bytes.slice(offset as usize..(offset + size) as usize)),
        }
    }

    /// A reader from an offset to the end.
    pub(super) fn reader_at(&self, offset: u64) -> BufReader<InputReader> {
        let input = self.clone();
        BufReader::with_capacity(READ_SIZE, InputReader { input, offset })
    }
}

/// Reads an input from an offset to its end.
pub(in super::super) struct InputReader {
    input: Input,
    offset: u64,
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = match &self.input {
            Input::File { file, .. } => file.read_at(buffer, self.offset)?,
            Input::Memory(bytes) => {
                let begin = bytes.len().min(self.offset as usize);
                (&bytes[begin..]).read(buffer)?
            }
        };
        self.offset += size as u64;
        Ok(size)
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        self.size()
    }
}

impl ChunkReader for Input {
    type T = BufReader<InputReader>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.reader_at(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.bytes_at(start, length as u64)
            .map_err(|error| ParquetError::External(error.into()))
    }
}
