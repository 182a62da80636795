//! `lookaside key`: API keys for `lookaside serve`.

use std::io::Write as _;

use clap::{Args, Subcommand, value_parser};

use crate::cli::output::finish_stdout;
use crate::config::{PER_SECOND_MAX, key_name};
use crate::failure::{CommandResult, Failure};
use crate::keys::new_key;

/// Generate keys for `lookaside serve`
#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    New(NewArguments),
}

/// Generate a key, and the lines of knowdb.toml that accept it
#[derive(Debug, Args)]
#[command(after_help = "\
The key is shown once and not stored; knowdb.toml contains its hash, which is not a secret.

Example:
  lookaside key new --name dashboard >>my-project/knowdb.toml")]
struct NewArguments {
    /// The name of the key in logs
    #[arg(long, default_value = "key-1", value_parser = name)]
    name: String,

    /// The maximum number of requests per second [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1..=PER_SECOND_MAX))]
    per_second: Option<u64>,

    /// Permit reloads, ad-hoc queries, and reading tables, plans and statements
    #[arg(long)]
    admin: bool,
}

fn name(text: &str) -> Result<String, &'static str> {
    key_name(text).map(|()| text.to_owned())
}

pub(crate) fn run(arguments: &KeyArguments) -> CommandResult {
    let KeyCommand::New(arguments) = &arguments.command;
    let (key, hash) = new_key()
        .map_err(|error| Failure::new("the system returned no random numbers").because(&error))?;
    // The lines for the file go to standard output, the secret to standard error.
    let mut stderr = std::io::stderr().lock();
    let written = writeln!(
        stderr,
        "{key}\n  is the key, which is shown only once; send it as `Authorization: Bearer KEY` or \
         `X-API-Key: KEY`.\n  Put these lines into knowdb.toml:"
    );
    written.map_err(|error| Failure::new("cannot show the key").because(&error))?;
    drop(stderr);
    finish_stdout(|out| {
        writeln!(
            out,
            "\n[[server.keys]]\nname = {}\nsha256 = \"{hash}\"",
            toml::Value::from(arguments.name.as_str())
        )?;
        if let Some(rate) = arguments.per_second {
            writeln!(out, "per_second = {rate}")?;
        }
        match arguments.admin {
            true => writeln!(out, "admin = true"),
            false => Ok(()),
        }
    })
}
