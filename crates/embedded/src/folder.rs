//! Folders of temporary clusters: taken from a spare copy, locked while anybody lives, swept after.
//!
//! ```text
//! <place>/c-<random>/      a cluster: data/ s/ log lock owners joined/ ending port password
//! <place>/dead-…/          one that is being removed
//! <place>/spare-<key>/     a copy of a template that waits for its user: data/ manifest
//! <place>/n-<random>/      a spare copy in the making: data/ manifest lock
//! <place>/s-<hash>/        the sockets of a cluster elsewhere, in whose folder they cannot be named
//! <place>/<key>.current    the name of the cluster that this user's processes share
//! <place>/*.lock           who makes or sweeps
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::binaries::Verify;
use crate::files::{DATA, JOINED, LOCK};
use crate::manifest::Manifest;
use crate::persistent::is_alive;
use crate::place::{Place, make_private};
use crate::segment::Segment;
use crate::template::{Makers, Template};
use crate::{Error, Result, digest};

/// How long a server that lost its watch gets to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(6);

/// How old a folder for sockets is before it may be a leaving: its server makes the socket later.
const SOCKET_AGE_MIN: Duration = Duration::from_secs(600);

/// What a server notes of itself in its data folder.
const SERVER_FILE: &str = "postmaster.pid";

/// Beginnings of names, see above.
const CLUSTER: &str = "c-";
const NEW: &str = "n-";
const DEAD: &str = "dead-";

/// The folder of one temporary cluster, and the lock that says somebody uses it.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) lock: File,
}

impl Folder {
    /// A new cluster's folder with a copy of the template in it.
    pub(crate) fn create(template: &Template, makers: Makers<'_>) -> Result<Self> {
        let folder = Self::claim(makers, |path| {
            // Renaming decides between processes that want the same spare.
            match fs::rename(spare_path(makers.place, template), path) {
                Ok(()) => Ok(()),
                Err(_) => make_private(path, makers.identity),
            }
        })?;
        let data = folder.path.join(DATA);
        if data.exists() && !is_sound(&folder.path, makers.verify) {
            let removed = fs::remove_dir_all(&data);
            folder.or_remove(removed.map_err(|error| Error::file("remove", &data, error)))?;
        }
        if !data.exists() {
            folder.or_remove(copy_or_mend(template, &data, makers))?;
        }
        Ok(folder)
    }

    /// A new cluster's folder whose data is filled in by the caller.
    pub(crate) fn create_with<T>(
        makers: Makers<'_>,
        fill: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<(Self, T)> {
        let folder = Self::claim(makers, |path| make_private(path, makers.identity))?;
        let filled = folder.or_remove(fill(&folder.path.join(DATA)))?;
        Ok((folder, filled))
    }

    fn claim(makers: Makers<'_>, make: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let path = makers
            .place
            .folder
            .join(format!("{CLUSTER}{}", digest::random(5)));
        let _sweep = lock_shared(&sweep_lock(makers.place))?;
        make(&path)?;
        // At most for as long as a report looks who has it.
        let lock = lock(&path.join(LOCK))?;
        let folder = Self { path, lock };
        let make_inner = |name| make_private(&folder.path.join(name), makers.identity);
        folder.or_remove([JOINED, "s"].into_iter().try_for_each(make_inner))?;
        Ok(folder)
    }

    fn or_remove<T>(&self, result: Result<T>) -> Result<T> {
        let place = self.path.parent().unwrap_or(&self.path);
        let way_out = "set LOOKASIDE_PG_TEMP to a folder on another file system";
        result.map_err(|error| {
            let _ = fs::remove_dir_all(&self.path);
            error.when_no_room(place, way_out)
        })
    }
}

/// Whether a spare copy is what it was when it was laid.
fn is_sound(spare: &Path, verify: Verify) -> bool {
    let manifest = Manifest::read(spare);
    manifest.is_some_and(|manifest| manifest.find_damage(&spare.join(DATA), verify).is_none())
}

/// Copies the template; one that turns out damaged is made anew, once.
pub(crate) fn copy_or_mend(template: &Template, data: &Path, makers: Makers<'_>) -> Result<()> {
    let copied = template.copy_to(data, makers);
    if let Ok(Some(_)) = copied {
        return Ok(());
    }
    let _ = fs::remove_dir_all(data);
    match copied {
        // It is not the template that is at fault.
        Err(error) if error.is_full() || error.lacks_descriptor() => return Err(error),
        _ => {}
    }
    let _ = fs::remove_dir_all(spare_path(makers.place, template));
    template.mend(makers)?;
    match template.copy_to(data, makers)? {
        Some(_) => Ok(()),
        None => Err(Error::template_damaged(data)),
    }
}

/// Lays a copy of the template ready for the next cluster, unless there is one or somebody else is
/// at it.
///
/// None of a template with a prepared database: each change of a project's migrations would leave one
/// more in memory.
pub(crate) fn lay_spare(template: &Template, makers: Makers<'_>) -> Result<()> {
    if template.is_prepared() {
        return Ok(());
    }
    let spare = spare_path(makers.place, template);
    let laying = open_lock(&spare.with_added_extension("lock"))?;
    if spare.exists() || laying.try_lock().is_err() {
        return Ok(());
    }
    let path = makers
        .place
        .folder
        .join(format!("{NEW}{}", digest::random(5)));
    let made = {
        let _sweep = lock_shared(&sweep_lock(makers.place))?;
        make_private(&path, makers.identity)?;
        lock(&path.join(LOCK))?
    };
    let data = path.join(DATA);
    let copied = template.copy_to(&data, makers).and_then(|manifest| {
        let manifest = manifest.ok_or_else(|| Error::template_damaged(&data))?;
        manifest.of_copy(&data)?.write(&path)
    });
    // The lock goes before the name: whoever takes the spare locks it himself.
    let _sweep = lock_shared(&sweep_lock(makers.place))?;
    drop(made);
    if copied.is_err() || fs::rename(&path, &spare).is_err() {
        let _ = fs::remove_dir_all(&path);
    }
    copied
}

/// Removes a spare copy that did not work.
pub(crate) fn drop_spare(template: &Template, place: &Place) {
    let _ = fs::remove_dir_all(spare_path(place, template));
}

fn spare_path(place: &Place, template: &Template) -> PathBuf {
    place.folder.join(format!("spare-{}", template.key()))
}

/// Ends servers and removes folders whose owners and watchers are all dead, spare copies whose
/// template is gone, and folders of sockets without any.
pub(crate) fn sweep(place: &Place, has_template: impl Fn(&str) -> bool) {
    let sweeping = open_lock(&sweep_lock(place));
    let Some(sweeping) = sweeping.ok().filter(|file| file.try_lock().is_ok()) else {
        return;
    };
    let all = bury(place, has_template);
    drop(sweeping);
    for dead in all {
        remove(&dead.grave);
    }
}

/// As a [`sweep`] begins, for spare copies of all templates, and after others that make or sweep; the
/// caller removes.
pub(crate) fn bury_all(place: &Place) -> Result<Vec<Dead>> {
    let _sweep = lock(&sweep_lock(place))?;
    Ok(bury(place, |_| false))
}

/// A folder that is to be removed.
pub(crate) struct Dead {
    /// Its name before.
    pub(crate) path: PathBuf,
    /// Its name now.
    pub(crate) grave: PathBuf,
    /// Held until it is removed.
    _lock: Option<File>,
}

/// Gives what is to be removed other names, each with the lock on it. Who wants a folder waits for
/// no more than this, under the lock on [`sweep_lock`].
///
/// A folder without a lock file is one whose owner died before it made one, or one that its watch is
/// removing right now. It keeps its name and gets no new file: either would leave a remainder if
/// this process ended next.
fn bury(place: &Place, has_template: impl Fn(&str) -> bool) -> Vec<Dead> {
    let mut dead = Vec::new();
    for (name, path) in entries(place) {
        let is_spare_of_none = name
            .strip_prefix("spare-")
            .is_some_and(|key| path.is_dir() && !has_template(key));
        if name.starts_with("s-") && is_left_of_sockets(&path) {
            let _ = fs::remove_dir_all(&path);
        }
        if !has_lock(&name) && !is_spare_of_none {
            continue;
        }
        let lock = match lock_options().open(path.join(LOCK)) {
            Ok(file) if file.try_lock().is_ok() => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                dead.push(Dead {
                    grave: path.clone(),
                    path,
                    _lock: None,
                });
                continue;
            }
            _ => continue,
        };
        let grave = match name.starts_with(DEAD) {
            true => path.clone(),
            false => place.folder.join(format!("{DEAD}{name}")),
        };
        if grave == path || fs::rename(&path, &grave).is_ok() {
            dead.push(Dead {
                path,
                grave,
                _lock: Some(lock),
            });
        }
    }
    dead
}

/// Folders that nobody uses. Nothing is changed.
pub(crate) fn stale(place: &Place) -> Vec<PathBuf> {
    entries(place)
        .into_iter()
        .filter(|(name, path)| has_lock(name) && matches!(is_free(path), Ok(true)))
        .map(|(_, path)| path)
        .collect()
}

/// As [`stale`], with spare copies and folders of sockets: what [`bury_all`] would find.
pub(crate) fn unused(place: &Place) -> Vec<PathBuf> {
    let spares = entries(place).into_iter();
    let spares = spares.filter(|(name, path)| name.starts_with("spare-") && path.is_dir());
    let mut unused = stale(place);
    unused.extend(spares.map(|(_, path)| path));
    unused.extend(unused_sockets(place));
    unused
}

/// Folders of sockets without a server.
pub(crate) fn unused_sockets(place: &Place) -> Vec<PathBuf> {
    let entries = entries(place).into_iter();
    let unused = entries.filter(|(name, path)| name.starts_with("s-") && is_left_of_sockets(path));
    unused.map(|(_, path)| path).collect()
}

/// The folders of clusters, used or not.
pub(crate) fn clusters(place: &Place) -> Vec<PathBuf> {
    let entries = entries(place).into_iter();
    let clusters = entries.filter(|(name, _)| name.starts_with(CLUSTER));
    clusters.map(|(_, path)| path).collect()
}

/// Whether folders of this kind are locked while somebody uses them.
fn has_lock(name: &str) -> bool {
    [CLUSTER, NEW, DEAD]
        .iter()
        .any(|kind| name.starts_with(kind))
}

/// What is in a place: all of it, as it is now.
fn entries(place: &Place) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(&place.folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Whether no server has had a socket in a folder for a while. Each has a file beside it with its
/// process number.
fn is_left_of_sockets(folder: &Path) -> bool {
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

/// Removes a folder of which only a server may be left, and what that leaves outside.
pub(crate) fn remove(folder: &Path) {
    end_and_free(&folder.join(DATA));
    let _ = fs::remove_dir_all(folder);
}

/// Ends the server that works in `data`, if one does, and frees the memory that a server which was
/// killed left.
pub(crate) fn end_and_free(data: &Path) {
    let segment = Segment::of(data);
    end_server(data);
    if let Some(segment) = segment.filter(|_| server_pid(data).is_none()) {
        segment.remove();
    }
}

/// Ends the server that works in `data`, if one does.
pub(crate) fn end_server(data: &Path) {
    let Some(pid) = server_pid(data) else { return };
    for signal in [Signal::QUIT, Signal::KILL] {
        let _ = kill_process(pid, signal);
        if wait_until_gone(pid, END_TIMEOUT) {
            return;
        }
    }
}

/// Waits until a process has ended.
pub(crate) fn wait_until_gone(pid: Pid, timeout: Duration) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        if !is_alive(pid) {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// What the server that works in `data`, or did, notes of itself, line by line: see `pidfile.h` in
/// PostgreSQL's source. One of them is the folder's name.
pub(crate) fn server_file(data: &Path) -> Option<String> {
    let bytes = fs::read(data.join(SERVER_FILE)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The process that works in `data`. Its number stands in a file, and as numbers are used again,
/// the process must also stand in the folder.
pub(crate) fn server_pid(data: &Path) -> Option<Pid> {
    let file = server_file(data)?;
    let pid: i32 = file.lines().next()?.trim().parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data.canonicalize().ok()?)
        .then(|| Pid::from_raw(pid))
        .flatten()
}

/// Removes the files of a server that was killed, of its data and of its sockets, if their number is that
/// of another process by now, or of one that nobody has waited for: PostgreSQL takes that for a server at
/// work. Whether the memory of one is in use it sees all the same. For those who hold the folder's lock.
pub(crate) fn forget_killed_server(data: &Path, socket_folder: &Path) {
    let sockets = fs::read_dir(socket_folder).into_iter().flatten().flatten();
    let locks = sockets.map(|entry| entry.path());
    let locks = locks.filter(|path| path.extension().is_some_and(|end| end == "lock"));
    for file in locks.chain([data.join(SERVER_FILE)]) {
        if is_of_other_process(&file, data) {
            let _ = fs::remove_file(file);
        }
    }
}

/// Whether the process that a file of a server names does not stand in `data`.
fn is_of_other_process(file: &Path, data: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let pid = text
        .lines()
        .next()
        .and_then(|line| line.trim().parse().ok());
    let Some(pid) = pid.and_then(Pid::from_raw) else {
        return false;
    };
    let place = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
    match (place, data.canonicalize()) {
        (Ok(place), Ok(data)) => place != data,
        // One that has ended stands nowhere. What may not be seen may be the server.
        (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
        (_, Err(_)) => false,
    }
}

/// Locks the folder for us; `None` if somebody has it.
pub(crate) fn take_lock(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = open_lock(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(Error::file("lock", &path, error)),
    }
}

/// Whether nobody has the folder. Those who look do not disturb each other.
pub(crate) fn is_free(folder: &Path) -> Result<bool> {
    let path = folder.join(LOCK);
    let locked = match File::open(&path) {
        Ok(file) => file.try_lock_shared(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(Error::file("open", &path, error)),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(Error::file("lock", &path, error)),
    }
}

/// Says in a lock file who has it.
pub(crate) fn sign(lock: &mut File, text: &str) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.write_all(text.as_bytes())
}

fn sweep_lock(place: &Place) -> PathBuf {
    place.folder.join("sweep.lock")
}

fn lock_shared(path: &Path) -> Result<File> {
    let file = open_lock(path)?;
    file.lock_shared()
        .map_err(|error| Error::file("lock", path, error))?;
    Ok(file)
}

/// Waits for the lock on a file, and holds it as long as the file is open.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = open_lock(path)?;
    file.lock()
        .map_err(|error| Error::file("lock", path, error))?;
    Ok(file)
}

/// Opens a lock, but not through a link: in a cluster's folder the server's user may lay one.
fn open_lock(path: &Path) -> Result<File> {
    let opened = lock_options().create(true).mode(0o600).open(path);
    opened.map_err(|error| Error::file("open", path, error))
}

fn lock_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_not_opened_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, folder.path().join(LOCK)).unwrap();
        assert!(take_lock(folder.path()).is_err());
    }

    /// A watch that removes its folder has deleted the lock file, but not yet the folder.
    #[test]
    fn a_sweep_that_dies_leaves_a_folder_that_is_being_removed_removable() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place {
            folder: parent.path().to_owned(),
            is_memory: false,
            room: 0,
        };
        let going = place.folder.join("c-0123456789");
        let used = place.folder.join("c-9876543210");
        for folder in [&going, &used] {
            fs::create_dir(folder).unwrap();
        }
        let _lock = lock(&used.join(LOCK)).unwrap();
        // The sweeping process ends before it removes anything.
        let found = bury(&place, |_| true);
        let found: Vec<_> = found.into_iter().map(|dead| dead.grave).collect();
        assert_eq!(found, [&*going]);
        // The last step of `rm -rf`.
        fs::remove_dir(&going).unwrap();
        // The owner died before it made a lock, so that nobody else removes the folder.
        fs::create_dir(&going).unwrap();
        sweep(&place, |_| true);
        let mut left: Vec<_> = entries(&place).into_iter().map(|(name, _)| name).collect();
        left.sort();
        assert_eq!(left, ["c-9876543210", "sweep.lock"]);
    }
}
