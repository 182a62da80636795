//! Fingerprints of what was read of a growing file, to detect other content.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use flate2::Crc;

/// The number of bytes that are compared at the beginning and at the end of what was read: many log
/// lines with their times.
const WINDOW_SIZE: usize = 4 << 10;

/// The size of what was read of a file, and the CRC-32 of its first and last bytes.
///
/// It detects accidental changes, not deliberate ones. CRC-32 is part of flate2, which is already a
/// dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) size: u64,
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

/// The beginning and the end of what was read of a file.
#[derive(Debug, Default)]
pub(crate) struct History {
    size: u64,
    /// The CRC-32 of the first bytes.
    head: Crc,
    /// The last bytes.
    tail: Vec<u8>,
}

impl History {
    /// The history of the first `size` bytes of a file; `None` if it has fewer.
    pub(crate) fn of(file: &File, size: u64) -> io::Result<Option<Self>> {
        if file.metadata()?.len() < size {
            return Ok(None);
        }
        let window = size.min(WINDOW_SIZE as u64);
        let mut bytes = vec![0; window as usize];
        let mut history = Self {
            size,
            ..Self::default()
        };
        if !read_at(file, &mut bytes, 0)? {
            return Ok(None);
        }
        history.head.update(&bytes);
        let is_there = read_at(file, &mut bytes, size - window)?;
        history.tail = bytes;
        Ok(is_there.then_some(history))
    }

    /// The number of bytes that were read.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes that were read after the previous ones.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let missing = (WINDOW_SIZE as u64).saturating_sub(self.size);
        let missing = usize::try_from(missing).unwrap_or(WINDOW_SIZE);
        self.head.update(&bytes[..bytes.len().min(missing)]);
        self.size += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(WINDOW_SIZE)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(WINDOW_SIZE);
        self.tail.drain(..excess);
        self.tail.extend_from_slice(kept);
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut tail = Crc::new();
        tail.update(&self.tail);
        Fingerprint {
            size: self.size,
            head: self.head.sum(),
            tail: tail.sum(),
        }
    }

    /// Whether the file still has, at the end of what was read, the same bytes.
    pub(crate) fn ends_in(&self, file: &File) -> io::Result<bool> {
        let mut found = [0; WINDOW_SIZE];
        let found = &mut found[..self.tail.len()];
        let start = self.size - found.len() as u64;
        Ok(read_at(file, found, start)? && found == self.tail)
    }
}

/// Fills `bytes`; `false` if the file ends earlier.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_read_in_pieces_has_the_fingerprint_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let bytes: Vec<u8> = (0..20_000_u32).map(|index| (index % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        for piece in [1, 7, 4095, 4096, 4097, 20_000] {
            let mut history = History::default();
            for bytes in bytes.chunks(piece) {
                history.push(bytes);
                let read = History::of(&file, history.size()).unwrap().unwrap();
                assert_eq!(history.fingerprint(), read.fingerprint());
                assert!(history.ends_in(&file).unwrap());
            }
        }
        for size in [20_001, u64::MAX] {
            assert!(History::of(&file, size).unwrap().is_none());
        }
        let whole = History::of(&file, 20_000).unwrap().unwrap();
        for index in [0, 4095, 20_000 - 4096, 19_999] {
            let mut other = bytes.clone();
            other[index] ^= 1;
            fs::write(&path, &other).unwrap();
            let read = History::of(&file, 20_000).unwrap().unwrap();
            assert_ne!(read.fingerprint(), whole.fingerprint(), "{index}");
        }
    }
}
