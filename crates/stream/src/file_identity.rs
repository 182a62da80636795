//! The identity of an input or output file, to detect that two of them are the same.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = fs::canonicalize(folder).ok()?;
        Some(Self::Ahead(folder.join(path.file_name()?)))
    }
}
