//! `lookaside pg`: a PostgreSQL that starts in milliseconds, for commands, tests and local work.

mod child;
mod clean;
mod doctor;
mod dump;
mod environment;
mod extension;
mod instance;
mod line_reader;
mod options;
mod prompt;
mod run;
mod shell;
mod shell_word;
mod statement;
mod target;
mod template;
mod url;

use clap::{Args, Subcommand};

use crate::failure::{CommandResult, Failure};

/// Start, query and dump an embedded PostgreSQL
///
/// The programs of the server are those in the folder LOOKASIDE_PG_BIN, otherwise those that were
/// fetched before, otherwise those of an installed PostgreSQL 14 or newer; if there are none, they
/// are fetched once. `lookaside pg doctor` reports what was found.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg run -- cargo test         a server for one command
  lookaside pg start ./data              a server that stays; prints its URL
  lookaside pg shell                     a temporary database to try things in")]
pub(crate) struct PgArguments {
    #[command(subcommand)]
    command: PgCommand,
}

#[derive(Debug, Subcommand)]
enum PgCommand {
    Run(run::RunArguments),
    Start(instance::StartArguments),
    /// Stop the server of a folder; its data stays
    Stop(instance::FolderArguments),
    /// Print whether the server of a folder is running; exit code 1 if it is not
    Status(instance::FolderArguments),
    Url(url::UrlArguments),
    List(instance::ListArguments),
    /// Remove a folder from the list until it is started again; its data stays
    Forget(instance::FolderArguments),
    Extension(extension::ExtensionArguments),
    Shell(shell::ShellArguments),
    Dump(dump::DumpArguments),
    Restore(dump::RestoreArguments),
    /// Report which PostgreSQL was found, what the cache contains, and what to do about each
    /// finding
    Doctor,
    Clean(clean::CleanArguments),
}

pub(crate) fn run(arguments: &PgArguments) -> CommandResult {
    match &arguments.command {
        PgCommand::Run(arguments) => run::run(arguments),
        PgCommand::Start(arguments) => instance::start(arguments),
        PgCommand::Stop(arguments) => instance::stop(arguments),
        PgCommand::Status(arguments) => instance::status(arguments),
        PgCommand::Url(arguments) => url::run(arguments),
        PgCommand::List(arguments) => instance::list(arguments),
        PgCommand::Forget(arguments) => instance::forget(arguments),
        PgCommand::Extension(arguments) => extension::run(arguments),
        PgCommand::Shell(arguments) => shell::run(arguments),
        PgCommand::Dump(arguments) => dump::dump(arguments),
        PgCommand::Restore(arguments) => dump::restore(arguments),
        PgCommand::Doctor => doctor::run(),
        PgCommand::Clean(arguments) => clean::run(arguments),
    }
}

/// A setting of the server and its value.
type Setting = (String, String);

fn read_setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, such as work_mem=64MB".to_owned()),
    }
}

/// Converts an error of the embedded server; its text already contains a hint.
fn failure(error: &lookaside_embedded::Error) -> Failure {
    Failure::from_error(error)
}

/// Converts an error of the client: the server's own message, or why it cannot be reached.
fn client_failure(error: &lookaside_client::Error) -> Failure {
    let Some(refusal) = error.server() else {
        return Failure::from_error(error);
    };
    let sqlstate = refusal.sqlstate().map(|state| format!(" ({state})"));
    let mut failure = Failure::new(format!(
        "{}{}",
        refusal.message().unwrap_or_default(),
        sqlstate.unwrap_or_default()
    ));
    if let Some(detail) = refusal.detail() {
        failure = failure.with_excerpt(format!("  detail: {detail}"));
    }
    match refusal.hint() {
        Some(hint) => failure.with_help(hint),
        None => failure,
    }
}
