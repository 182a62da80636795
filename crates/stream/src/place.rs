//! Which file an input or an output is, to notice when two of them are one.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A regular file, however its path is spelled. Pipes and devices have none: reading and writing
/// one terminal is in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Device and inode.
    Existing(u64, u64),
    /// Where a file will appear, its folder resolved.
    Ahead(PathBuf),
}

impl Place {
    pub(crate) fn of_metadata(metadata: &Metadata) -> Option<Self> {
        let is_file = metadata.is_file();
        is_file.then(|| Self::Existing(metadata.dev(), metadata.ino()))
    }

    /// The place of a path, whether or not its file is there yet.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        if let Ok(metadata) = fs::metadata(path) {
            return Self::of_metadata(&metadata);
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = fs::canonicalize(folder).ok()?;
        Some(Self::Ahead(folder.join(path.file_name()?)))
    }
}
