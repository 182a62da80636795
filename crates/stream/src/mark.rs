//! Positions in followed files.

use std::fmt;
use std::fs::Metadata;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::file_identity::{Identity, identity, nanoseconds};
use crate::fingerprint::{Fingerprint, History};
use crate::{Error, Result};

/// The names of the numbers of a mark.
const MARK_WORDS: [&str; 9] = [
    "device", "inode", "born", "seen", "offset", "line", "read", "head", "tail",
];

/// The position up to which a followed file was read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The file.
    pub(crate) identity: Identity,
    /// When the followed path last referred to it, as far as known.
    pub(crate) seen: SystemTime,
    /// The offset of the next byte.
    pub(crate) offset: u64,
    /// The line that begins there, counted from 1.
    pub(crate) line: u64,
    /// The fingerprint of what was read of the file: up to the offset, and maybe more.
    pub(crate) read: Fingerprint,
}

impl Mark {
    /// The first byte of a file with this metadata; `None` if the system does not tell when it was
    /// modified.
    pub fn at_start(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            identity: identity(metadata),
            seen: metadata.modified().ok()?,
            offset: 0,
            line: 1,
            read: History::default().fingerprint(),
        })
    }

    /// The position `size` bytes earlier, where `line` begins.
    pub(crate) fn before(self, size: usize, line: u64) -> Self {
        Self {
            offset: self.offset - size as u64,
            line,
            ..self
        }
    }
}

/// The numbers of the mark, each after its name; [`FromStr`] reads them.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            self.identity.device,
            self.identity.inode,
            self.identity.born,
            nanoseconds(self.seen),
            self.offset,
            self.line,
            self.read.size,
            self.read.head.into(),
            self.read.tail.into(),
        ];
        for (index, (word, number)) in MARK_WORDS.into_iter().zip(numbers).enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{word} {number}")?;
        }
        Ok(())
    }
}

impl FromStr for Mark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let mark = Self::read(&mut words).filter(|_| words.next().is_none());
        mark.ok_or_else(|| Error::no_mark(text))
    }
}

impl Mark {
    /// The mark of these words.
    pub(crate) fn read<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let [device, inode, born, seen, offset, line, size, head, tail] =
            numbers(MARK_WORDS, words)?;
        let mark = Mark {
            identity: Identity {
                device,
                inode,
                born,
            },
            seen: SystemTime::UNIX_EPOCH + Duration::from_nanos(seen),
            offset,
            line,
            read: Fingerprint {
                size,
                head: head.try_into().ok()?,
                tail: tail.try_into().ok()?,
            },
        };
        // Each line has at least one byte, so a valid mark satisfies this.
        let is_place = offset <= size && line.checked_sub(1)? <= offset;
        is_place.then_some(mark)
    }
}

/// The numbers after these words.
pub(crate) fn numbers<'a, const N: usize>(
    names: [&str; N],
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for (word, number) in names.into_iter().zip(&mut numbers) {
        words.next().filter(|found| *found == word)?;
        *number = words.next()?.parse().ok()?;
    }
    Some(numbers)
}
