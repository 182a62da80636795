//! File metadata that distinguishes the states of a file without reading it.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

/// Files and their metadata at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FileStamps {
    files: Vec<PathBuf>,
    stamps: Vec<Option<FileStamp>>,
}

#[derive(Clone, Debug, PartialEq)]
struct FileStamp {
    size: u64,
    modified: Option<SystemTime>,
    /// On Unix the inode number and the time of the last status change, which tools cannot set
    /// back.
    identity: [i64; 4],
}

impl FileStamps {
    /// The current stamps of the files; a missing file has a stamp, too.
    pub(crate) fn of(files: Vec<PathBuf>) -> Self {
        let stamps = files
            .iter()
            .map(|file| fs::metadata(file).ok().map(|meta| mark(&meta)));
        let stamps = stamps.collect();
        Self { files, stamps }
    }

    /// The current stamps of the same files.
    pub(crate) fn refreshed(&self) -> Self {
        Self::of(self.files.clone())
    }

    /// These stamps, and the current stamps of further files.
    pub(crate) fn with(mut self, files: Vec<PathBuf>) -> Self {
        let new = files.into_iter().filter(|file| !self.files.contains(file));
        let new = Self::of(new.collect());
        self.files.extend(new.files);
        self.stamps.extend(new.stamps);
        self
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

fn mark(meta: &fs::Metadata) -> FileStamp {
    #[cfg(unix)]
    let identity = {
        use std::os::unix::fs::MetadataExt as _;
        [
            meta.dev().cast_signed(),
            meta.ino().cast_signed(),
            meta.ctime(),
            meta.ctime_nsec(),
        ]
    };
    #[cfg(not(unix))]
    let identity = [0; 4];
    FileStamp {
        size: meta.len(),
        modified: meta.modified().ok(),
        identity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_told_from_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.csv");
        let none = FileStamps::of(vec![file.clone()]);
        assert_eq!(none, none.refreshed());
        fs::write(&file, "a").unwrap();
        let first = none.refreshed();
        assert_ne!(none, first);
        assert_eq!(first, first.refreshed());
        let other = folder.path().join("other");
        fs::write(&other, "b").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(first, first.refreshed());
    }
}
