//! The command line: the commands and their dispatch.

mod bench;
mod check;
mod compile;
mod completions;
mod difference;
mod enrich;
mod explain;
mod feed;
mod fmt;
mod help;
mod key;
mod kinds;
mod man;
mod metrics;
mod model_test;
mod new;
mod output;
mod pg;
mod query;
mod rows;
mod serve;
mod signals;
mod summary;
mod verify;

use std::io;

use clap::{FromArgMatches as _, Parser, Subcommand};

use crate::failure::{CommandResult, Exit};
use crate::log;

const ABOUT: &str =
    "Answer SQL lookups in reference tables and enrich events with them, at memory speed";

const LONG_ABOUT: &str = "\
Answers SQL lookups in reference tables at memory speed, and enriches streams of events with the
rows that they return.

A project is a folder: knowdb.toml, a folder with a data.csv for each table, and models/*.oml, which
define how events are transformed. `lookaside new DIR` creates a project that can be run.";

const AFTER_HELP: &str = "\
Exit codes:
  0    done
  1    the run failed, or --strict, check, fmt, test, feed or verify found problems
  2    the command line is invalid
  130  ended by Ctrl-C (SIGINT), or 143 by SIGTERM; the output contains complete events
`pg run` ends with the exit code of its command; its --help lists the others, and that of `verify
freshness` its own.

Only results go to standard output; the summary, progress, log and errors go to standard error.";

#[derive(Debug, Parser)]
#[command(name = "lookaside", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: log::LogOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    Enrich(Box<enrich::EnrichArguments>),
    Query(query::QueryArguments),
    Explain(explain::ExplainArguments),
    Check(check::CheckArguments),
    Compile(compile::CompileArguments),
    Fmt(fmt::FmtArguments),
    New(new::NewArguments),
    Test(model_test::TestArguments),
    Bench(bench::BenchArguments),
    Serve(serve::ServeArguments),
    Key(key::KeyArguments),
    Feed(feed::FeedArguments),
    Pg(Box<pg::PgArguments>),
    Verify(Box<verify::VerifyArguments>),
    Sources(kinds::SourcesArguments),
    Sinks(kinds::SinksArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
}

/// Runs the command of the process's arguments and prints its error.
pub(crate) fn run() -> Exit {
    let arguments = Arguments::from_arg_matches(&help::command().get_matches());
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    log::start(arguments.log);
    match answer(&arguments.command) {
        Ok(exit) => exit,
        Err(failure) => {
            // A failure to write to standard error is ignored.
            let _ = failure.write(&mut io::stderr().lock());
            failure.exit()
        }
    }
}

fn answer(command: &Command) -> CommandResult {
    match command {
        Command::Enrich(arguments) => enrich::run(arguments),
        Command::Query(arguments) => query::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Compile(arguments) => compile::run(arguments),
        Command::Fmt(arguments) => fmt::run(arguments),
        Command::New(arguments) => new::run(arguments),
        Command::Test(arguments) => model_test::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Key(arguments) => key::run(arguments),
        Command::Feed(arguments) => feed::run(arguments),
        Command::Pg(arguments) => pg::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Sources(_) => kinds::sources(),
        Command::Sinks(_) => kinds::sinks(),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Man(arguments) => man::run(arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        help::command().debug_assert();
    }
}
