//! `lookaside pg start`, `stop`, `status`, `list` and `forget`: servers that outlive the command.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use lookaside_embedded::{Instance, Running, Status};
use serde_json::{Value, json};

use super::failure;
use super::options::DatabaseOptions;
use super::shell_word::shell_path;
use crate::cli::output::{finish_stdout, printable, write_stdout};
use crate::failure::{CommandResult, Exit, Failure};

/// Start a server on a data folder and print its URL
///
/// The folder is created if it does not exist. The server continues to run after the command, until
/// `lookaside pg stop` or until the machine is shut down. A server that is already running is left
/// unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg start ./data
  psql \"$(lookaside pg start ./data)\"
  lookaside pg start ./data --tcp            # for clients that need a host and a port")]
pub(super) struct StartArguments {
    /// The data folder
    dir: PathBuf,

    #[command(flatten)]
    options: DatabaseOptions,

    /// Acknowledge writes before they are on the disk: faster, but a crash of the machine may lose
    /// data
    #[arg(long)]
    relaxed_durability: bool,

    /// Listen on 127.0.0.1 as well, with a random password, and print that URL
    #[arg(long)]
    tcp: bool,
}

/// List the folders that servers were started on
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// One JSON object per line, for programs: folder, state, and what else is known
    #[arg(long)]
    json: bool,
}

/// A command that needs the folder and no more.
#[derive(Debug, Args)]
pub(super) struct FolderArguments {
    /// The data folder
    pub(super) dir: PathBuf,
}

pub(super) fn start(arguments: &StartArguments) -> CommandResult {
    let instance = at(&arguments.dir)?;
    let mut builder = arguments.options.builder()?;
    if arguments.relaxed_durability {
        builder = builder.relaxed_durability();
    }
    if arguments.tcp {
        builder = builder.tcp();
    }
    let started = instance.start(builder);
    let running = started.map_err(|error| arguments.options.failure(&error))?;
    print_url(&arguments.dir, &running, arguments.tcp)
}

fn print_url(folder: &Path, running: &Running, tcp: bool) -> CommandResult {
    let url = match tcp {
        true => tcp_url(folder, running, "")?,
        false => &running.url,
    };
    finish_stdout(|out| writeln!(out, "{url}"))
}

/// The URL of a folder's server on 127.0.0.1. If it does not listen there, the error begins with
/// `reason`.
pub(super) fn tcp_url<'a>(
    folder: &Path,
    running: &'a Running,
    reason: &str,
) -> Result<&'a str, Failure> {
    running.tcp_url.as_deref().ok_or_else(|| {
        let shown = folder.display();
        let folder = shell_path(folder);
        Failure::new(format!(
            "{reason}the server of {shown} is running, but does not listen on TCP"
        ))
        .with_help(format_args!(
            "`lookaside pg stop {folder}`, then `lookaside pg start {folder} --tcp`"
        ))
    })
}

pub(super) fn stop(arguments: &FolderArguments) -> CommandResult {
    let instance = at(&arguments.dir)?;
    let was_running = instance.stop().map_err(|error| failure(&error))?;
    if !was_running {
        if instance.status().map_err(|error| failure(&error))? == Status::Absent {
            return Err(Failure::new(absence(&arguments.dir))
                .with_help("`lookaside pg list` shows the folders that servers were started on"));
        }
        let _ = writeln!(
            std::io::stderr(),
            "no server of {} was running",
            arguments.dir.display()
        );
    }
    Ok(Exit::Done)
}

pub(super) fn status(arguments: &FolderArguments) -> CommandResult {
    let status = at(&arguments.dir)?
        .status()
        .map_err(|error| failure(&error))?;
    write_stdout(|out| {
        match &status {
            Status::Absent => writeln!(out, "{}", printable(&absence(&arguments.dir)))?,
            status => writeln!(out, "{}", state(status))?,
        }
        if let Status::Running(running) = &status {
            writeln!(out, "{}", running.url)?;
            if let Some(url) = &running.tcp_url {
                writeln!(out, "{url}")?;
            }
        }
        Ok(())
    })?;
    Ok(match status {
        Status::Running(_) | Status::Owned { .. } => Exit::Done,
        _ => Exit::Failed,
    })
}

pub(super) fn list(arguments: &ListArguments) -> CommandResult {
    let instances = Instance::list().map_err(|error| failure(&error))?;
    let statuses: Vec<_> = instances.iter().map(Instance::status).collect();
    if arguments.json {
        return finish_stdout(|out| {
            instances
                .iter()
                .zip(&statuses)
                .try_for_each(|(instance, status)| {
                    let folder = instance.folder().display().to_string();
                    writeln!(out, "{}", entry(&folder, status.as_ref()))
                })
        });
    }
    finish_stdout(|out| {
        if instances.is_empty() {
            return writeln!(out, "no folders; create one with `lookaside pg start DIR`");
        }
        // Separate lines, since paths and URLs are often longer than a terminal is wide.
        for (instance, status) in instances.iter().zip(&statuses) {
            let folder = instance.folder().display().to_string();
            writeln!(out, "{}", printable(&folder))?;
            match status {
                Ok(status) => writeln!(out, "  {}", state(status))?,
                Err(error) => writeln!(out, "  {}", printable(&error.to_string()))?,
            }
            if let Ok(Status::Running(running)) = status {
                writeln!(out, "  {}", running.url)?;
            }
        }
        Ok(())
    })
}

/// A folder as a JSON object. Bytes that are not UTF-8 are replaced, as everywhere.
fn entry(folder: &str, status: Result<&Status, &lookaside_embedded::Error>) -> Value {
    let word = match status {
        Ok(Status::Running(_)) => "running",
        Ok(Status::Owned { .. }) => "owned",
        Ok(Status::Stopped { .. }) => "stopped",
        Ok(Status::Absent) => "absent",
        Ok(_) => "unknown",
        Err(_) => "failed",
    };
    let mut entry = json!({ "folder": folder, "state": word });
    match status {
        Ok(Status::Running(running)) => {
            entry["version"] = running.version.to_string().into();
            entry["pid"] = running.pid.into();
            entry["url"] = running.url.as_str().into();
            entry["tcp_url"] = running.tcp_url.as_deref().into();
        }
        Ok(Status::Owned { pid }) => entry["pid"] = (*pid).into(),
        Ok(Status::Stopped { major }) => entry["version"] = major.to_string().into(),
        Ok(_) => {}
        Err(error) => entry["error"] = error.to_string().into(),
    }
    entry
}

pub(super) fn forget(arguments: &FolderArguments) -> CommandResult {
    let forgotten = at(&arguments.dir)?.forget();
    if forgotten.map_err(|error| failure(&error))? {
        return Ok(Exit::Done);
    }
    let folder = arguments.dir.display();
    Err(Failure::new(format!("the list has no folder `{folder}`"))
        .with_help("`lookaside pg list` shows the folders of the list"))
}

pub(super) fn at(folder: &Path) -> Result<Instance, Failure> {
    Instance::at(folder).map_err(|error| failure(&error))
}

/// The running server of a folder, or an error if it does not run. An error about a missing folder
/// shows the path as `given`.
pub(super) fn running(given: &Path, instance: &Instance) -> Result<Running, Failure> {
    let status = instance.status().map_err(|error| failure(&error))?;
    let status = match status {
        Status::Running(running) => return Ok(running),
        Status::Absent => return Err(no_data(given)),
        status => status,
    };
    let folder = instance.folder();
    let message = format!("{}: {}", folder.display(), state(&status));
    let help = format!("`lookaside pg start {}` starts it", shell_path(folder));
    Err(Failure::new(message).with_help(help))
}

/// The error for a folder without a cluster, with a hint.
pub(super) fn no_data(folder: &Path) -> Failure {
    let help = format!(
        "`lookaside pg start {}` starts a server there",
        shell_path(folder)
    );
    Failure::new(absence(folder)).with_help(help)
}

fn absence(folder: &Path) -> String {
    let shown = folder.display();
    if folder.exists() {
        format!("`{shown}` contains no data of an embedded server")
    } else {
        format!("there is no folder `{shown}`")
    }
}

fn state(status: &Status) -> String {
    match status {
        Status::Running(running) => {
            format!(
                "running, PostgreSQL {}, pid {}",
                running.version, running.pid
            )
        }
        Status::Owned { pid: Some(pid) } => format!("running, owned by process {pid}"),
        Status::Owned { pid: None } => "running, owned by another process".to_owned(),
        Status::Stopped { major } => format!("stopped, PostgreSQL {major}"),
        Status::Absent => "no data".to_owned(),
        _ => "unknown".to_owned(),
    }
}
