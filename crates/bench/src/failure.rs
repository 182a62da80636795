//! Why a command ends without having measured, and how that is shown.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use lookaside_load::ErrorKind;

/// The exit code of a failed run.
const FAILED: u8 = 1;

/// The exit code of a command line that cannot be used; clap's own number.
const USAGE: u8 = 2;

/// How a command ends.
pub(crate) type Outcome = Result<ExitCode, Failure>;

/// An error on its way to the user: a line, its causes, and the way out.
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

    /// A command line that cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            ..Self::new(message)
        }
    }

    /// Adds an error and everything that caused it.
    pub(crate) fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Some libraries print their source as part of their own line; once is enough.
            if !self.causes.last().is_some_and(|last| last.contains(&text)) {
                self.causes.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// Adds the way out.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// How the process ends because of it.
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
