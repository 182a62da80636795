//! Programs on this machine: checks and output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, Result, process_limit};

/// Whether there is an executable file.
pub(super) fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Runs a program, and returns its first line of output.
pub(super) fn probe(program: &Path, argument: &str) -> Result<String> {
    let output = Command::new(program)
        .arg(argument)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| match process_limit::is_cause(&e) {
            true => Error::cannot_spawn(e),
            false => Error::program_fails(program, "it cannot be started").because(e),
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or_default();
        return Err(Error::program_fails(
            program,
            &format!("{}: {said}", output.status),
        ));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}
