//! `lookaside pg clean`: removes leftovers of ended processes and files that can be recreated.

use clap::Args;
use lookaside_embedded::{CleanMode, clean};

use super::failure;
use crate::cli::output::{finish_stdout, printable};
use crate::failure::CommandResult;

/// Remove what ended processes left behind, and list it with its size
///
/// Removes temporary clusters and databases whose owner has ended, spare copies of templates,
/// incomplete files in the cache, templates of servers that were not found, and templates with
/// contents other than the eight used last. What a running process uses, data folders (`pg start
/// DIR`), fetched servers and their extensions stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside pg clean --dry-run               lists what would be removed
  lookaside pg clean")]
pub(super) struct CleanArguments {
    /// List what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &CleanArguments) -> CommandResult {
    let (mode, done) = match arguments.dry_run {
        true => (CleanMode::DryRun, "would remove"),
        false => (CleanMode::Remove, "removed"),
    };
    let leftovers = clean(mode).map_err(|error| failure(&error))?;
    let size: u64 = leftovers.iter().map(|leftover| leftover.size).sum();
    finish_stdout(|out| {
        for leftover in &leftovers {
            let place = printable(&leftover.place);
            writeln!(
                out,
                "{done} {}: {place}, {} bytes",
                leftover.what, leftover.size
            )?;
        }
        match leftovers.len() {
            0 => writeln!(out, "nothing to remove"),
            1 => writeln!(out, "{done} 1 leftover, {size} bytes"),
            count => writeln!(out, "{done} {count} leftovers, {size} bytes"),
        }
    })
}
