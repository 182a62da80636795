//! Serves a folder of files.

mod conditional;
mod folder;
mod media_types;
mod path;
mod serve;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use crate::Result;
use crate::negotiate::Encoding;
use folder::{Folder, OpenFile};

/// How a folder is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticOptions {
    /// How long it may take until a replaced file is noticed. 100 ms by default: too short to
    /// matter for a deployment, and it saves a system call for each request of frequently used
    /// files. Zero checks on each request.
    pub check_interval: Duration,
    /// The number of files that stay open on each thread. 1,024 by default, which with a few
    /// threads is below the usual limits on descriptors.
    pub open_count_max: usize,
    /// The file that is served for a folder, that is, for a path that ends with a slash.
    pub index: Option<String>,
    /// The value of `Cache-Control`, if any.
    pub cache_control: Option<String>,
}

impl Default for StaticOptions {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_millis(100),
            open_count_max: 1024,
            index: Some("index.html".to_owned()),
            cache_control: None,
        }
    }
}

/// The files below a folder, for one thread.
///
/// Files stay open, but their contents are not cached. `app.js.br` and `app.js.gz` are compressed
/// variants of `app.js`: the client gets the one that it prefers. A variant that is older than its
/// original is ignored, since it belongs to an earlier one.
///
/// Names that begin with a dot are not served, except `.well-known`, and neither is anything
/// outside of the folder, whatever the path contains and wherever links lead.
#[derive(Debug)]
pub struct StaticFiles {
    folder: Folder,
    options: StaticOptions,
    /// By name below the folder.
    entries: HashMap<Box<[u8]>, Entry>,
}

/// The open files of one name.
#[derive(Debug)]
struct Entry {
    name: PathBuf,
    content_type: &'static str,
    /// When it was last compared with the file system.
    checked_at: Instant,
    original: OpenFile,
    compressed: Vec<Compressed>,
}

/// A compressed variant of a file.
#[derive(Debug)]
struct Compressed {
    encoding: Encoding,
    name: PathBuf,
    file: OpenFile,
    /// Otherwise it belongs to an earlier original.
    is_of_original: bool,
}

/// The extensions of compressed variants, the smaller one first.
const ENDS: [(Encoding, &str); 2] = [(Encoding::Brotli, ".br"), (Encoding::Gzip, ".gz")];

impl StaticFiles {
    /// Opens `folder`. The same folder is served even if its path is later given to another one.
    pub fn open(folder: impl AsRef<Path>, options: StaticOptions) -> Result<Self> {
        Ok(Self {
            folder: Folder::open(folder.as_ref())?,
            options,
            entries: HashMap::new(),
        })
    }

    /// Finds the file for a path as a client sends it, without the leading slash.
    fn find(&mut self, path: &str, now: Instant) -> Option<(&Entry, &StaticOptions)> {
        let name = path::name(path)?;
        let key: &[u8] = &name;
        let is_current = self.entries.get_mut(key).is_some_and(|entry| {
            now.saturating_duration_since(entry.checked_at) < self.options.check_interval || {
                entry.checked_at = now;
                entry.is_current(&self.folder)
            }
        });
        if !is_current {
            let held = self.entries.remove(key);
            // The old descriptors are not needed any more.
            drop(held);
            let entry = Entry::open(&self.folder, self.file_of(key)?, now)?;
            self.make_room();
            self.entries.insert(key.into(), entry);
        }
        Some((self.entries.get(key)?, &self.options))
    }

    /// Makes the next request of a file check it again.
    fn forget(&mut self, path: &str) {
        if let Some(name) = path::name(path) {
            let key: &[u8] = &name;
            self.entries.remove(key);
        }
    }

    /// The file that a name means.
    fn file_of(&self, name: &[u8]) -> Option<PathBuf> {
        let path = PathBuf::from(OsStr::from_bytes(name));
        if name.is_empty() || name.ends_with(b"/") {
            return Some(path.join(self.options.index.as_ref()?));
        }
        Some(path)
    }

    /// Closes half of the files, the least recently checked ones, if there are too many.
    fn make_room(&mut self) {
        let count: usize = self.entries.values().map(Entry::open_count).sum();
        if count < self.options.open_count_max {
            return;
        }
        let mut times: Vec<_> = self
            .entries
            .values()
            .map(|entry| entry.checked_at)
            .collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        self.entries.retain(|_, entry| entry.checked_at > middle);
    }
}

impl Entry {
    fn open(folder: &Folder, name: PathBuf, now: Instant) -> Option<Self> {
        let original = folder.file(&name)?;
        let compressed = ENDS.iter().filter_map(|&(encoding, end)| {
            let name = folder::with_end(&name, end);
            let file = folder.file(&name)?;
            Some(Compressed {
                is_of_original: file.is_as_new_as(&original),
                encoding,
                name,
                file,
            })
        });
        Some(Self {
            content_type: media_types::media_type(name.as_os_str().as_bytes()),
            checked_at: now,
            compressed: compressed.collect(),
            original,
            name,
        })
    }

    /// Whether everything is unchanged since it was opened. A new compressed variant counts as a
    /// change.
    fn is_current(&self, folder: &Folder) -> bool {
        if !folder.is_current(&self.name, &self.original) {
            return false;
        }
        ENDS.iter().all(|(encoding, end)| {
            let mut held = self.compressed.iter();
            match held.find(|held| held.encoding == *encoding) {
                Some(held) => folder.is_current(&held.name, &held.file),
                None => folder.is_absent(&folder::with_end(&self.name, end)),
            }
        })
    }

    /// The available codings, the smallest first, identity last.
    fn offers(&self) -> impl Iterator<Item = (Encoding, &OpenFile)> {
        let compressed = self.compressed.iter().filter(|held| held.is_of_original);
        let compressed = compressed.map(|held| (held.encoding, &held.file));
        compressed.chain([(Encoding::Identity, &self.original)])
    }

    fn open_count(&self) -> usize {
        1 + self.compressed.len()
    }
}
