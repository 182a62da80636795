//! Files below a folder, and nothing outside of it.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::http_date;
use crate::{Error, Result};

/// A folder whose files may be served. The kernel resolves names beneath it, including links, so a
/// name that leads out of it is not found.
#[derive(Debug)]
pub(super) struct Folder {
    descriptor: OwnedFd,
}

/// An open file as it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    identity: Identity,
    /// The entity tag, with its quotes.
    pub(super) tag: String,
    /// Seconds since 1970.
    pub(super) modified: u64,
    pub(super) last_modified: [u8; http_date::SIZE],
}

/// Distinguishes the versions of a file. A file that is rewritten in place has other times; one
/// that replaces it has another inode, even with the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let descriptor = opened.map_err(|error| Error::unusable_folder(path, error.into()))?;
        let folder = Self { descriptor };
        match folder.open_beneath(Path::new("."), OFlags::PATH) {
            Ok(_) => Ok(folder),
            Err(error) => Err(Error::no_openat2(path, error.into())),
        }
    }

    fn open_beneath(&self, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(&self.descriptor, name, flags, Mode::empty(), resolve) {
                // Folders are being renamed concurrently.
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Opens a file; `None` if there is none that may be served.
    pub(super) fn file(&self, name: &Path) -> Option<OpenFile> {
        // A pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let descriptor = self.open_beneath(name, flags).ok()?;
        let stat = rustix::fs::fstat(&descriptor).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| OpenFile::new(descriptor.into(), &stat))
    }

    /// Whether a name still refers to the same unchanged file. A name that now leads out of the
    /// folder is only compared, never opened.
    pub(super) fn is_current(&self, name: &Path, file: &OpenFile) -> bool {
        let stat = rustix::fs::statat(&self.descriptor, name, AtFlags::empty());
        stat.is_ok_and(|stat| Identity::of(&stat) == file.identity)
    }

    /// Whether nothing is found under a name.
    pub(super) fn is_absent(&self, name: &Path) -> bool {
        rustix::fs::statat(&self.descriptor, name, AtFlags::empty()).is_err()
    }
}

impl OpenFile {
    fn new(file: File, stat: &Stat) -> Self {
        let identity = Identity::of(stat);
        // Short, and the same for all threads and restarts of one program.
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        let modified = u64::try_from(identity.modified.0).unwrap_or(0);
        Self {
            file: Arc::new(file),
            identity,
            tag: format!("\"{:016x}\"", hasher.finish()),
            modified,
            last_modified: http_date::format(modified),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.identity.size
    }

    /// Whether it has not become shorter.
    pub(super) fn is_as_long(&self) -> bool {
        let size = rustix::fs::fstat(&*self.file).map(|stat| stat.st_size);
        size.is_ok_and(|size| u64::try_from(size).unwrap_or(0) >= self.size())
    }

    /// Whether it was written after the other one, or at the same time.
    pub(super) fn is_as_new_as(&self, other: &Self) -> bool {
        self.identity.modified >= other.identity.modified
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        // The fields have other types on other machines.
        #[expect(clippy::unnecessary_cast, reason = "not on all machines")]
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }
}

/// A name with a suffix.
pub(super) fn with_end(name: &Path, end: &str) -> PathBuf {
    let mut longer = name.as_os_str().to_owned();
    longer.push(end);
    longer.into()
}
