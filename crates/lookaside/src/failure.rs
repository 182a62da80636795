//! Why a command failed, and how that is shown.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit status of the process; `--help` and the README promise these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The run failed, or `--strict`, `check`, `fmt` or `test` found problems.
    Failed,
    /// The command line is invalid; the same number as clap's.
    Usage,
    /// Ctrl-C (SIGINT), reported as shells do: 128 plus the signal's number.
    Interrupted,
    /// SIGTERM, likewise.
    Terminated,
    /// The exit status of a command that was run, or the one that `--help` documents for a command
    /// that could not be run.
    Passed(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Passed(number) => number,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// The result of every command.
pub(crate) type CommandResult = Result<Exit, Failure>;

/// An error to be shown to the user: a line, its causes, and a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    causes: Vec<String>,
    /// Text that is shown verbatim instead of the causes, such as a source excerpt with a caret.
    excerpt: Option<String>,
    /// A one-line summary of the excerpt.
    summary: Option<Box<str>>,
    help: Option<String>,
    exit: Exit,
}

impl Failure {
    /// A failure with its one-line message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            causes: Vec::new(),
            excerpt: None,
            summary: None,
            help: None,
            exit: Exit::Failed,
        }
    }

    /// An invalid command line whose fault only shows after files were read.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            ..Self::new(message)
        }
    }

    /// Converts an error, with its chain of sources.
    pub(crate) fn from_error(error: &dyn Error) -> Self {
        Self::new(error.to_string()).with_sources(error)
    }

    /// Converts an error of a connector, with its hint; a wrong URL is a usage error.
    pub(crate) fn of_connector(error: &lookaside_connect::Error) -> Self {
        let failure = match error.kind() {
            lookaside_connect::ErrorKind::Misuse => Self::usage(error.to_string()),
            _ => Self::new(error.to_string()),
        };
        match error.hint() {
            Some(hint) => failure.with_help(hint),
            None => failure,
        }
    }

    /// Adds the sources of an error whose own message is already shown.
    pub(crate) fn with_sources(mut self, error: &dyn Error) -> Self {
        self.add_sources(error);
        self
    }

    /// Adds an error and all its sources as causes.
    pub(crate) fn because(mut self, error: &dyn Error) -> Self {
        self.causes.push(error.to_string());
        self.add_sources(error);
        self
    }

    /// Adds a source excerpt.
    pub(crate) fn with_excerpt(mut self, excerpt: impl Into<String>) -> Self {
        self.excerpt = Some(excerpt.into());
        self
    }

    /// Adds a one-line summary of the excerpt.
    pub(crate) fn with_summary(mut self, summary: impl Into<Box<str>>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Adds a hint.
    pub(crate) fn with_help(mut self, help: impl Display) -> Self {
        self.help = Some(help.to_string());
        self
    }

    /// Replaces a name in the message by the one that the user gave.
    pub(crate) fn rename(mut self, name: &str, given: &str) -> Self {
        self.message = self.message.replacen(name, given, 1);
        self
    }

    /// Sets an exit status other than that of a failed run.
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Its message, without causes and hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Its message followed by its causes, for a log or a response.
    pub(crate) fn line(&self) -> String {
        let mut line = self.message.clone();
        let causes = self.causes.iter().map(String::as_str);
        for cause in causes.chain(self.summary.as_deref()) {
            line.push_str(": ");
            line.push_str(cause);
        }
        line
    }

    /// Its hint.
    pub(crate) fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The exit status that it leads to.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    fn add_sources(&mut self, error: &dyn Error) {
        let mut source = error.source();
        while let Some(error) = source {
            let text = error.to_string();
            // Some libraries include their source in their own message; it is not shown twice.
            let said = self.causes.last().unwrap_or(&self.message).contains(&text);
            if !said {
                self.causes.push(text);
            }
            source = error.source();
        }
    }

    /// The lines that the user sees.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "error: {}", self.message)?;
        for cause in &self.causes {
            writeln!(
                out,
                "  caused by: {}",
                cause.replace('\n', "\n             ")
            )?;
        }
        if let Some(excerpt) = &self.excerpt {
            writeln!(out, "{}", excerpt.trim_end())?;
        }
        if let Some(help) = &self.help {
            writeln!(out, "  help: {help}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_causes_once_and_the_way_out() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("outer")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Outer(io::Error::other("inner"));
        let mut out = Vec::new();
        Failure::new("top")
            .because(&error)
            .with_help("do this")
            .write(&mut out)
            .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "error: top\n  caused by: outer\n  caused by: inner\n  help: do this\n"
        );
    }
}
