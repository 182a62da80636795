//! Rotation of an output file: it is renamed, and another one begins under its name.
//!
//! The steps, after which a killed run leaves a state that the next one continues from:
//!
//! 1. The file is renamed. The name does not exist, and a checkpoint refers to the renamed file, of
//!    which every byte belongs to it.
//! 2. The next file is created under the name. It is empty.
//! 3. The checkpoint is stored with the next file (by the caller), which is not written to before.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::growing::GrowingFile;
use crate::file_identity::{FileIdentity, folder_of, identity};
use crate::rotated_name::{self, RotatedName};

impl GrowingFile {
    /// Whether the file is to be rotated at this time, or before `size` more bytes are written.
    pub(super) fn is_due(&self, size: usize, now: SystemTime) -> bool {
        let Some(rotation) = &self.rotation else {
            return false;
        };
        let is_full = rotation
            .size
            .is_some_and(|size_max| size > 0 && self.size + size as u64 > size_max.get());
        self.has_events && (is_full || self.due.is_some_and(|due| due <= now))
    }

    /// Renames the file and begins the next one.
    pub(super) fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let metadata = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(found) if identity(&found) == self.identity => self.rename(now)?,
            Ok(_) => {
                let message = "another file has got its name; move that away";
                return Err(io::Error::other(message));
            }
            // Something else has renamed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        let file = options.open(&self.path)?;
        file.set_permissions(metadata.permissions())?;
        self.begin_next(file)
    }

    fn rename(&mut self, now: SystemTime) -> io::Result<()> {
        let mut name = RotatedName::at(now);
        if let Some(last) = self.rotated.take().filter(|last| *last >= name) {
            // Also if the clock was set back: the names are in the order of the files.
            name = last.next();
        }
        let own_name = self.path.file_name().unwrap_or_default().as_bytes();
        loop {
            let rotated = name.of(own_name);
            let path = self.path.with_file_name(OsStr::from_bytes(&rotated));
            match rename_new(&self.path, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name = name.next(),
                renamed => {
                    self.rotated = Some(name);
                    return renamed;
                }
            }
        }
    }

    /// Removes the oldest rotated files that are not in use, if only some are kept; returns a warning
    /// if that fails.
    pub(super) fn remove_old(&self, is_in_use: &dyn Fn(&FileIdentity) -> bool) -> Option<String> {
        let keep = self.rotation.and_then(|rotation| rotation.keep)?;
        let removed = rotated_files(&self.path, is_in_use).and_then(|files| {
            let excess = files.len().saturating_sub(keep.get());
            files[..excess]
                .iter()
                .try_for_each(|path| match fs::remove_file(path) {
                    // Another program has removed it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    removed => removed,
                })
        });
        let error = removed.err()?;
        let path = self.path.display();
        Some(format!(
            "old rotated files of `{path}` cannot be removed: {error}"
        ))
    }
}

/// The rotated files of the file with this path that are not in use, the oldest first.
fn rotated_files(
    path: &Path,
    is_in_use: &dyn Fn(&FileIdentity) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let own_name = path.file_name().unwrap_or_default().as_bytes();
    let folder = folder_of(path);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(name) = rotated_name::parse(own_name, entry.file_name().as_bytes())
            && entry.file_type()?.is_file()
            && !FileIdentity::of_path(&entry.path()).is_some_and(|it| is_in_use(&it))
        {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Renames a file to a name that does not exist.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Not supported by the file system. Only a file of this name that another program creates
        // right now would be replaced.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        Err(error) => Err(error.into()),
    }
}
