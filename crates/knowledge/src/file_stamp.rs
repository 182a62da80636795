//! File metadata that distinguishes the states of a file without reading it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::download::UrlFile;
use crate::file_pattern::FilePattern;

/// Files and their metadata at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FileStamps {
    files: Vec<Watched>,
    stamps: Vec<Stamp>,
}

/// What is watched: a file, or all files that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    File(PathBuf),
    Pattern(FilePattern),
    Url(UrlFile),
    /// The write-ahead log of a SQLite database. Each reader creates an empty one if there is none, so
    /// that this is not a change.
    SqliteLog(PathBuf),
}

/// Whether servers are asked for changes, which may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskServers {
    Yes,
    No,
}

impl Watched {
    /// The files that there are now; a single file whether it exists or not.
    pub(crate) fn files(self) -> Vec<PathBuf> {
        match self {
            Self::File(file) | Self::SqliteLog(file) => vec![file],
            // A folder that cannot be read is reported by the load.
            Self::Pattern(pattern) => pattern.files().unwrap_or_default(),
            Self::Url(_) => Vec::new(),
        }
    }

    /// The current stamp, if `before` was the last one.
    fn refreshed(&self, before: &Stamp, ask: AskServers) -> Stamp {
        match self {
            Self::Url(_) if ask == AskServers::No => before.clone(),
            // A server that does not answer has no other version.
            Self::Url(url) => url.version().map_or_else(|_| before.clone(), Stamp::Url),
            _ => self.stamp(),
        }
    }

    fn stamp(&self) -> Stamp {
        match self {
            Self::File(file) => Stamp::File(FileStamp::of(file)),
            Self::SqliteLog(file) => {
                Stamp::File(FileStamp::of(file).filter(|stamp| stamp.size > 0))
            }
            Self::Pattern(pattern) => {
                let files = pattern.files().unwrap_or_default();
                let stamps = files.into_iter().map(|file| (FileStamp::of(&file), file));
                Stamp::Files(stamps.collect())
            }
            Self::Url(_) => Stamp::Url(None),
        }
    }
}

/// The state of something that is watched.
#[derive(Clone, Debug, PartialEq)]
enum Stamp {
    /// `None` if the file does not exist.
    File(Option<FileStamp>),
    Files(Vec<(Option<FileStamp>, PathBuf)>),
    /// The version at the server; `None` if it is that of the copy, from which the tables were loaded.
    Url(Option<String>),
}

#[derive(Clone, Debug, PartialEq)]
struct FileStamp {
    size: u64,
    modified: Option<SystemTime>,
    identity: Identity,
    /// Those of the symbolic links in the path: a link that was changed to another target and back is
    /// another link.
    links: Vec<Identity>,
}

/// On Unix the inode number and the time of the last status change, which tools cannot set back.
type Identity = [i64; 4];

impl FileStamp {
    /// The stamp of a file; `None` if it does not exist.
    fn of(file: &Path) -> Option<Self> {
        let meta = fs::metadata(file).ok()?;
        let path = file.ancestors();
        let links = path.filter_map(|part| fs::symlink_metadata(part).ok());
        let links = links.filter(fs::Metadata::is_symlink);
        Some(Self {
            size: meta.len(),
            modified: meta.modified().ok(),
            identity: identity(&meta),
            links: links.map(|link| identity(&link)).collect(),
        })
    }
}

impl FileStamps {
    /// The current stamps of the files; a missing file has a stamp, too.
    pub(crate) fn of(files: Vec<Watched>) -> Self {
        let stamps = files.iter().map(Watched::stamp).collect();
        Self { files, stamps }
    }

    /// The current stamps of the same files.
    pub(crate) fn refreshed(&self, ask: AskServers) -> Self {
        let pairs = self.files.iter().zip(&self.stamps);
        let stamps = pairs.map(|(file, before)| file.refreshed(before, ask));
        Self {
            stamps: stamps.collect(),
            files: self.files.clone(),
        }
    }

    /// Whether this is the path of one of the files.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| match file {
            Watched::File(file) | Watched::SqliteLog(file) => file == path,
            Watched::Pattern(pattern) => pattern.matches(path),
            Watched::Url(_) => false,
        })
    }

    /// Whether all files were last changed before a time. One that was changed at about the time of its stamp
    /// may be changed again without another stamp, as the clock of the file system is coarse.
    pub(crate) fn are_older_than(&self, time: SystemTime) -> bool {
        let is_older = |stamp: &Option<FileStamp>| match stamp {
            Some(stamp) => stamp.modified.is_some_and(|modified| modified < time),
            None => true,
        };
        self.stamps.iter().all(|stamp| match stamp {
            Stamp::File(stamp) => is_older(stamp),
            Stamp::Files(stamps) => stamps.iter().all(|(stamp, _)| is_older(stamp)),
            Stamp::Url(_) => false,
        })
    }

    /// These stamps, and the current stamps of further files.
    pub(crate) fn with(mut self, files: Vec<Watched>) -> Self {
        let new = files.into_iter().filter(|file| !self.files.contains(file));
        let new = Self::of(new.collect());
        self.files.extend(new.files);
        self.stamps.extend(new.stamps);
        self
    }

    /// Paths in all folders in which a file may appear or change.
    pub(crate) fn paths_in_folders(&self) -> Vec<PathBuf> {
        let paths = self.files.iter().map(|file| match file {
            Watched::File(file) | Watched::SqliteLog(file) => vec![file.clone()],
            Watched::Pattern(pattern) => pattern.paths_in_folders(),
            Watched::Url(_) => Vec::new(),
        });
        paths.flatten().collect()
    }
}

#[cfg(unix)]
fn identity(meta: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    [
        meta.dev().cast_signed(),
        meta.ino().cast_signed(),
        meta.ctime(),
        meta.ctime_nsec(),
    ]
}

#[cfg(not(unix))]
fn identity(_meta: &fs::Metadata) -> Identity {
    [0; 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_told_from_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data.csv");
        let none = FileStamps::of(vec![Watched::File(file.clone())]);
        assert_eq!(none, none.refreshed(AskServers::No));
        fs::write(&file, "a").unwrap();
        let first = none.refreshed(AskServers::No);
        assert_ne!(none, first);
        assert_eq!(first, first.refreshed(AskServers::No));
        let other = folder.path().join("other");
        fs::write(&other, "b").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(first, first.refreshed(AskServers::No));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_is_put_back_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for release in ["a", "b"] {
            fs::create_dir(at(release)).unwrap();
            fs::write(at(release).join("data.csv"), release).unwrap();
        }
        let lead_to = |release: &str| {
            std::os::unix::fs::symlink(release, at("next")).unwrap();
            fs::rename(at("next"), at("current")).unwrap();
        };
        lead_to("a");
        let file = at("current").join("data.csv");
        let stamps = FileStamps::of(vec![Watched::File(file)]);
        assert_eq!(stamps, stamps.refreshed(AskServers::No));
        lead_to("b");
        assert_ne!(stamps, stamps.refreshed(AskServers::No));
        lead_to("a");
        assert_ne!(stamps, stamps.refreshed(AskServers::No));
    }

    #[test]
    fn an_empty_log_of_a_database_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db-wal");
        let none = FileStamps::of(vec![Watched::SqliteLog(file.clone())]);
        fs::write(&file, "").unwrap();
        assert_eq!(none, none.refreshed(AskServers::No));
        fs::write(&file, "a").unwrap();
        let one = none.refreshed(AskServers::No);
        assert_ne!(none, one);
        fs::write(&file, "ab").unwrap();
        assert_ne!(one, one.refreshed(AskServers::No));
        fs::write(&file, "").unwrap();
        assert_eq!(none, one.refreshed(AskServers::No));
    }

    #[test]
    fn new_changed_and_removed_files_of_a_pattern_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let pattern = FilePattern::of(folder.path(), "*.csv").unwrap().unwrap();
        let mut last = FileStamps::of(vec![Watched::Pattern(pattern)]);
        let at = |name: &str| folder.path().join(name);
        let steps: [(&str, &dyn Fn()); 4] = [
            ("new", &|| fs::write(at("a.csv"), "a").unwrap()),
            ("changed", &|| fs::write(at("a.csv"), "aa").unwrap()),
            ("renamed", &|| fs::rename(at("a.csv"), at("b.csv")).unwrap()),
            ("removed", &|| fs::remove_file(at("b.csv")).unwrap()),
        ];
        for (step, make) in steps {
            make();
            let next = last.refreshed(AskServers::No);
            assert_ne!(last, next, "{step}");
            fs::write(at("other.txt"), step).unwrap();
            assert_eq!(next, next.refreshed(AskServers::No), "{step}");
            last = next;
        }
    }
}
