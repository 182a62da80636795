//! A user without an entry in `/etc/passwd`, as containers are often run (`docker run -u 54321`,
//! OpenShift): the server runs as such a user, but `initdb` fails if it finds no name for it.
//!
//! A small preloaded shared object answers instead of the C library. Unlike a user namespace, it
//! needs no privilege that containers withhold.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// Defines `getpwuid`; compiled from `passwd_entry.c`. Empty if it could not be compiled.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/passwd_entry.so"));

/// The object in a file, removed on drop.
pub(crate) struct PasswdEntry {
    path: PathBuf,
}

impl PasswdEntry {
    /// Writes the object into `folder`, if this user has no entry and needs it.
    pub(crate) fn write_if_missing(folder: &Path) -> Result<Option<Self>> {
        let uid = rustix::process::geteuid().as_raw();
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        if OBJECT.is_empty() || has_entry(uid, &users) {
            return Ok(None);
        }
        let path = folder.join("passwd_entry.so");
        fs::write(&path, OBJECT).map_err(|error| Error::file("write", &path, error))?;
        Ok(Some(Self { path }))
    }

    /// Sets `LD_PRELOAD` of a command to it.
    pub(crate) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.path);
    }
}

impl Drop for PasswdEntry {
    fn drop(&mut self) {
        // A file that remains is in a folder of the cache, and does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

fn has_entry(uid: u32, users: &str) -> bool {
    let uid = uid.to_string();
    users
        .lines()
        .any(|line| line.split(':').nth(2) == Some(&*uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1000:54321::/:/bin/sh\n";
        for (uid, expected) in [(0, true), (1000, true), (54321, false), (100, false)] {
            assert_eq!(has_entry(uid, users), expected, "{uid}");
        }
    }
}
