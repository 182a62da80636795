//! `lookaside feed`: what a PostgreSQL server needs for the change feed of a provider.

mod drop;
mod lookups;
mod provider;
mod record;
pub(crate) mod report;
mod requirements;
mod script;
mod server;
mod setup;
mod status;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::CommandResult;

/// Set up, check and remove what the change feed of a PostgreSQL provider needs
///
/// With `feed = "auto"`, a provider's cached answers are invalidated when their rows change. For that
/// the server needs `wal_level = logical`, a publication of the tables that the lookups read, and a
/// user with the right to replicate. If something is missing, lookups still work, and the age of an
/// answer alone counts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside feed status my-project
  lookaside feed setup my-project --print > feed.sql      # for a DBA
  PGPASSWORD=… lookaside feed setup my-project --url postgres://postgres@db1/shop
  lookaside feed drop my-project --url postgres://postgres@db1/shop")]
pub(crate) struct FeedArguments {
    #[command(subcommand)]
    command: FeedCommand,
}

#[derive(Debug, Subcommand)]
enum FeedCommand {
    Setup(setup::SetupArguments),
    Status(status::StatusArguments),
    Drop(drop::DropArguments),
}

/// What all commands take.
#[derive(Debug, Args)]
struct ServerArguments {
    /// The project: a folder with a knowdb.toml, or the path of that file
    #[arg(default_value = ".")]
    dir: PathBuf,

    /// The provider, if the project has several PostgreSQL providers
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// The database of the provider as another user, such as a superuser; missing parts are taken from
    /// PGPASSWORD, PGHOST and the like. By default, the provider's own connection_uri is used
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

pub(crate) fn run(arguments: &FeedArguments) -> CommandResult {
    match &arguments.command {
        FeedCommand::Setup(arguments) => setup::run(arguments),
        FeedCommand::Status(arguments) => status::run(arguments),
        FeedCommand::Drop(arguments) => drop::run(arguments),
    }
}
