//! `lookaside key`: API keys for `lookaside serve`.

use std::io::Write as _;

use clap::{Args, Subcommand, value_parser};

use crate::cli::output::finish_stdout;
use crate::config::{PER_SECOND_MAX, key_name};
use crate::failure::{CommandResult, Failure};
use crate::keys::new_key;

/// Make keys for `lookaside serve`
#[derive(Debug, Args)]
pub(crate) struct KeyArguments {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    New(NewArguments),
}

/// Make a key, and the lines that let it in
#[derive(Debug, Args)]
#[command(after_help = "\
The key is shown once and kept nowhere; knowdb.toml gets its hash, which is not a secret.

Example:
  lookaside key new --name dashboard >>my-project/knowdb.toml")]
struct NewArguments {
    /// What logs call it
    #[arg(long, default_value = "key-1", value_parser = name)]
    name: String,

    /// How many requests a second it may make [default: any number]
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1..=PER_SECOND_MAX))]
    per_second: Option<u64>,

    /// Whether it may reload and ask ad-hoc queries
    #[arg(long)]
    admin: bool,
}

fn name(text: &str) -> Result<String, &'static str> {
    key_name(text).map(|()| text.to_owned())
}

pub(crate) fn run(arguments: &KeyArguments) -> CommandResult {
    let KeyCommand::New(arguments) = &arguments.command;
    let (key, hash) =
        new_key().map_err(|error| Failure::new("no random numbers").because(&error))?;
    // The lines for the file go to standard output, the secret to standard error.
    let mut stderr = std::io::stderr().lock();
    let written = writeln!(
        stderr,
        "{key}\n  is the key, shown this once; send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`.\n  \
         Put these lines into knowdb.toml:"
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
