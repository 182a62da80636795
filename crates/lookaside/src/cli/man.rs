//! `lookaside man`: manual pages for man(1), generated from the texts of `--help`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::cli::Arguments;
use crate::cli::output::finish_stdout;
use crate::failure::{CommandResult, Exit, Failure};

/// Print the manual page, or write the pages of all commands
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside man | man -l -
  lookaside man ~/.local/share/man/man1    then: man lookaside-enrich")]
pub(crate) struct ManArguments {
    /// A folder for the pages, one per command; it is created if it does not exist
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ManArguments) -> CommandResult {
    let command = Arguments::command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::new("cannot write the manual page").because(&error))?;
        return finish_stdout(|out| out.write_all(&page));
    };
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| {
            Failure::new(format!("cannot write manual pages to {}", folder.display()))
                .because(&error)
        })?;
    Ok(Exit::Done)
}
