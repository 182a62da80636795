//! `lookaside pg run`: runs a command with its own PostgreSQL.

use std::ffi::OsString;
use std::process::Command;

use clap::Args;
use lookaside_embedded::Postgres;

use super::child::{Foreground, exit_after};
use super::environment::lead;
use super::options::DatabaseOptions;
use super::template::TemplateOptions;
use crate::failure::{CommandResult, Exit, Failure};

/// The exit status of our own failures, the same that `timeout`, `env` and others use.
const EXIT_OURS: Exit = Exit::Passed(125);

/// Run a command with its own PostgreSQL
///
/// Starts a temporary server that listens on 127.0.0.1, sets DATABASE_URL, JDBC_DATABASE_URL,
/// PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE and PGSSLMODE for the command, and removes the
/// server and all of its data when the command has ended, regardless of how it ends. Ctrl-C and
/// other signals are forwarded to the command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg run -- cargo test
  lookaside pg run --migrations migrations --extension pg_trgm -- npm test
  lookaside pg run --template-command 'alembic upgrade head' --template-key-files 'migrations/**' -- pytest
  lookaside pg run --sql seed.sql -- sh -c 'pgbench -i && pgbench'
  lookaside pg run -- sh -c 'DB=$(lookaside pg url --format sqlalchemy-asyncpg) pytest'

Exit codes:
  that of the command, or 128 plus the number of the signal that killed it; 125 if the server could
  not be started, 126 if the command cannot be executed, 127 if the command was not found")]
pub(super) struct RunArguments {
    #[command(flatten)]
    options: DatabaseOptions,

    #[command(flatten)]
    template: TemplateOptions,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: &RunArguments) -> CommandResult {
    let server = start(arguments).map_err(|failure| failure.with_exit(EXIT_OURS))?;
    let ended = command(arguments, &server).and_then(|mut command| {
        let mut foreground = Foreground::take()?;
        let status = foreground.run(&mut command)?;
        // Returned, so that a second Ctrl-C does not interrupt the cleanup.
        Ok((exit_after(status), foreground))
    });
    if let Err(error) = server.close() {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the server could not be stopped cleanly"
        );
    }
    ended.map(|(exit, _)| exit)
}

fn start(arguments: &RunArguments) -> Result<Postgres, Failure> {
    let builder = arguments.template.add_to(arguments.options.builder()?)?;
    let started = builder.fresh_cluster().tcp().start();
    started.map_err(|error| arguments.options.failure(&error))
}

fn command(arguments: &RunArguments, server: &Postgres) -> Result<Command, Failure> {
    let url = server
        .tcp_url()
        .expect("the server was asked to listen on TCP");
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap wants a command");
    let mut command = Command::new(program);
    command.args(rest);
    lead(&mut command, &url)?;
    Ok(command)
}
