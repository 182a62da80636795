//! The cache folder, which outlives processes: downloaded servers, templates, and the versions of
//! installed servers.
//!
//! Many processes use it at once. New entries are created under a temporary name and renamed into
//! place, so they are never seen incomplete; expensive work is done once, under a [`lock`].
//!
//! [`lock`]: Cache::lock

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{self, Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::files::DATA;
use crate::identity::Identity;
use crate::kill::end_and_free;
use crate::{Error, Result};

/// The cache if root runs the server as another user, which cannot enter `/root`.
const SHARED_ROOT: &str = "/var/cache/lookaside";

/// The separator between a name and the number of the process that fills it.
const PARTIAL: &str = ".partial-";

/// The depth of incomplete files: those of extensions are in a server's folder.
const DEPTH_MAX: usize = 6;

/// The users that must be able to read the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The user of this process, possibly with another id in a user namespace.
    Owner,
    /// Other users too: the server runs as one of them.
    Everyone,
}

/// A cache folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    reach: Reach,
}

impl Cache {
    /// The cache of this user, where `LOOKASIDE_CACHE` or the conventions of the platform put it.
    pub(crate) fn open() -> Result<Self> {
        let reach = match Identity::current() {
            Ok(Identity::User { .. }) => Reach::Everyone,
            // If there is none, the start of the server returns the error.
            _ => Reach::Owner,
        };
        let root = CacheEnvironment::of_process().root(reach)?;
        let root = path::absolute(&root).map_err(|e| Error::file("find", &root, e))?;
        Ok(Self { root, reach })
    }

    /// The cache at `root`, which need not exist.
    #[cfg(test)]
    pub(crate) fn open_at(root: PathBuf) -> Self {
        Self {
            root,
            reach: Reach::Owner,
        }
    }

    /// Where the cache is. The folder need not exist.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder `name` of the cache, created if necessary.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        self.prepare()?;
        let folder = self.root.join(name);
        let mut made = PathBuf::new();
        for part in Path::new(name) {
            made.push(part);
            make_folder(&self.root.join(&made), 0o755)?;
        }
        check_owner(&folder)?;
        Ok(folder)
    }

    /// Waits until no other process holds the lock `name`, and holds it as long as the file lives.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let (path, file) = self.lock_file(name)?;
        file.lock().map_err(|e| Error::file("lock", &path, e))?;
        Ok(file)
    }

    /// Removes incomplete files of ended processes in a folder of the cache.
    pub(crate) fn sweep(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if is_partial(&entry.file_name().to_string_lossy()) {
                remove_if_abandoned(&entry.path());
            }
        }
    }

    /// Incomplete files of ended processes, anywhere in the cache.
    pub(crate) fn abandoned(&self) -> Vec<PathBuf> {
        fn gather(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_partial(&entry.file_name().to_string_lossy()) {
                    // A shared lock, so that concurrent checks do not disturb each other.
                    let is_free = |file: File| file.try_lock_shared().is_ok();
                    if File::open(&path).is_ok_and(is_free) {
                        found.push(path);
                    }
                } else if is_folder && depth > 0 {
                    gather(&path, depth - 1, found);
                }
            }
        }
        let mut found = Vec::new();
        gather(&self.root, DEPTH_MAX, &mut found);
        found.sort();
        found
    }

    /// Removes an incomplete file unless a process works on it. Returns whether it is gone.
    pub(crate) fn remove_abandoned(&self, partial: &Path) -> bool {
        remove_if_abandoned(partial);
        !partial.exists()
    }

    /// Removes the file of a lock that is free. A process that is about to take it may then hold it
    /// at the same time as another process; entries made under it are still installed only once.
    pub(crate) fn remove_lock(&self, name: &str) -> Result<()> {
        let (path, file) = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => fs::remove_file(&path).map_err(|e| Error::cache_file("remove", &path, e)),
            Err(_) => Ok(()),
        }
    }

    /// As [`lock`](Self::lock), but returns `None` at once if another process holds it.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<File>> {
        let (path, file) = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Error::file("lock", &path, e)),
        }
    }

    /// Creates the folder `target` atomically, unless it exists.
    ///
    /// `fill` gets an empty folder with a temporary name. Of several concurrent callers one wins,
    /// and the others' work is discarded. Incomplete files of ended processes are removed.
    pub(crate) fn install(
        &self,
        target: &Path,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        if target.exists() {
            return Ok(());
        }
        let partial = self.fill(target, fill)?;
        match partial.publish(target) {
            Err(_) if target.exists() => Ok(()),
            renamed => renamed.map_err(|e| Error::cache_file("write", target, e)),
        }
    }

    /// As [`install`](Self::install), but replaces an existing `target`.
    #[cfg(any(test, feature = "download"))]
    pub(crate) fn replace(
        &self,
        target: &Path,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let partial = self.fill(target, fill)?;
        self.remove(target)?;
        partial
            .publish(target)
            .map_err(|e| Error::cache_file("write", target, e))
    }

    /// Writes a file atomically, replacing an existing one.
    pub(crate) fn write(&self, target: &Path, bytes: &[u8]) -> Result<()> {
        sweep(target);
        let partial = Partial::new(target, Shape::File)?;
        fs::write(&partial.path, bytes)
            .and_then(|()| partial.publish(target))
            .map_err(|e| Error::cache_file("write", target, e))
    }

    /// Removes a file or a folder atomically.
    pub(crate) fn remove(&self, target: &Path) -> Result<()> {
        let away = partial_path(target);
        match fs::rename(target, &away) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(|e| Error::cache_file("remove", target, e))?,
        }
        match remove_all(&away) {
            Err(_) if !away.exists() => Ok(()),
            removed => removed.map_err(|e| Error::cache_file("remove", &away, e)),
        }
    }

    fn fill(&self, target: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Partial> {
        sweep(target);
        let partial = Partial::new(target, Shape::Folder)?;
        fill(&partial.path).map_err(|error| error.when_full(target))?;
        Ok(partial)
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, File)> {
        self.prepare()?;
        let path = self.root.join(format!("{name}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| Error::cache_file("open", &path, e))?;
        Ok((path, file))
    }

    /// Creates the root if necessary, and checks it.
    fn prepare(&self) -> Result<()> {
        if !self.root.exists() {
            let mode = match self.reach {
                Reach::Owner => 0o700,
                Reach::Everyone => 0o755,
            };
            if let Some(parent) = self.root.parent() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o755)
                    .create(parent)
                    .map_err(|e| Error::cache_not_made(&self.root, e))?;
            }
            make_folder(&self.root, mode).map_err(|e| Error::cache_not_made(&self.root, e))?;
        }
        self.check()
    }

    /// Returns an error for a root where other users could replace programs that we run.
    pub(crate) fn check(&self) -> Result<()> {
        let mode = check_owner(&self.root)?;
        if mode & 0o002 != 0 {
            return Err(Error::cache_open_to_all(&self.root));
        }
        Ok(())
    }
}

/// The variables and entries that determine the location of the cache.
struct CacheEnvironment {
    /// `LOOKASIDE_CACHE`.
    named: Option<OsString>,
    /// `XDG_CACHE_HOME`.
    xdg: Option<OsString>,
    /// `HOME`, or the home folder in the user database.
    home: Option<OsString>,
}

impl CacheEnvironment {
    fn of_process() -> Self {
        Self {
            named: env::var_os("LOOKASIDE_CACHE"),
            xdg: env::var_os("XDG_CACHE_HOME"),
            home: env::var_os("HOME")
                .filter(|home| Path::new(home).is_absolute())
                .or_else(|| {
                    home_of(
                        rustix::process::geteuid().as_raw(),
                        &fs::read("/etc/passwd").ok()?,
                    )
                }),
        }
    }

    fn root(self, reach: Reach) -> Result<PathBuf> {
        if let Some(named) = self.named.filter(|named| !named.is_empty()) {
            return Ok(named.into());
        }
        if reach == Reach::Everyone {
            return Ok(SHARED_ROOT.into());
        }
        // The XDG specification says to ignore a relative path.
        let xdg = self.xdg.map(PathBuf::from).filter(|xdg| xdg.is_absolute());
        let home = self.home.filter(|home| !home.is_empty());
        match (xdg, home) {
            (Some(xdg), _) => Ok(xdg.join("lookaside")),
            (None, Some(home)) => Ok(Path::new(&home).join(".cache/lookaside")),
            (None, None) => Err(Error::cache_nowhere()),
        }
    }
}

/// The home folder of a user in the text of a user database (passwd(5)).
fn home_of(uid: u32, users: &[u8]) -> Option<OsString> {
    users.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        let found = fields.nth(2)?;
        let home = fields.nth(2)?;
        (found == uid.to_string().as_bytes()).then(|| OsString::from_vec(home.to_vec()))
    })
}

/// An incomplete file or folder, which is removed unless it is renamed.
struct Partial {
    path: PathBuf,
    is_published: bool,
    /// Held as long as a process works on it. Unlike a process number it is valid across containers.
    _lock: File,
}

#[derive(Clone, Copy)]
enum Shape {
    File,
    Folder,
}

impl Partial {
    fn new(target: &Path, shape: Shape) -> Result<Self> {
        loop {
            let path = partial_path(target);
            let made = match shape {
                Shape::File => File::create_new(&path).map(drop),
                Shape::Folder => fs::create_dir(&path)
                    .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755))),
            };
            if let Err(e) = made {
                match e.kind() {
                    // Another container, whose process has our number.
                    io::ErrorKind::AlreadyExists => continue,
                    // A sweep came between making and opening to others.
                    io::ErrorKind::NotFound if target.parent().is_some_and(Path::exists) => {
                        continue;
                    }
                    _ => {}
                }
                return Err(Error::cache_file("make", &path, e));
            }
            // A sweep may have removed it between creation and locking; then another name is tried.
            let lock = match File::open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| Error::file("open", &path, e))?,
            };
            match lock.try_lock() {
                Ok(()) if path.exists() => {
                    return Ok(Self {
                        path,
                        is_published: false,
                        _lock: lock,
                    });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(e)) => return Err(Error::file("lock", &path, e)),
            }
        }
    }

    /// Renames it to its final path.
    fn publish(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_published {
            // The next sweep tries again to remove it.
            let _ = remove_half_made(&self.path);
        }
    }
}

fn partial_path(target: &Path) -> PathBuf {
    // Relaxed: only uniqueness matters.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = target.as_os_str().to_os_string();
    name.push(format!("{PARTIAL}{}-{number}", process::id()));
    name.into()
}

/// Removes incomplete files of ended processes for `target`.
fn sweep(target: &Path) {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return;
    };
    let mut prefix = name.to_os_string();
    prefix.push(PARTIAL);
    // A folder that cannot be read is reported by the next write into it.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if starts_with(&entry.file_name(), &prefix) {
            remove_if_abandoned(&entry.path());
        }
    }
}

/// Removes an incomplete file that no process works on any more.
fn remove_if_abandoned(partial: &Path) {
    if let Ok(left) = File::open(partial)
        && left.try_lock().is_ok()
    {
        let _ = remove_half_made(partial);
    }
}

/// Whether a name is one of an incomplete file.
pub(crate) fn is_partial(name: &str) -> bool {
    name.contains(PARTIAL)
}

fn starts_with(name: &OsStr, prefix: &OsStr) -> bool {
    name.as_encoded_bytes()
        .starts_with(prefix.as_encoded_bytes())
}

/// Removes an incomplete file or folder. In one of a template an orphaned server may still run.
fn remove_half_made(path: &Path) -> io::Result<()> {
    end_and_free(&path.join(DATA));
    remove_all(path)
}

fn remove_all(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Creates a folder with exactly this mode, regardless of the umask.
fn make_folder(path: &Path, mode: u32) -> Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode))
            .map_err(|e| Error::cache_file("make", path, e)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Error::cache_file("make", path, e)),
    }
}

/// Returns an error for a folder of another user; otherwise returns its mode.
fn check_owner(folder: &Path) -> Result<u32> {
    let metadata = fs::metadata(folder).map_err(|e| Error::file("read", folder, e))?;
    let me = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        return Err(Error::cache_no_folder(folder));
    }
    if metadata.uid() != me {
        return Err(Error::cache_of_other(folder, metadata.uid(), me));
    }
    Ok(metadata.mode())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn open() -> (tempfile::TempDir, Cache, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let cache = Cache::open_at(temporary.path().join("cache"));
        let folder = cache.folder("part").unwrap();
        (temporary, cache, folder)
    }

    #[test]
    fn the_place_follows_the_variables() {
        let check = |named: &str, xdg: &str, home: &str, reach, expected: Option<&str>| {
            let text = |text: &str| (!text.is_empty()).then(|| text.into());
            let cache_environment = CacheEnvironment {
                named: text(named),
                xdg: text(xdg),
                home: text(home),
            };
            let root = cache_environment.root(reach).ok();
            assert_eq!(
                root.as_deref(),
                expected.map(Path::new),
                "{named} {xdg} {home}"
            );
        };
        let (owner, everyone) = (Reach::Owner, Reach::Everyone);
        check("/a", "/x", "/h", owner, Some("/a"));
        check("/a", "/x", "/h", everyone, Some("/a"));
        check("", "/x", "/h", everyone, Some("/var/cache/lookaside"));
        check("", "/x", "/h", owner, Some("/x/lookaside"));
        check("", "x", "/h", owner, Some("/h/.cache/lookaside"));
        check("", "", "/h", owner, Some("/h/.cache/lookaside"));
        check("", "x", "", owner, None);
        let error = CacheEnvironment {
            named: None,
            xdg: None,
            home: None,
        }
        .root(owner)
        .unwrap_err();
        assert!(error.to_string().contains("LOOKASIDE_CACHE"), "{error}");
    }

    #[test]
    fn a_home_is_read_from_the_list_of_users() {
        let users =
            b"root:x:0:0:root:/root:/bin/sh\nbroken\nuser:x:1000:1000::/users/us er:/bin/sh\n";
        for (uid, home) in [
            (0, Some("/root")),
            (1000, Some("/users/us er")),
            (1, None),
            (100, None),
        ] {
            assert_eq!(home_of(uid, users), home.map(OsString::from), "{uid}");
        }
    }

    #[test]
    fn only_an_own_folder_closed_to_others_is_used() {
        let (_temporary, cache, _) = open();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(cache.root()), 0o700);
        assert_eq!(mode(&cache.folder("a/b").unwrap()), 0o755);

        fs::set_permissions(cache.root(), Permissions::from_mode(0o777)).unwrap();
        let error = cache.folder("a").unwrap_err().to_string();
        assert!(error.contains("chmod o-w"), "{error}");
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(cache.root(), Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(cache.root(), Some(12345), None).unwrap();
            let error = cache.lock("a").unwrap_err().to_string();
            assert!(error.contains("12345"), "{error}");
        }
    }

    #[test]
    fn a_cache_that_cannot_be_made_names_the_way_out() {
        // A place where not even root can create a folder, as in a read-only home.
        for root in ["/proc/self/cache", "/proc/self/a/cache"] {
            let error = Cache::open_at(root.into()).folder("pg").unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains("LOOKASIDE_CACHE") && error.contains(root),
                "{error}"
            );
        }
    }

    #[test]
    fn a_failed_fill_leaves_nothing() {
        let (_temporary, cache, folder) = open();
        let target = folder.join("thing");
        let error = cache
            .install(&target, |partial| {
                fs::write(partial.join("half"), "x").unwrap();
                Err(Error::cache_nowhere())
            })
            .unwrap_err();
        assert!(error.to_string().contains("LOOKASIDE_CACHE"));
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn of_many_who_install_one_wins_and_everyone_is_served() {
        let (_temporary, cache, folder) = open();
        let target = folder.join("thing");
        let barrier = Barrier::new(16);
        thread::scope(|scope| {
            for number in 0..16 {
                let (cache, target, barrier) = (&cache, &target, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let fill = |partial: &Path| {
                        for file in ["a", "b"] {
                            fs::write(partial.join(file), number.to_string()).unwrap();
                            thread::yield_now();
                        }
                        Ok(())
                    };
                    cache.install(target, fill).unwrap();
                    let read = |file| fs::read_to_string(target.join(file)).unwrap();
                    assert_eq!(read("a"), read("b"));
                });
            }
        });
        assert_eq!(names(&folder), ["thing"]);
    }

    #[test]
    fn partial_files_of_ended_processes_are_swept_and_others_are_not() {
        let (_temporary, cache, folder) = open();
        let target = folder.join("thing");
        fs::create_dir(folder.join("thing.partial-1-0")).unwrap();
        fs::write(folder.join("thing.partial-1-0/x"), "x").unwrap();
        fs::write(folder.join("thing.partial-1-1"), "x").unwrap();
        fs::write(folder.join("other.partial-1-1"), "x").unwrap();
        let living = Partial::new(&target, Shape::Folder).unwrap();

        cache.install(&target, |_| Ok(())).unwrap();
        assert!(living.path.exists());
        assert_eq!(names(&folder).len(), 3);
        drop(living);
        assert_eq!(names(&folder), ["other.partial-1-1", "thing"]);
    }

    #[test]
    fn replacing_and_removing_go_over_what_is_there() {
        let (_temporary, cache, folder) = open();
        let target = folder.join("thing");
        for text in ["one", "two"] {
            let fill = |partial: &Path| {
                fs::write(partial.join("file"), text).unwrap();
                Ok(())
            };
            cache.replace(&target, fill).unwrap();
            assert_eq!(fs::read_to_string(target.join("file")).unwrap(), text);
        }
        cache.write(&folder.join("file"), b"1").unwrap();
        cache.write(&folder.join("file"), b"2").unwrap();
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"2");
        cache.remove(&target).unwrap();
        cache.remove(&target).unwrap();
        cache.remove(&folder.join("file")).unwrap();
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let (_temporary, cache, _) = open();
        let lock = cache.lock("work").unwrap();
        assert!(cache.try_lock("work").unwrap().is_none());
        assert!(cache.try_lock("other").unwrap().is_some());
        drop(lock);
        assert!(cache.try_lock("work").unwrap().is_some());
    }
}
