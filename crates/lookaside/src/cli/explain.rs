//! `lookaside explain`: how a SQL statement is answered.

use std::path::PathBuf;

use clap::Args;

use crate::cli::output::finish_stdout;
use crate::cli::query::statement;
use crate::failure::{CommandResult, Failure};
use crate::project::Project;

/// Show how a SQL query is answered: by which index or provider, or why SQLite answers it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lookaside explain examples/access-log \"select name from users where login = :login\"")]
pub(crate) struct ExplainArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    dir: PathBuf,

    /// The statement; `-` reads it from standard input
    sql: String,
}

pub(crate) fn run(arguments: &ExplainArguments) -> CommandResult {
    let project = Project::open(&arguments.dir)?;
    let sql = statement(&arguments.sql)?;
    let explanation = project
        .load()?
        .explain(&sql)
        .map_err(|error| Failure::from_error(&error))?;
    finish_stdout(|out| writeln!(out, "{explanation}"))
}
