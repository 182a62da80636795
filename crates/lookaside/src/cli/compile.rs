//! `lookaside compile`: writes the compiled form of a project's tables.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use lookaside_knowledge::{Compiled, TableReport, compile};

use crate::cli::output::write_stdout;
use crate::failure::{CommandResult, Exit, Failure};
use crate::numbers::grouped;
use crate::progress::LoadBar;
use crate::project::{Project, statements};

/// Write the compiled form of tables, for faster starts
#[derive(Debug, Args)]
#[command(
    long_about = "\
Write the compiled form of tables, for faster starts

Loads every table, and writes the rows of those of CSV files, whatever their size, and the indexes that
the models and lookups of the project need, into the folder that [default] compiled sets. While the data,
the SQL and the configuration are the same, each later start reads these files instead of the data.
Large tables are compiled by each load; the command is for images and read-only folders. Only the user
who runs it may read the files. Prints the rows of each table, the size of its compiled form and the
time, or why it has none, and the size of all files with those of the indexes.",
    after_help = "\
Examples:
  lookaside compile my-project"
)]
pub(crate) struct CompileArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,
}

pub(crate) fn run(arguments: &CompileArguments) -> CommandResult {
    let config = Project::open(&arguments.dir)?.config;
    let Some(folder) = &config.compiled else {
        let failure = format!("{}: [default] compiled is false", config.file.display());
        return Err(Failure::new(failure).with_help("set it to true, or to a folder"));
    };
    let statements = statements(&config.file);
    let report = compile(&config, &statements, &LoadBar::new())
        .map_err(|error| Failure::from_error(&error))?;
    write_stdout(|out| {
        for table in &report.tables {
            writeln!(out, "{}", line(table))?;
        }
        // Tables that are not written are reported below.
        let Ok((count, size)) = files(folder) else {
            return Ok(());
        };
        let (folder, size) = (folder.display(), grouped(size));
        writeln!(out, "{folder}: {count} files, {size} bytes")
    })?;
    let failed = report
        .tables
        .iter()
        .find_map(|table| match &table.compiled {
            Compiled::Failed(error) => Some((&table.name, error)),
            _ => None,
        });
    match failed {
        None => Ok(Exit::Done),
        Some((table, error)) => {
            let folder = folder.display();
            let failure = format!("the compiled form of table {table} is not written: {error}");
            Err(Failure::new(failure).with_help(format!(
                "make {folder} writable, or set [default] compiled to another folder"
            )))
        }
    }
}

/// The number of files in a folder, and their size in bytes. There are none if nothing was compiled.
fn files(folder: &Path) -> io::Result<(u64, u64)> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries?,
    };
    let (mut count, mut size) = (0, 0);
    for entry in entries {
        count += 1;
        size += entry?.metadata()?.len();
    }
    Ok((count, size))
}

/// Describes what became of a table.
fn line(table: &TableReport) -> String {
    let (name, rows) = (&table.name, grouped(table.rows));
    let millis = table.elapsed.as_secs_f64() * 1e3;
    let how = match &table.compiled {
        Compiled::Written(size) => {
            format!("compiled to {} bytes in {millis:.0} ms", grouped(*size))
        }
        Compiled::Read(size) => format!("already compiled, {} bytes", grouped(*size)),
        Compiled::Failed(_) => "not compiled".to_owned(),
        _ => match table.loaded_by_sqlite {
            Some(why) => format!("not compiled, as SQLite has loaded it: {why}"),
            None => "not compiled, as its data changed during the load".to_owned(),
        },
    };
    format!("table {name}: {rows} rows, {how}")
}
