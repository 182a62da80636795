//! `lookaside new`: creates a project folder that is ready to run.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::output::finish_stdout;
use crate::failure::{CommandResult, Failure};

/// Create a project folder that can be run immediately
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lookaside new my-events && lookaside enrich my-events")]
pub(crate) struct NewArguments {
    /// The folder to create; an existing one must be empty
    dir: PathBuf,
}

/// The files of a new project, in reading order.
const FILES: [(&str, &str); 5] = [
    (
        "knowdb.toml",
        include_str!("../../templates/new/knowdb.toml"),
    ),
    (
        "hosts/data.csv",
        include_str!("../../templates/new/hosts/data.csv"),
    ),
    (
        "models/events.oml",
        include_str!("../../templates/new/models/events.oml"),
    ),
    (
        "models/events.test.jsonl",
        include_str!("../../templates/new/models/events.test.jsonl"),
    ),
    (
        "events.json",
        include_str!("../../templates/new/events.json"),
    ),
];

pub(crate) fn run(arguments: &NewArguments) -> CommandResult {
    let dir = &arguments.dir;
    if !is_vacant(dir)? {
        return Err(Failure::new(format!("{} is not empty", dir.display()))
            .with_help("name a folder that does not exist yet"));
    }
    for (name, text) in FILES {
        write_file(&dir.join(name), text)?;
    }
    finish_stdout(|out| {
        for (name, _) in FILES {
            writeln!(out, "{}", dir.join(name).display())?;
        }
        writeln!(out, "\nRun it:  lookaside enrich {}", dir.display())
    })
}

fn is_vacant(dir: &Path) -> Result<bool, Failure> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Failure::new(format!("cannot use {}", dir.display())).because(&error)),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().expect("every file is inside the folder");
    fs::create_dir_all(parent)
        // Nothing is overwritten, even if the command runs twice at once.
        .and_then(|()| fs::File::create_new(path))
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("cannot write {}", path.display())).because(&error))
}
