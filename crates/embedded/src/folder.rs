//! Folders of temporary clusters: taken from a spare copy, locked while anybody lives, swept after.
//!
//! ```text
//! <place>/c-<random>/      a cluster: data/ s/ log lock owners joined/
//! <place>/spare-<key>/     a copy of a template that waits for its user: data/
//! <place>/n-<random>/      a spare copy in the making: data/ lock
//! <place>/<key>.current    the name of the cluster that this user's processes share
//! <place>/*.lock           who makes or sweeps
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::place::{Place, make_private};
use crate::server::{DATA, JOINED, LOCK};
use crate::template::{Makers, Template};
use crate::{Error, Result, digest};

/// How long a server that lost its watch gets to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(6);

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
        let path = makers.place.folder.join(format!("c-{}", digest::random(5)));
        let _sweep = lock_shared(&sweep_lock(makers.place))?;
        make(&path)?;
        let lock = take_lock(&path)?.expect("nobody knows the folder yet");
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

/// Copies the template; one that turns out damaged is made anew, once.
pub(crate) fn copy_or_mend(template: &Template, data: &Path, makers: Makers<'_>) -> Result<()> {
    let begin = SystemTime::now();
    let copied = template.copy_to(data, makers.identity);
    if let Ok(true) = copied {
        return Ok(());
    }
    let _ = fs::remove_dir_all(data);
    match copied {
        // It is not the template that is at fault.
        Err(error) if error.is_full() => return Err(error),
        _ => {}
    }
    let _ = fs::remove_dir_all(spare_path(makers.place, template));
    template.mend(makers, begin)?;
    match template.copy_to(data, makers.identity)? {
        true => Ok(()),
        false => Err(Error::template_damaged(data)),
    }
}

/// Lays a copy of the template ready for the next cluster, unless there is one or somebody else is
/// at it.
pub(crate) fn lay_spare(template: &Template, makers: Makers<'_>) -> Result<()> {
    let spare = spare_path(makers.place, template);
    let laying = open_lock(&spare.with_added_extension("lock"))?;
    if spare.exists() || laying.try_lock().is_err() {
        return Ok(());
    }
    let path = makers.place.folder.join(format!("n-{}", digest::random(5)));
    let lock = {
        let _sweep = lock_shared(&sweep_lock(makers.place))?;
        make_private(&path, makers.identity)?;
        take_lock(&path)?
    };
    let copied = template.copy_to(&path.join(DATA), makers.identity);
    // The lock goes before the name: whoever takes the spare locks it himself.
    let _sweep = lock_shared(&sweep_lock(makers.place))?;
    drop(lock);
    if !matches!(copied, Ok(true)) || fs::rename(&path, &spare).is_err() {
        let _ = fs::remove_dir_all(&path);
    }
    copied.map(drop)
}

/// Removes a spare copy that did not work.
pub(crate) fn drop_spare(template: &Template, place: &Place) {
    let _ = fs::remove_dir_all(spare_path(place, template));
}

fn spare_path(place: &Place, template: &Template) -> PathBuf {
    place.folder.join(format!("spare-{}", template.key()))
}

/// Ends servers and removes folders whose owners and watchers are all dead. Returns how many.
pub(crate) fn sweep(place: &Place) -> usize {
    let path = sweep_lock(place);
    let Ok(Some(_sweep)) = open_lock(&path).map(|file| file.try_lock().is_ok().then_some(file))
    else {
        return 0;
    };
    stale(place)
        .into_iter()
        .filter(|(folder, _lock)| {
            end_server(&folder.join(DATA));
            fs::remove_dir_all(folder).is_ok()
        })
        .count()
}

/// Folders that nobody uses, each with the lock on it, so that nobody begins to.
pub(crate) fn stale(place: &Place) -> Vec<(PathBuf, File)> {
    let Ok(entries) = fs::read_dir(&place.folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let name = name.to_str()?;
            let is_ours = name.starts_with("c-") || name.starts_with("n-");
            let path = entry.path();
            let lock = is_ours.then(|| take_lock(&path).ok().flatten()).flatten()?;
            Some((path, lock))
        })
        .collect()
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
        if test_kill_process(pid).is_err() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The process that works in `data`. Its number stands in a file, and as numbers are used again,
/// the process must also stand in the folder.
pub(crate) fn server_pid(data: &Path) -> Option<Pid> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid: i32 = file.lines().next()?.trim().parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data.canonicalize().ok()?)
        .then(|| Pid::from_raw(pid))
        .flatten()
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

fn open_lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options
        .open(path)
        .map_err(|error| Error::file("open", path, error))
}
