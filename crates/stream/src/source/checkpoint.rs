//! Checkpoints: how far a followed file was read and written, for the next run.
//!
//! ```text
//! lookaside checkpoint 4: device 2049 inode 1442 born 1769846400000000000 seen 1769846461000000000
//!     offset 51200 line 403 read 51222 head 3632233996 tail 4187224165
//!     ended 0 out-device 2049 out-inode 1443 out-born 1769846400000000000 out-size 73000
//!     reject-device 0 reject-inode 0 reject-born 0 reject-size 0 file "app.log"
//! ```
//!
//! `born` and `seen` are times in nanoseconds since 1970: when the file was created, and when the
//! followed path last referred to it. `read` bytes of the file were read, which may end within a
//! record; `head` and `tail` are the CRC-32 of the first and of the last 4 KiB of them. Then follow the
//! output file and that of the rejects, with their sizes up to which they belong to what was read; all
//! of its numbers are 0 for an output that is not a file. `ended` is 1 if the run has ended since: then
//! it has written nothing behind these sizes.
//!
//! It is one line of a fixed size, written in place by one system call after each batch that was
//! written: a killed process leaves the old line or the new one. (A power failure may leave
//! neither.)

use std::fmt::Write as _;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::file_identity::{FilePosition, Identity};
use crate::mark::{Mark, numbers};
use crate::{Error, Result};

/// How far the files of the outputs belong to a [`Mark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputPositions {
    /// `None` if the output is not a file that is appended to.
    pub(crate) output: Option<FilePosition>,
    /// As `output`, for the rejects.
    pub(crate) rejects: Option<FilePosition>,
    /// Whether the run has ended, so that nothing of it is behind these positions.
    pub(crate) is_ended: bool,
}

/// A file that stores the [`Mark`] of a followed file, and the sizes of the output files there.
///
/// ```
/// use lookaside_stream::Checkpoint;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("app.checkpoint");
/// let checkpoint = Checkpoint::open(&path, "app.log".as_ref())?;
/// assert_eq!(checkpoint.mark(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    name: String,
    /// The name of the followed file without its folder, in quotes.
    followed: String,
    file: File,
    mark: Option<Mark>,
    outputs: OutputPositions,
    /// The text that is stored, reused.
    text: String,
}

/// The fixed size without the name of the file: fits 15 numbers of 20 digits, two of 10, one of 1 and
/// the words between them.
const SIZE: usize = 584;

/// The longest line: file names have up to 255 bytes, and an escaped one has up to four times as many.
/// Less than a page, so that a killed process does not leave half of it.
const SIZE_MAX: u64 = 2000;

/// The names of the numbers of the outputs.
const OUTPUT_WORDS: [&str; 9] = [
    "ended",
    "out-device",
    "out-inode",
    "out-born",
    "out-size",
    "reject-device",
    "reject-inode",
    "reject-born",
    "reject-size",
];
const HEAD: &str = "lookaside checkpoint 4:";
const FILE: &str = " file ";

impl Checkpoint {
    /// Opens or creates the checkpoint for the file that is followed under the path `followed`, and
    /// locks it against other runs.
    ///
    /// # Errors
    /// When it cannot be written, another run uses it, it is the checkpoint of a file with another
    /// name, or it is not a checkpoint.
    pub fn open(path: &Path, followed: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let followed = format!("{:?}", followed.file_name().unwrap_or_default());
        let cannot = |error| Error::open_checkpoint(&name, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::checkpoint_in_use(&name)),
            // The file system does not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let mut bytes = Vec::new();
        let mut content = (&file).take(SIZE_MAX);
        content.read_to_end(&mut bytes).map_err(cannot)?;
        let (mark, outputs) = match bytes.is_empty() {
            true => (None, OutputPositions::default()),
            false => {
                let (mark, outputs, found) =
                    parse(&bytes).ok_or_else(|| Error::no_checkpoint(&name))?;
                if found != followed {
                    return Err(Error::checkpoint_of_another(&name, found, &followed));
                }
                (Some(mark), outputs)
            }
        };
        Ok(Self {
            name,
            followed,
            file,
            mark,
            outputs,
            text: String::new(),
        })
    }

    /// The mark of the previous run.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// How far the outputs of the previous run belong to its mark.
    pub(crate) fn outputs(&self) -> OutputPositions {
        self.outputs
    }

    /// The file of the checkpoint, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the mark and the positions of the outputs.
    pub(crate) fn store(&mut self, mark: Mark, outputs: OutputPositions) -> Result<()> {
        if (self.mark, self.outputs) == (Some(mark), outputs) {
            return Ok(());
        }
        self.text.clear();
        format(mark, outputs, &self.followed, &mut self.text);
        let written = self.file.write_all_at(self.text.as_bytes(), 0);
        written.map_err(|error| Error::write_checkpoint(&self.name, error))?;
        (self.mark, self.outputs) = (Some(mark), outputs);
        Ok(())
    }
}

/// Appends the line of a checkpoint.
fn format(mark: Mark, outputs: OutputPositions, followed: &str, text: &mut String) {
    let [output, rejects] = [outputs.output, outputs.rejects].map(|position| match position {
        Some(FilePosition { identity, size }) => {
            [identity.device, identity.inode, identity.born, size]
        }
        None => [0; 4],
    });
    text.push_str(HEAD);
    // Writing to a string does not fail.
    let _ = write!(text, " {mark}");
    let ended = std::iter::once(u64::from(outputs.is_ended));
    let numbers = ended.chain(output).chain(rejects);
    for (word, number) in OUTPUT_WORDS.into_iter().zip(numbers) {
        let _ = write!(text, " {word} {number}");
    }
    text.push_str(FILE);
    text.push_str(followed);
    let missing = (SIZE + followed.len() - 1).saturating_sub(text.len());
    text.extend(std::iter::repeat_n(' ', missing));
    text.push('\n');
}

/// The mark, the positions of the outputs, and the name of the mark's file.
fn parse(bytes: &[u8]) -> Option<(Mark, OutputPositions, &str)> {
    let text = str::from_utf8(bytes).ok()?;
    let (place, followed) = text.strip_prefix(HEAD)?.split_once(FILE)?;
    let followed = followed.strip_suffix('\n')?.trim_end_matches(' ');
    if text.len() != SIZE + followed.len() {
        return None;
    }
    let mut words = place.split_whitespace();
    let mark = Mark::read(&mut words)?;
    let [
        ended,
        out_device,
        out_inode,
        out_born,
        out_size,
        device,
        inode,
        born,
        size,
    ] = numbers(OUTPUT_WORDS, &mut words)?;
    let outputs = OutputPositions {
        output: position(out_device, out_inode, out_born, out_size),
        rejects: position(device, inode, born, size),
        is_ended: ended == 1,
    };
    words.next().is_none().then_some((mark, outputs, followed))
}

/// The position in an output file; no file has the inode 0.
fn position(device: u64, inode: u64, born: u64, size: u64) -> Option<FilePosition> {
    let identity = Identity {
        device,
        inode,
        born,
    };
    (inode > 0).then_some(FilePosition { identity, size })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::fingerprint::Fingerprint;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let followed = Path::new("logs/a file \n\u{1f4dc}.log");
        let mut mark = Mark {
            identity: Identity {
                device: u64::MAX,
                inode: u64::MAX,
                born: u64::MAX,
            },
            seen: SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::MAX),
            offset: u64::MAX,
            line: u64::MAX,
            read: Fingerprint {
                size: u64::MAX,
                head: u32::MAX,
                tail: u32::MAX,
            },
        };
        let longest = FilePosition {
            identity: mark.identity,
            size: u64::MAX,
        };
        let mut outputs = OutputPositions {
            output: Some(longest),
            rejects: Some(longest),
            is_ended: true,
        };
        let mut checkpoint = Checkpoint::open(&path, followed).unwrap();
        checkpoint.store(mark, outputs).unwrap();
        (mark.identity.inode, mark.offset, mark.line) = (1, 2, 3);
        checkpoint.store(mark, outputs).unwrap();
        outputs.output = None;
        outputs.rejects = Some(FilePosition { size: 4, ..longest });
        checkpoint.store(mark, outputs).unwrap();
        let in_use = Checkpoint::open(&path, followed).unwrap_err().to_string();
        assert!(in_use.contains("another run"), "{in_use}");
        drop(checkpoint);
        let read = Checkpoint::open(&path, followed).unwrap();
        assert_eq!((read.mark(), read.outputs()), (Some(mark), outputs));
        drop(read);
        assert_eq!(mark.to_string().parse::<Mark>().unwrap(), mark);
        let wrong = format!("{mark} more").parse::<Mark>().unwrap_err();
        assert!(wrong.to_string().contains("is not a position"), "{wrong}");
        let another = Checkpoint::open(&path, Path::new("logs/b.log"));
        let another = another.unwrap_err().to_string();
        assert!(another.contains("\"b.log\""), "{another}");
        let line = || {
            let mut line = String::new();
            format(mark, outputs, "\"log\"", &mut line);
            line
        };
        for wrong in [
            "x".to_owned(),
            line().replace("line", "lime"),
            line().replace("head 4294967295", "head 4294967296"),
            line().replace("line 3", "line 4"),
            line()
                .replace("offset 2 ", "offset 9 ")
                .replace(&format!("read {}", u64::MAX), &format!("read {:<20}", 8)),
            line().replace("reject-size 4 ", "reject-size x "),
            "lookaside checkpoint 1: device 1 inode 2 offset 3 line 4 file \"log\"\n".to_owned(),
            line() + "x",
            line().replace(" \n", "\n"),
        ] {
            fs::write(&path, wrong).unwrap();
            let error = Checkpoint::open(&path, followed).unwrap_err().to_string();
            assert!(error.contains("is not a checkpoint of"), "{error}");
        }
    }
}
