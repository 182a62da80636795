//! The identity of an input or output file: to detect that two of them are the same, and to find it
//! after it was renamed.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When it was created, in nanoseconds since 1970, or 0 if the file system does not store it:
    /// then a file with the inode of a removed one is taken for that.
    pub(crate) born: u64,
}

/// The identity of the file with this metadata.
pub(crate) fn identity(metadata: &Metadata) -> Identity {
    Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        born: metadata.created().map_or(0, nanoseconds),
    }
}

/// A time in nanoseconds since 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// An output file, and how many bytes of it belong to what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    pub(crate) identity: Identity,
    /// In bytes.
    pub(crate) size: u64,
}

/// A regular file, independent of the spelling of its path. Pipes and devices have none: reading
/// and writing the same terminal is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileIdentity {
    /// Device and inode.
    Existing(u64, u64),
    /// The path of a file that does not exist yet, with its folder resolved.
    Ahead(PathBuf),
}

impl FileIdentity {
    pub(crate) fn of_metadata(metadata: &Metadata) -> Option<Self> {
        let is_file = metadata.is_file();
        is_file.then(|| Self::Existing(metadata.dev(), metadata.ino()))
    }

    /// The place of a path, whether or not its file exists yet.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        if let Ok(metadata) = fs::metadata(path) {
            return Self::of_metadata(&metadata);
        }
        let folder = fs::canonicalize(folder_of(path)).ok()?;
        Some(Self::Ahead(folder.join(path.file_name()?)))
    }
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
