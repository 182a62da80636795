//! A place of their own for the clusters of child processes, and what they leave in it.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lookaside_testing::wait_until;

/// The variables of this crate are told to children one by one.
const PREFIX: &str = "LOOKASIDE_";

/// A folder for temporary clusters in which no other test has any.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    /// Tells where children keep servers and templates, if not where this process does.
    cache: Option<PathBuf>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempdir(),
            cache: None,
        }
    }

    /// One whose children use another cache.
    pub(crate) fn with_cache(cache: &Path) -> Self {
        Self {
            cache: Some(cache.to_owned()),
            ..Self::new()
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where this crate keeps its clusters in it.
    pub(crate) fn clusters(&self) -> PathBuf {
        let uid = fs::metadata("/proc/self").unwrap().uid();
        self.path().join(format!("lookaside-{uid}"))
    }

    /// Tells a command about this place, and nothing of what the tests' own process was told.
    pub(crate) fn place(&self, command: &mut Command) {
        for (name, _) in env::vars_os() {
            let is_ours = name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
            // What was told about the cache and the programs holds for children too.
            if is_ours && name != "LOOKASIDE_CACHE" && name != "LOOKASIDE_PG_BIN" {
                command.env_remove(name);
            }
        }
        command.env("LOOKASIDE_PG_TEMP", self.path());
        if let Some(cache) = &self.cache {
            command.env("LOOKASIDE_CACHE", cache);
        }
    }

    /// The folders of clusters that are there. A spare copy is none, nor is one in the making, which
    /// a process that ends leaves to the next one.
    pub(crate) fn cluster_folders(&self) -> Vec<PathBuf> {
        entries(&self.clusters())
            .into_iter()
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                // Clusters, and sockets whose name was too long.
                ["c-", "s-"].iter().any(|kind| name.starts_with(kind))
            })
            .collect()
    }

    /// Waits until no process works here.
    #[track_caller]
    pub(crate) fn wait_until_deserted(&self) {
        let mut last = Vec::new();
        wait_until(
            &format!("no process works in {}", self.path().display()),
            || {
                last = processes(self.path());
                last.is_empty()
            },
        );
    }

    /// Waits until there is no process, no cluster's folder and no lock.
    #[track_caller]
    pub(crate) fn wait_until_clean(&self) {
        self.wait_until_deserted();
        assert_eq!(self.cluster_folders(), [""; 0].map(PathBuf::from));
        let all = entries(&self.clusters());
        let halves = all
            .iter()
            .filter(|path| path.to_str().unwrap().contains("/n-"));
        assert!(halves.count() <= 2, "{all:?}");
        for path in entries(&self.clusters()) {
            if path.extension().is_some_and(|end| end == "lock") {
                File::open(&path)
                    .unwrap()
                    .try_lock()
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }
}

/// A folder that is removed when its value is dropped; in memory where that has room, because a
/// disk takes long to sync data, and longer when other processes use it.
pub(crate) fn tempdir() -> tempfile::TempDir {
    const ROOM_MIN: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let folder = match room >= ROOM_MIN {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.unwrap()
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Processes that stand in a folder or that name it, with what they are.
pub(crate) fn processes(folder: &Path) -> Vec<(i32, String)> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for process in entries(Path::new("/proc")) {
        let Some(pid) = process
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
        else {
            continue;
        };
        // Those that end meanwhile are none.
        let place = fs::read_link(process.join("cwd")).unwrap_or_default();
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if place.to_string_lossy().contains(folder) || command.contains(folder) {
            found.push((pid, command));
        }
    }
    found
}
