//! `lookaside completions`: shell completions for the commands.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Arguments;
use crate::cli::output::finish_stdout;
use crate::failure::CommandResult;

/// Print completion scripts for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside completions bash > ~/.local/share/bash-completion/completions/lookaside
  lookaside completions zsh  > ~/.zfunc/_lookaside
  lookaside completions fish > ~/.config/fish/completions/lookaside.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "lookaside",
        &mut script,
    );
    finish_stdout(|out| out.write_all(&script))
}
