//! `lookaside pg run`: a command with a PostgreSQL of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use lookaside_embedded::{Postgres, VersionRequirement};

use super::bar::DownloadBar;
use super::child::{Foreground, exit_after};
use super::target::Target;
use super::{Setting, failure, read_setting};
use crate::cli::failure::{Exit, Failure, Outcome};

/// Our own failures, as `timeout`, `env` and others tell them from those of their command.
const EXIT_OURS: Exit = Exit::Passed(125);

/// What the library calls the SQL of `Builder::sql` in its errors, before the line.
const SQL_LABEL: &str = "the initial SQL";

/// Run a command with a PostgreSQL of its own
///
/// Starts a temporary server that listens on 127.0.0.1, sets DATABASE_URL, PGHOST, PGPORT, PGUSER,
/// PGPASSWORD and PGDATABASE for the command, and removes the server and all of its data when the
/// command has ended, however it ends. Ctrl-C and other signals reach the command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg run -- cargo test
  lookaside pg run --migrations migrations --extension pg_trgm -- npm test
  lookaside pg run --sql seed.sql -- sh -c 'pgbench -i && pgbench'

Exit codes:
  that of the command, 128 and the signal's number when a signal killed it,
  125 when the server could not be started, 126 when the command cannot be run, 127 when there is
  no such command")]
pub(super) struct RunArguments {
    /// Which PostgreSQL: a major version such as 17, or exactly one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,

    /// A file with SQL that runs before the command; not the SQL itself
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,

    /// A folder with migrations, applied in the order of their numbers before the command
    #[arg(long, value_name = "DIR")]
    migrations: Option<PathBuf>,

    /// An extension that is created before the command; can be repeated
    #[arg(long, value_name = "NAME")]
    extension: Vec<String>,

    /// A setting of the server, as in postgresql.conf; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_setting)]
    set: Vec<Setting>,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: &RunArguments) -> Outcome {
    let server = start(arguments).map_err(|failure| failure.with_exit(EXIT_OURS))?;
    let ended = command(arguments, &server).and_then(|mut command| {
        let mut foreground = Foreground::take()?;
        let status = foreground.run(&mut command)?;
        // Still held: a second Ctrl-C must not come between the command and the cleaning up.
        Ok((exit_after(status), foreground))
    });
    if let Err(error) = server.close() {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the server did not end well"
        );
    }
    ended.map(|(exit, _)| exit)
}

fn start(arguments: &RunArguments) -> Result<Postgres, Failure> {
    let mut builder = Postgres::builder()
        .fresh_cluster()
        .tcp()
        .progress(Arc::new(DownloadBar::new()));
    if let Some(version) = arguments.pg_version {
        builder = builder.version(version);
    }
    if let Some(file) = &arguments.sql {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::new(format!("cannot read `{}`", file.display()))
                .because(&error)
                .with_help("--sql takes the name of a file that holds the SQL")
        })?;
        builder = builder.sql(&text);
    }
    if let Some(folder) = &arguments.migrations {
        builder = builder.migrations(folder);
    }
    for name in &arguments.extension {
        builder = builder.extension(name);
    }
    for (name, value) in &arguments.set {
        builder = builder.setting(name, value);
    }
    builder.start().map_err(|error| {
        let failure = failure(&error);
        match &arguments.sql {
            None => failure,
            // The library was given text and knows no file.
            Some(file) => failure.rename(SQL_LABEL, &format!("`{}`", file.display())),
        }
    })
}

fn command(arguments: &RunArguments, server: &Postgres) -> Result<Command, Failure> {
    let url = server
        .tcp_url()
        .expect("the server was asked to listen on TCP");
    let target: Target = url.parse().map_err(Failure::new)?;
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap wants a command");
    let mut command = Command::new(program);
    command.args(rest);
    command.env("DATABASE_URL", url);
    target.give_to(&mut command);
    Ok(command)
}
