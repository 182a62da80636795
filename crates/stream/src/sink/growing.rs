//! A file that grows by complete batches, and is continued by the next run.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::append::{FailedWrite, append, blank_out, cut_off};
use super::last_write::{mark, unmark};
use super::rotation::Rotation;
use super::{Begin, SinkTarget};
use crate::content::content;
use crate::file_identity::{FileIdentity, FilePosition, Identity, identity};
use crate::rotated_name::RotatedName;
use crate::{Compression, Progress, Result};

/// The number of bytes that are read from a file that is appended to, for the columns in its first
/// record.
const FIRST_SIZE_MAX: u64 = 64 << 10;

/// A file that grows by complete batches; of a batch that was written in part, nothing is left.
pub(super) struct GrowingFile {
    pub(super) file: File,
    /// Whether it was created, and no run has begun with it.
    is_new: bool,
    pub(super) identity: Identity,
    pub(super) path: PathBuf,
    /// The size before the run, or that of the next file when it was begun.
    size_before: u64,
    /// The end of the last write of this run; other programs may have appended behind it.
    pub(super) size: u64,
    /// Whether the previous content ends within a line, so that a line end must be written first.
    pub(super) owes_line_end: bool,
    /// Whether no other run can append to the file meanwhile.
    pub(super) is_locked: bool,
    /// Whether writes are marked, which not every file system supports.
    are_writes_marked: bool,
    /// Whether a part of a batch is in the file, which could not be removed.
    is_torn: bool,
    /// The bytes with which each file begins.
    header: Vec<u8>,
    /// Whether the header is written before the next batch.
    is_header_pending: bool,
    pub(super) rotation: Option<Rotation>,
    /// Whether it has more than a header.
    pub(super) has_events: bool,
    /// When it is rotated, if it is at certain times.
    pub(super) due: Option<SystemTime>,
    /// The name of the last file that was rotated.
    pub(super) rotated: Option<RotatedName>,
}

impl GrowingFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            // Also a symbolic link without its target.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).open(path)?, false)
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            is_new,
            identity: identity(&metadata),
            path: path.to_path_buf(),
            size_before: metadata.len(),
            size: metadata.len(),
            owes_line_end: false,
            is_locked: false,
            are_writes_marked: true,
            is_torn: false,
            header: Vec::new(),
            is_header_pending: false,
            rotation: None,
            has_events: false,
            due: None,
            rotated: None,
        })
    }

    /// Locks the file against other runs; `false` if one appends to it.
    pub(super) fn try_lock(&mut self) -> bool {
        self.is_locked = match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => false,
            // On a file system that does not support locks, the file is taken to be of this run.
            Ok(()) | Err(TryLockError::Error(_)) => true,
        };
        self.is_locked
    }

    /// Continues with the content of the file as it is, up to `size`, which is shorter if it was cut.
    pub(super) fn continue_from(&mut self, size: u64) -> io::Result<()> {
        self.size = size;
        self.size_before = size;
        self.has_events = size > 0 && self.has_content()?;
        if let (Some(rotation), true) = (&self.rotation, self.has_events) {
            self.due = rotation.due_after(self.file.metadata()?.modified()?);
        }
        if self.is_locked {
            unmark(&self.file);
        }
        Ok(())
    }

    /// Whether the file is not only an empty member.
    fn has_content(&self) -> io::Result<bool> {
        Ok(match Compression::of_path(&self.path) {
            Compression::Plain => true,
            Compression::Gzip | Compression::Zstd => self.content()?.read(&mut [0])? > 0,
        })
    }

    fn content(&self) -> io::Result<Box<dyn Read + Send>> {
        // Opened again, because the current descriptor is at the end and appends.
        content(
            File::open(&self.path)?,
            Compression::of_path(&self.path),
            &Progress::new(),
        )
    }

    /// Continues with the next file, which is empty.
    pub(super) fn begin_next(&mut self, file: File) -> io::Result<()> {
        self.end_writes();
        self.identity = identity(&file.metadata()?);
        self.file = file;
        self.size_before = 0;
        self.size = 0;
        self.has_events = false;
        self.due = None;
        self.is_header_pending = !self.header.is_empty();
        if !self.try_lock() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(())
    }

    /// Nothing is written to the file any more, which does not end within a write.
    fn end_writes(&self) {
        if self.are_writes_marked && !self.is_torn {
            unmark(&self.file);
        }
    }

    /// Appends all of these bytes or none.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.are_writes_marked = self.are_writes_marked && mark(&self.file, bytes)?;
        match append(&self.file, bytes) {
            Ok(end) => {
                self.size = end;
                Ok(())
            }
            Err(FailedWrite { error, pieces }) => {
                // Only the first error is reported.
                self.is_torn = !self.withdraw(pieces).unwrap_or(false);
                Err(error)
            }
        }
    }

    /// Removes what a failed write has left, and nothing that others have appended; `false` if a
    /// part of it stays.
    fn withdraw(&mut self, mut pieces: Vec<Range<u64>>) -> io::Result<bool> {
        // Nothing is cut off while another run can append.
        if self.is_locked || self.try_lock() {
            cut_off(&self.file, &mut pieces)?;
        }
        // In a compressed file, there is nothing that a reader would skip.
        if Compression::of_path(&self.path) != Compression::Plain {
            return Ok(pieces.is_empty());
        }
        blank_out(&self.file, &pieces)?;
        Ok(true)
    }

    /// Removes a file that no run has begun with, unless something else has written to it, or
    /// another run has begun. An error is ignored: an empty file stays.
    fn remove(&mut self) {
        let is_empty = self.file.metadata().is_ok_and(|it| it.len() == 0);
        let has_name = fs::metadata(&self.path).is_ok_and(|it| identity(&it) == self.identity);
        if is_empty && has_name && self.try_lock() {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Before the first events of a file.
    fn begin_events(&mut self) {
        self.has_events = true;
        if let Some(rotation) = &self.rotation {
            self.due = rotation.due_after(SystemTime::now());
        }
    }
}

impl SinkTarget for GrowingFile {
    fn begin(&mut self, begin: &Begin<'_>) -> Result<()> {
        self.continue_previous(begin)?;
        self.is_new = false;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.owes_line_end {
            // Not earlier, so that a refused run does not change the file.
            self.append(b"\n")?;
            self.owes_line_end = false;
        }
        if self.is_header_pending {
            let header = std::mem::take(&mut self.header);
            let written = self.append(&header);
            self.header = header;
            written?;
            self.is_header_pending = false;
        }
        self.append(bytes)?;
        // The header of the first file is written like events.
        if !self.has_events && bytes != self.header {
            self.begin_events();
        }
        Ok(())
    }

    fn set_header(&mut self, header: &[u8]) {
        self.header = header.to_vec();
    }

    fn set_without_events(&mut self) {
        self.has_events = false;
    }

    fn first_bytes(&self) -> io::Result<Option<Vec<u8>>> {
        if self.size_before == 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.content()?
            .take(FIRST_SIZE_MAX)
            .read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn position(&self) -> Option<FilePosition> {
        Some(FilePosition {
            identity: self.identity,
            size: self.size,
        })
    }

    fn set_rotation(&mut self, rotation: Rotation) {
        self.rotation = Some(rotation);
    }

    fn is_rotation_due(&self, size: usize, now: SystemTime) -> bool {
        self.is_due(size, now)
    }

    fn next_rotation(&self) -> Option<SystemTime> {
        self.due.filter(|_| self.has_events)
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        GrowingFile::rotate(self, now)
    }

    fn remove_old(&self, is_in_use: &dyn Fn(&FileIdentity) -> bool) -> Option<String> {
        GrowingFile::remove_old(self, is_in_use)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for GrowingFile {
    fn drop(&mut self) {
        self.end_writes();
        if self.is_new {
            self.remove();
        }
    }
}
