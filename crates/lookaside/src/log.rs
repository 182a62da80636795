//! The program's log, on standard error and never on standard output.

use std::io;

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// One readable line an entry
    Text,
    /// One JSON object an entry
    Json,
    /// Nothing
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The logging flags, the same for every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LogOptions {
    /// How log lines on standard error look
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value = "text"
    )]
    log: LogForm,

    /// The lowest level that is logged. At `warn` two entries of level INFO are logged as well: that
    /// `serve` has reloaded on request, and that a provider answers again
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "LEVEL",
        default_value = "warn"
    )]
    log_level: LogLevel,
}

/// The prefix of the names of all crates in this workspace.
const OUR_CRATES: &str = "lookaside";

/// The target of entries that are logged at the default level although nothing is wrong: they
/// confirm what an operator requested.
pub(crate) const CONFIRMATION: &str = "lookaside::confirmation";

/// Initializes logging for the rest of the process. Entries contain names, places and counts;
/// values of events, parameters and the environment are not logged at any level.
pub(crate) fn start(options: LogOptions) {
    let level = match options.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // The internals of dependencies are of no use to a user, and their entries may hold values. The
    // confirmation of a reload is logged even if no level is given.
    let confirmation = match options.log_level {
        LogLevel::Warn => LevelFilter::INFO,
        _ => level,
    };
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(OUR_CRATES, level)
        .with_target(CONFIRMATION, confirmation);
    let registry = tracing_subscriber::registry().with(targets);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_target(false);
    match options.log {
        LogForm::Text => registry.with(layer.with_ansi(is_terminal())).init(),
        LogForm::Json => registry.with(layer.json()).init(),
        LogForm::Off => {}
    }
}

fn is_terminal() -> bool {
    use std::io::IsTerminal as _;
    io::stderr().is_terminal()
}
