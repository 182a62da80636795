//! Locks on files, which the kernel releases when their holder ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::files::LOCK;
use crate::{Error, Result};

/// Locks the folder; `None` if it is locked already.
pub(crate) fn take_lock(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = open_lock(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(Error::file("lock", &path, error)),
    }
}

/// Whether no process has locked the folder. The check takes a shared lock, so that concurrent
/// checks do not disturb each other.
pub(crate) fn is_free(folder: &Path) -> Result<bool> {
    let path = folder.join(LOCK);
    let locked = match File::open(&path) {
        Ok(file) => file.try_lock_shared(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(Error::folder_access("open", &path, folder, error)),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(Error::file("lock", &path, error)),
    }
}

/// Writes the owner of a lock into its file.
pub(crate) fn sign(lock: &mut File, text: &str) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.write_all(text.as_bytes())
}

/// Like [`lock`], but shared with other holders.
pub(crate) fn lock_shared(path: &Path) -> Result<File> {
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

/// Opens a lock file, but not through a link, which the server's user could create in a cluster's
/// folder.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    let opened = lock_options().create(true).mode(0o600).open(path);
    opened.map_err(|error| Error::file("open", path, error))
}

/// The options for opening an existing lock file.
pub(crate) fn lock_options() -> OpenOptions {
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
}
