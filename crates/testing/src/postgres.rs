//! Crashes of embedded PostgreSQL servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kills the PostgreSQL server whose files are in a folder by SIGKILL, as a crash would.
///
/// # Panics
///
/// If no server runs there.
pub fn kill_postgres(folder: &Path) {
    let file = find(folder, "postmaster.pid").expect("a server runs in the folder");
    let text = fs::read_to_string(file).expect("its file can be read");
    let pid = text.lines().next().expect("the first line is its number");
    let killed = Command::new("kill").args(["-9", pid]).status();
    assert!(killed.is_ok_and(|status| status.success()), "it is killed");
}

/// The file of this name in a folder or in a folder of it.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<_> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let own = entries.iter().find(|path| path.ends_with(name)).cloned();
    own.or_else(|| entries.iter().find_map(|path| find(path, name)))
}
