//! Where the complete part of a file ends that a killed run has appended to.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use flate2::bufread::GzDecoder;

use crate::Compression;
use crate::content::COMPRESSED_BLOCK_SIZE;

/// How the records of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordEnds {
    /// At a newline.
    Lines,
    /// At a newline that is not within quotes.
    QuotedLines,
}

/// The end of the last complete record of a file, or of the last complete member if it is
/// compressed, which is `start` or later; `start` is the end of a record or a member.
pub(super) fn complete_size(
    file: &File,
    start: u64,
    compression: Compression,
    ends: RecordEnds,
) -> io::Result<u64> {
    match (compression, ends) {
        (Compression::Plain, RecordEnds::Lines) => last_newline(file, start),
        (Compression::Plain, RecordEnds::QuotedLines) => last_unquoted_newline(file, start),
        (Compression::Gzip, _) => last_member(file, start, |input| {
            io::copy(&mut GzDecoder::new(input), &mut io::sink())
        }),
        (Compression::Zstd, _) => last_member(file, start, |input| {
            io::copy(
                &mut zstd::Decoder::with_buffer(input)?.single_frame(),
                &mut io::sink(),
            )
        }),
    }
}

/// Searches backwards from the end of the file.
fn last_newline(file: &File, start: u64) -> io::Result<u64> {
    let mut buffer = [0; COMPRESSED_BLOCK_SIZE];
    let mut end = file.metadata()?.len();
    while end > start {
        let size = (end - start).min(buffer.len() as u64);
        let bytes = &mut buffer[..size as usize];
        file.read_exact_at(bytes, end - size)?;
        if let Some(index) = memchr::memrchr(b'\n', bytes) {
            return Ok(end - size + index as u64 + 1);
        }
        end -= size;
    }
    Ok(start)
}

/// Searches from the start, because only the quotes before a line end show whether it ends a record.
fn last_unquoted_newline(mut file: &File, start: u64) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut input = BufReader::with_capacity(COMPRESSED_BLOCK_SIZE, file);
    let (mut offset, mut complete, mut is_quoted) = (start, start, false);
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(complete);
        }
        for index in memchr::memchr2_iter(b'"', b'\n', bytes) {
            match bytes[index] {
                // A doubled quote changes nothing.
                b'"' => is_quoted = !is_quoted,
                _ if !is_quoted => complete = offset + index as u64 + 1,
                _ => {}
            }
        }
        let size = bytes.len();
        offset += size as u64;
        input.consume(size);
    }
}

/// Reads member after member until one is incomplete, or damaged.
fn last_member(
    mut file: &File,
    start: u64,
    mut skip: impl FnMut(&mut Counted<'_>) -> io::Result<u64>,
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(start))?;
    let mut input = Counted {
        inner: BufReader::with_capacity(COMPRESSED_BLOCK_SIZE, file),
        offset: start,
    };
    let mut complete = start;
    while !input.fill_buf()?.is_empty() {
        match skip(&mut input) {
            Ok(_) => complete = input.offset,
            // What follows cannot be read, nor could anything that is appended to it.
            Err(error) if is_damage(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(complete)
}

/// Whether an error of a decoder is about the bytes, not about reading them.
fn is_damage(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

/// A file that counts what was consumed of it.
struct Counted<'a> {
    inner: BufReader<&'a File>,
    offset: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = self.inner.read(room)?;
        self.offset += size as u64;
        Ok(size)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, size: usize) {
        self.inner.consume(size);
        self.offset += size as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Cuts a file at each byte, and expects the end of the last piece that is complete.
    fn check(name: &str, pieces: &[Vec<u8>], ends: RecordEnds) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let bytes = pieces.concat();
        let first = pieces[0].len();
        for cut in first..=bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            let file = File::open(&path).unwrap();
            let mut expected = 0;
            for piece in pieces {
                if expected + piece.len() <= cut {
                    expected += piece.len();
                } else {
                    break;
                }
            }
            for start in [0, first] {
                let compression = Compression::of_path(&path);
                let found = complete_size(&file, start as u64, compression, ends).unwrap();
                assert_eq!(found, expected as u64, "{name} cut at {cut} from {start}");
            }
        }
    }

    fn packed(compression: Compression, texts: &[&str]) -> Vec<Vec<u8>> {
        let mut compressor = compression.compressor().unwrap();
        let members = texts.iter().map(|text| {
            let mut bytes = text.as_bytes().to_vec();
            compressor.compress_member(&mut bytes).unwrap();
            bytes
        });
        members.collect()
    }

    #[test]
    fn the_complete_part_ends_before_the_cut() {
        let texts = ["one\n", "", "two and two\n", "three three three\n"];
        let lines: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        check("out", &lines, RecordEnds::Lines);
        check("out", &lines, RecordEnds::QuotedLines);
        let quoted = ["a,\"1\n2\"\n", "\"\",b\n", "\"\"\"\n\"\"\",\"c\"\n"];
        let quoted: Vec<_> = quoted.iter().map(|text| text.as_bytes().to_vec()).collect();
        check("out.csv", &quoted, RecordEnds::QuotedLines);
        for (name, compression) in [
            ("out.gz", Compression::Gzip),
            ("out.zst", Compression::Zstd),
        ] {
            check(name, &packed(compression, &texts), RecordEnds::Lines);
        }
    }

    /// Members and lines that are longer than a buffer.
    #[test]
    fn long_records_are_searched_whole() {
        let folder = tempfile::tempdir().unwrap();
        let random = |seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            (0..200_000).map(move |_| rng.alphanumeric())
        };
        let (first, second): (String, String) = (random(1).collect(), random(2).collect());
        let texts = [&*(first + "\n"), &*(second + "\n")];
        let lines: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        for (name, pieces) in [
            ("out", lines),
            ("out.gz", packed(Compression::Gzip, &texts)),
            ("out.zst", packed(Compression::Zstd, &texts)),
        ] {
            let path = folder.path().join(name);
            let bytes = pieces.concat();
            let compression = Compression::of_path(&path);
            for (cut, expected) in [
                (bytes.len(), bytes.len()),
                (bytes.len() - 1, pieces[0].len()),
                (pieces[0].len() + 1, pieces[0].len()),
                (pieces[0].len() - 1, 0),
            ] {
                fs::write(&path, &bytes[..cut]).unwrap();
                let file = File::open(&path).unwrap();
                let found = complete_size(&file, 0, compression, RecordEnds::Lines).unwrap();
                assert_eq!(found, expected as u64, "{name} cut at {cut}");
            }
        }
    }
}
