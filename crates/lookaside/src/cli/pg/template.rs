//! Templates that are filled by a command, such as the user's own migrator.

use std::error::Error;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use clap::Args;
use lookaside_embedded::{Builder, key_of_files};

use super::child::Foreground;
use super::environment::lead;
use super::failure;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct TemplateOptions {
    /// A command that fills an empty database, such as a migrator. A shell runs it once, with
    /// DATABASE_URL set; later runs begin with a copy until the command or a key file changes.
    /// Requires --template-key-files
    #[arg(long, value_name = "CMD", requires = "template_key_files")]
    template_command: Option<String>,

    /// Files on which the result of --template-command depends, such as 'migrations/**'; can be
    /// repeated
    #[arg(long, value_name = "GLOB", requires = "template_command")]
    template_key_files: Vec<String>,
}

impl TemplateOptions {
    pub(super) fn add_to(&self, builder: Builder) -> Result<Builder, Failure> {
        let Some(command) = self.template_command.clone() else {
            return Ok(builder);
        };
        let files = key_of_files(&self.template_key_files).map_err(|error| failure(&error))?;
        let key = format!("{command} ({files})");
        Ok(builder.template(key, move |url| fill(&command, url)))
    }
}

/// Runs the command. Its output goes to standard error: standard output is for the command that is
/// run with the database.
fn fill(command_line: &str, url: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut command = Command::new("sh");
    command.args(["-c", command_line]).stdin(Stdio::null());
    command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
    let line = |failure: Failure| failure.line();
    lead(&mut command, url).map_err(line)?;
    // A signal that ends this process also ends the command, and discards the template.
    let mut foreground = Foreground::take().map_err(line)?;
    let status = foreground.run(&mut command).map_err(line)?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{command_line}` ended with {status}").into()),
    }
}
