//! Why a command failed, and how that is shown.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use lookaside_load::ErrorKind;

/// The exit code of a failed run.
const FAILED: u8 = 1;

/// The exit code of a command line that is invalid; clap's own number.
const USAGE: u8 = 2;

/// The result of a command.
pub(crate) type CommandResult = Result<ExitCode, Failure>;

/// An error to be shown to the user: a line, its causes, and a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    help: Option<String>,
    code: u8,
}

impl Failure {
    /// A failed run.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            help: None,
            code: FAILED,
        }
    }

    /// An invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            ..Self::new(message)
        }
    }

    /// Adds an error and its sources.
    pub(crate) fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some libraries include their source in their own message; it is not shown twice.
            if !self.causes.last().is_some_and(|last| last.contains(&text)) {
                self.causes.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// Adds a hint.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The exit code that it leads to.
    pub(crate) fn exit_code(&self) -> ExitCode {
        self.code.into()
    }

    /// The lines that the user sees.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "error: {}", self.message)?;
        for cause in &self.causes {
            let cause = cause.replace('\n', "\n             ");
            writeln!(out, "  caused by: {cause}")?;
        }
        if let Some(help) = &self.help {
            writeln!(out, "  help: {help}")?;
        }
        Ok(())
    }
}

impl From<lookaside_load::Error> for Failure {
    fn from(error: lookaside_load::Error) -> Self {
        let mut failure = match error.kind() {
            ErrorKind::Usage => Self::usage(error.to_string()),
            _ => Self::new(error.to_string()),
        };
        if let Some(source) = error.source() {
            failure = failure.because(source);
        }
        match error.hint() {
            Some(hint) => failure.with_help(hint),
            None => failure,
        }
    }
}
