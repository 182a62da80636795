//! Folders of temporary clusters: made from a spare copy, locked while an owner lives, then swept.
//!
//! ```text
//! <runtime dir>/c-<random>/      a cluster: data/ s/ log lock owners joined/ ending port password
//! <runtime dir>/dead-…/          one that is being removed
//! <runtime dir>/spare-<key>/     a copy of a template for the next cluster: data/ manifest
//! <runtime dir>/n-<random>/      a spare copy in the making: data/ manifest lock
//! <runtime dir>/s-<hash>/        the sockets of a cluster elsewhere, in whose folder they cannot be named
//! <runtime dir>/<key>.current    the name of the cluster that this user's processes share
//! <runtime dir>/*.lock           held by the process that makes or sweeps
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;

use crate::file_lock::{is_free, lock, lock_options, lock_shared, open_lock};
use crate::file_manifest::FileManifest;
use crate::files::{DATA, JOINED, LOCK};
use crate::kill::end_and_free;
use crate::process::is_alive;
use crate::runtime_dir::{RuntimeDir, make_private};
use crate::template::{BuildContext, Template};
use crate::verify::Verify;
use crate::{Error, Result, digest};

/// The age from which a socket folder may be stale: its server creates the socket later.
const SOCKET_AGE_MIN: Duration = Duration::from_secs(600);

/// Prefixes of names, see above.
const CLUSTER: &str = "c-";
const NEW: &str = "n-";
const STALE: &str = "dead-";

/// The folder of one temporary cluster, and the lock that marks it as in use.
#[derive(Debug)]
pub(crate) struct ClusterFolder {
    pub(crate) path: PathBuf,
    pub(crate) lock: File,
}

impl ClusterFolder {
    /// Creates the folder of a new cluster, with a copy of the template.
    pub(crate) fn create(template: &Template, context: BuildContext<'_>) -> Result<Self> {
        let folder = Self::claim(context, |path| {
            // Renaming decides between processes that want the same spare.
            match fs::rename(template.spare(context.runtime_dir), path) {
                Ok(()) => Ok(()),
                Err(_) => make_private(path, context.identity),
            }
        })?;
        let data = folder.path.join(DATA);
        if data.exists() && !is_sound(&folder.path, context.verify) {
            let removed = fs::remove_dir_all(&data);
            folder.or_remove(removed.map_err(|error| Error::file("remove", &data, error)))?;
        }
        if !data.exists() {
            folder.or_remove(template.copy_or_repair(&data, context))?;
        }
        Ok(folder)
    }

    /// Creates the folder of a new cluster, whose data is filled in by the caller.
    pub(crate) fn create_with<T>(
        context: BuildContext<'_>,
        fill: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<(Self, T)> {
        let folder = Self::claim(context, |path| make_private(path, context.identity))?;
        let filled = folder.or_remove(fill(&folder.path.join(DATA)))?;
        Ok((folder, filled))
    }

    fn claim(context: BuildContext<'_>, make: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let path = context
            .runtime_dir
            .folder
            .join(format!("{CLUSTER}{}", digest::random(5)));
        let _sweep = lock_shared(&sweep_lock(context.runtime_dir))?;
        make(&path)?;
        // Waits at most as long as a report checks whether it is in use.
        let lock = lock(&path.join(LOCK))?;
        let folder = Self { path, lock };
        let make_inner = |name| make_private(&folder.path.join(name), context.identity);
        folder.or_remove([JOINED, "s"].into_iter().try_for_each(make_inner))?;
        Ok(folder)
    }

    fn or_remove<T>(&self, result: Result<T>) -> Result<T> {
        let runtime_dir = self.path.parent().unwrap_or(&self.path);
        let hint = "set LOOKASIDE_PG_TEMP to a folder on another file system";
        result.map_err(|error| {
            let _ = fs::remove_dir_all(&self.path);
            error.when_no_room(runtime_dir, hint)
        })
    }
}

/// Whether a spare copy is undamaged.
fn is_sound(spare: &Path, verify: Verify) -> bool {
    let manifest = FileManifest::read(spare);
    manifest.is_some_and(|manifest| manifest.find_damage(&spare.join(DATA), verify).is_none())
}

/// Makes a spare copy of the template for the next cluster, unless there is one or another process
/// makes it.
///
/// Not for templates with a prepared database: each change of a project's migrations would leave
/// another one in memory.
pub(crate) fn make_spare(template: &Template, context: BuildContext<'_>) -> Result<()> {
    if template.is_prepared() {
        return Ok(());
    }
    let spare = template.spare(context.runtime_dir);
    let making = open_lock(&spare.with_added_extension("lock"))?;
    if spare.exists() || making.try_lock().is_err() {
        return Ok(());
    }
    let path = context
        .runtime_dir
        .folder
        .join(format!("{NEW}{}", digest::random(5)));
    let made = {
        let _sweep = lock_shared(&sweep_lock(context.runtime_dir))?;
        make_private(&path, context.identity)?;
        lock(&path.join(LOCK))?
    };
    let data = path.join(DATA);
    let copied = template.copy_to(&data, context).and_then(|manifest| {
        let manifest = manifest.ok_or_else(|| Error::template_damaged(&data))?;
        manifest.of_copy(&data)?.write(&path)
    });
    // The lock is released before the rename: the process that takes the spare locks it.
    let _sweep = lock_shared(&sweep_lock(context.runtime_dir))?;
    drop(made);
    if copied.is_err() || fs::rename(&path, &spare).is_err() {
        let _ = fs::remove_dir_all(&path);
    }
    copied
}

/// Removes a spare copy that did not work.
pub(crate) fn remove_spare(template: &Template, runtime_dir: &RuntimeDir) {
    let _ = fs::remove_dir_all(template.spare(runtime_dir));
}

/// Ends servers and removes folders whose owners and watching shells have all ended, spare copies
/// whose template is gone, and socket folders without sockets.
pub(crate) fn sweep(runtime_dir: &RuntimeDir, has_template: impl Fn(&str) -> bool) {
    let sweeping = open_lock(&sweep_lock(runtime_dir));
    let Some(sweeping) = sweeping.ok().filter(|file| file.try_lock().is_ok()) else {
        return;
    };
    let all = rename_stale(runtime_dir, has_template);
    drop(sweeping);
    for stale in all {
        remove(&stale.renamed);
    }
}

/// Like the first step of a [`sweep`], for spare copies of all templates, and waiting for others
/// that make or sweep; the caller removes the folders.
pub(crate) fn rename_all_stale(runtime_dir: &RuntimeDir) -> Result<Vec<StaleFolder>> {
    let _sweep = lock(&sweep_lock(runtime_dir))?;
    Ok(rename_stale(runtime_dir, |_| false))
}

/// A folder to remove.
pub(crate) struct StaleFolder {
    /// Its name before.
    pub(crate) path: PathBuf,
    /// Its name now.
    pub(crate) renamed: PathBuf,
    /// Held until it is removed.
    _lock: Option<File>,
}

/// Renames the folders to remove, and locks each. A process that makes a folder only waits for this
/// step, under the lock on [`sweep_lock`].
///
/// A folder without a lock file is one whose owner died before it created one, or one that is just
/// being removed by its watching shell. It keeps its name and gets no new file: either would leave
/// a remainder if this process ended next.
fn rename_stale(runtime_dir: &RuntimeDir, has_template: impl Fn(&str) -> bool) -> Vec<StaleFolder> {
    let mut stale = Vec::new();
    for (name, path) in entries(runtime_dir) {
        let is_spare_of_none = name
            .strip_prefix("spare-")
            .is_some_and(|key| path.is_dir() && !has_template(key));
        if name.starts_with("s-") && is_stale_socket_folder(&path) {
            let _ = fs::remove_dir_all(&path);
        }
        if !has_lock(&name) && !is_spare_of_none {
            continue;
        }
        let lock = match lock_options().open(path.join(LOCK)) {
            Ok(file) if file.try_lock().is_ok() => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                stale.push(StaleFolder {
                    renamed: path.clone(),
                    path,
                    _lock: None,
                });
                continue;
            }
            _ => continue,
        };
        let renamed = match name.starts_with(STALE) {
            true => path.clone(),
            false => runtime_dir.folder.join(format!("{STALE}{name}")),
        };
        if renamed == path || fs::rename(&path, &renamed).is_ok() {
            stale.push(StaleFolder {
                path,
                renamed,
                _lock: Some(lock),
            });
        }
    }
    stale
}

/// Folders that no process uses. Nothing is changed.
pub(crate) fn stale(runtime_dir: &RuntimeDir) -> Vec<PathBuf> {
    entries(runtime_dir)
        .into_iter()
        .filter(|(name, path)| has_lock(name) && matches!(is_free(path), Ok(true)))
        .map(|(_, path)| path)
        .collect()
}

/// As [`stale`], including spare copies and socket folders: what [`rename_all_stale`] would find.
pub(crate) fn unused(runtime_dir: &RuntimeDir) -> Vec<PathBuf> {
    let spares = entries(runtime_dir).into_iter();
    let spares = spares.filter(|(name, path)| name.starts_with("spare-") && path.is_dir());
    let mut unused = stale(runtime_dir);
    unused.extend(spares.map(|(_, path)| path));
    unused.extend(unused_sockets(runtime_dir));
    unused
}

/// Folders of sockets without a server.
pub(crate) fn unused_sockets(runtime_dir: &RuntimeDir) -> Vec<PathBuf> {
    let entries = entries(runtime_dir).into_iter();
    let unused =
        entries.filter(|(name, path)| name.starts_with("s-") && is_stale_socket_folder(path));
    unused.map(|(_, path)| path).collect()
}

/// The folders of clusters, used or not.
pub(crate) fn clusters(runtime_dir: &RuntimeDir) -> Vec<PathBuf> {
    let entries = entries(runtime_dir).into_iter();
    let clusters = entries.filter(|(name, _)| name.starts_with(CLUSTER));
    clusters.map(|(_, path)| path).collect()
}

/// Whether folders of this kind are locked while a process uses them.
fn has_lock(name: &str) -> bool {
    [CLUSTER, NEW, STALE]
        .iter()
        .any(|kind| name.starts_with(kind))
}

/// All entries of the runtime directory, as they are now.
fn entries(runtime_dir: &RuntimeDir) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(&runtime_dir.folder)
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Whether no server has had a socket in a folder for a while. Each socket has a lock file with a
/// process number.
fn is_stale_socket_folder(folder: &Path) -> bool {
    let is_old = |made: SystemTime| made.elapsed().is_ok_and(|age| age > SOCKET_AGE_MIN);
    let made = folder.metadata().and_then(|metadata| metadata.modified());
    let is_dead = |path: PathBuf| {
        let pid = fs::read_to_string(path).ok().and_then(|text| {
            let pid = text.lines().next()?.trim().parse().ok()?;
            Pid::from_raw(pid)
        });
        !pid.is_some_and(is_alive)
    };
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    made.is_ok_and(is_old) && entries.all(|entry| is_dead(entry.path()))
}

/// Removes a folder that only a server may still use, ends that server, and removes what it leaves
/// outside of the folder.
pub(crate) fn remove(folder: &Path) {
    end_and_free(&folder.join(DATA));
    let _ = fs::remove_dir_all(folder);
}

fn sweep_lock(runtime_dir: &RuntimeDir) -> PathBuf {
    runtime_dir.folder.join("sweep.lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watching shell that removes its folder has deleted the lock file, but not yet the folder.
    #[test]
    fn a_sweep_that_dies_leaves_a_folder_that_is_being_removed_removable() {
        let parent = tempfile::tempdir().unwrap();
        let runtime_dir = RuntimeDir {
            folder: parent.path().to_owned(),
            is_memory: false,
            free_size: 0,
        };
        let going = runtime_dir.folder.join("c-0123456789");
        let used = runtime_dir.folder.join("c-9876543210");
        for folder in [&going, &used] {
            fs::create_dir(folder).unwrap();
        }
        let _lock = lock(&used.join(LOCK)).unwrap();
        // The sweeping process ends before it removes anything.
        let found = rename_stale(&runtime_dir, |_| true);
        let found: Vec<_> = found.into_iter().map(|stale| stale.renamed).collect();
        assert_eq!(found, [&*going]);
        // The last step of `rm -rf`.
        fs::remove_dir(&going).unwrap();
        // The owner died before it made a lock, so that no other process removes the folder.
        fs::create_dir(&going).unwrap();
        sweep(&runtime_dir, |_| true);
        let mut left: Vec<_> = entries(&runtime_dir)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        left.sort();
        assert_eq!(left, ["c-9876543210", "sweep.lock"]);
    }
}
