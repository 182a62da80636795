//! Appending to a file that others may append to as well.
//!
//! A write can fail after a part of its bytes, for example if the disk is full, and others can have
//! appended behind that part by then. So the file is not cut back to a size that the run knows: the
//! position of a descriptor that appends is the end of its own last write, and from it follows which
//! bytes are to be withdrawn.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How many line ends are written at once over a part of a write.
const LINE_ENDS: [u8; 4096] = [b'\n'; 4096];

/// A write that failed.
pub(super) struct FailedWrite {
    pub(super) error: io::Error,
    /// Where a part of its bytes is in the file; several ranges if others have appended between.
    pub(super) pieces: Vec<Range<u64>>,
}

/// Appends all of these bytes, and returns where they end.
pub(super) fn append(mut file: &File, bytes: &[u8]) -> Result<u64, FailedWrite> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    loop {
        let error = match file.write(rest) {
            Ok(0) => ErrorKind::WriteZero.into(),
            Ok(count) => match file.stream_position() {
                Ok(end) if count == rest.len() => return Ok(end),
                Ok(end) => {
                    rest = &rest[count..];
                    pieces.push(end - count as u64..end);
                    continue;
                }
                Err(error) => error,
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        return Err(FailedWrite { error, pieces });
    }
}

/// Cuts off those pieces that nothing else is behind; the others stay in the list.
pub(super) fn cut_off(file: &File, pieces: &mut Vec<Range<u64>>) -> io::Result<()> {
    let mut size = file.metadata()?.len();
    while let Some(piece) = pieces.pop_if(|piece| piece.end == size) {
        file.set_len(piece.start)?;
        size = piece.start;
    }
    Ok(())
}

/// Replaces the pieces by line ends: empty lines, after which the lines of others begin.
pub(super) fn blank_out(file: &File, pieces: &[Range<u64>]) -> io::Result<()> {
    // Otherwise Linux would append, whatever the position is.
    let flags = fcntl_getfl(file)?;
    fcntl_setfl(file, flags - OFlags::APPEND)?;
    let blanked = pieces
        .iter()
        .cloned()
        .try_for_each(|piece| blank(file, piece));
    fcntl_setfl(file, flags)?;
    blanked
}

fn blank(file: &File, mut piece: Range<u64>) -> io::Result<()> {
    while !piece.is_empty() {
        let size = (piece.end - piece.start).min(LINE_ENDS.len() as u64);
        file.write_all_at(&LINE_ENDS[..size as usize], piece.start)?;
        piece.start += size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    #[test]
    fn what_a_failed_write_leaves_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let check = |content: &str, pieces: &[(u64, u64)], left: usize, expected: &str| {
            fs::write(&path, content).unwrap();
            let file = OpenOptions::new().append(true).open(&path).unwrap();
            let mut pieces: Vec<_> = pieces.iter().map(|(start, end)| *start..*end).collect();
            cut_off(&file, &mut pieces).unwrap();
            assert_eq!(pieces.len(), left, "{content}");
            blank_out(&file, &pieces).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
            append(&file, b"next\n").map_err(|it| it.error).unwrap();
            assert_eq!(
                fs::read_to_string(&path).unwrap(),
                format!("{expected}next\n")
            );
        };
        check("a\n", &[], 0, "a\n");
        check("a\nours", &[(2, 6)], 0, "a\n");
        check("a\nou", &[(2, 3), (3, 4)], 0, "a\n");
        check("a\noursb\n", &[(2, 6)], 1, "a\n\n\n\n\nb\n");
        // The second piece is at the end, the first one is not.
        check("a\nouc\nrs", &[(2, 4), (6, 8)], 1, "a\n\n\nc\n");
        let long = "x".repeat(10_000) + "b\n";
        let blank = "\n".repeat(10_000) + "b\n";
        check(&long, &[(0, 10_000)], 1, &blank);
    }

    #[test]
    fn the_end_of_a_write_is_behind_what_others_have_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let open = || {
            let mut options = OpenOptions::new();
            options.append(true).create(true).open(&path).unwrap()
        };
        let (own, other) = (open(), open());
        for (file, text, expected) in [(&own, "a\n", 2), (&other, "bcd\n", 6), (&own, "e\n", 8)] {
            let end = append(file, text.as_bytes()).map_err(|it| it.error);
            assert_eq!(end.unwrap(), expected);
        }
    }
}
