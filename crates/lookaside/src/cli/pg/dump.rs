//! `lookaside pg dump` and `restore`: write a data folder to one file, and back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use lookaside_embedded::{Postgres, Status};

use super::failure;
use super::instance::{at, no_data};
use super::shell_word::shell_path;
use crate::failure::{CommandResult, Exit, Failure};
use crate::progress::download::DownloadBar;

/// Write a folder's data to a file
///
/// FILE.tar.zst is an archive of the folder: fast to write and to restore, but only for the same
/// major version of PostgreSQL. FILE.sql is the output of pg_dump, without roles: readable text
/// that can be loaded into the same or a newer major version.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg dump ./data backup.tar.zst
  lookaside pg dump ./data backup.sql           # needs pg_dump of the server's version")]
pub(super) struct DumpArguments {
    /// The data folder
    dir: PathBuf,

    /// The file to write: its name ends in .tar.zst or .sql
    file: PathBuf,
}

/// Create a data folder from a file that `pg dump` wrote
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lookaside pg restore backup.tar.zst ./copy && lookaside pg start ./copy")]
pub(super) struct RestoreArguments {
    /// The file to read, which ends in .tar.zst
    file: PathBuf,

    /// The folder to create; an existing one must be empty
    dir: PathBuf,
}

const PHYSICAL: &str = ".tar.zst";
const LOGICAL: &str = ".sql";

pub(super) fn dump(arguments: &DumpArguments) -> CommandResult {
    if !ends(&arguments.file, PHYSICAL) && !ends(&arguments.file, LOGICAL) {
        return Err(Failure::usage(format!(
            "{}: the suffix of the file name determines the form: {PHYSICAL} or {LOGICAL}",
            arguments.file.display()
        )));
    }
    let instance = at(&arguments.dir)?;
    if instance.status().map_err(|error| failure(&error))? == Status::Absent {
        return Err(no_data(&arguments.dir));
    }
    // A bare file name has an empty parent: the current folder.
    if let Some(parent) = arguments.file.parent()
        && !parent.as_os_str().is_empty()
        && !parent.exists()
    {
        let message = format!("there is no folder `{}`", parent.display());
        let help = format!("create it with `mkdir -p {}`", shell_path(parent));
        return Err(Failure::new(message).with_help(help));
    }
    instance
        .dump(&arguments.file)
        .map_err(|error| failure(&error))?;
    Ok(Exit::Done)
}

pub(super) fn restore(arguments: &RestoreArguments) -> CommandResult {
    if ends(&arguments.file, LOGICAL) {
        let (file, dir) = (shell_path(&arguments.file), shell_path(&arguments.dir));
        let message = format!("{} is SQL, not an archive", arguments.file.display());
        let help =
            format!("`lookaside pg start {dir} --sql {file}` creates a folder with its contents");
        return Err(Failure::usage(message).with_help(help));
    }
    let instance = at(&arguments.dir)?;
    let status = instance.status().map_err(|error| failure(&error))?;
    if status != Status::Absent {
        let folder = instance.folder().display();
        return Err(Failure::new(format!("{folder} already contains data"))
            .with_help("name a folder that does not exist yet"));
    }
    Postgres::builder()
        .path(&arguments.dir)
        .restore(&arguments.file)
        .progress(Arc::new(DownloadBar::new()))
        .start()
        .and_then(Postgres::close)
        .map_err(|error| failure(&error))?;
    Ok(Exit::Done)
}

fn ends(file: &Path, end: &str) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.as_encoded_bytes().ends_with(end.as_bytes())
}
