//! The program `lookaside-bench`: benchmarks for developers, which are not part of the product.
//!
//! A module uses those below it in this table, never those above.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`http`] | the command of the load generator for HTTP servers |
//! | [`pg`] | the embedded PostgreSQL, or any other |
//! | [`provider`], [`cache`], [`oml_provider`] | lookups that a database server answers |
//! | [`freshness`] | change feeds of a server |
//! | [`contains`] | lookups of networks, names, paths and patterns |
//! | [`tables`] | tables of any size: loading, memory, reloading, lookups by the columns they select |
//! | [`metadata`] | definitions of columns in MySQL's protocol |
//! | [`pipeline`] | the ring between threads |
//! | [`target`] | the database server that a benchmark queries |
//! | [`progress`] | progress bars and spinners on a terminal |
//! | [`failure`] | errors of commands and exit codes |
//!
//! Code that `lookaside bench` uses as well is in the library `lookaside-load`.
#![forbid(unsafe_code)]

mod cache;
mod contains;
mod failure;
mod freshness;
mod http;
mod metadata;
mod oml_provider;
mod pg;
mod pipeline;
mod progress;
mod provider;
mod tables;
mod target;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use self::failure::{CommandResult, Failure};

/// The same allocator as the product, so that figures can be compared.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure tables, drivers, caches, change feeds, rings, HTTP servers and the embedded PostgreSQL on this machine
///
/// `lookaside bench` has the measures of lookups, models, whole runs and loading. Each benchmark
/// generates its data from a seed, runs in rounds after a warm-up round, and prints the CPU and wall
/// time of one operation: the smallest, the median and the largest round. CPU time is that of all
/// threads. The hash is computed over the answers: equal hashes mean equal answers.
#[derive(Debug, Parser)]
#[command(
    name = "lookaside-bench",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
#[command(after_help = "\
Examples:
  cargo bench-lookaside provider                  an embedded PostgreSQL, by every way
  cargo bench-lookaside cache --shape warm --url postgres://localhost/test
  cargo bench-lookaside freshness --case latency  how soon the caches have a change
  cargo bench-lookaside table-load --rows 10000000 --folder /var/tmp/tables --reload 5
  cargo bench-lookaside table-probes --kind dense --rows 10000000 --columns 1,3
  cargo bench-lookaside pipeline --case one-stage --wait spin
  cargo bench-lookaside http http://127.0.0.1:8300/healthz
  cargo bench-lookaside pg diagnose --path data")]
struct Arguments {
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Subcommand)]
enum Program {
    Provider(provider::ProviderArguments),
    Cache(cache::CacheArguments),
    Contains(contains::ContainsArguments),
    TableProbes(tables::probes::TableProbesArguments),
    TableLoad(tables::load::TableLoadArguments),
    OmlProvider(oml_provider::OmlProviderArguments),
    Freshness(Box<freshness::FreshnessArguments>),
    Metadata(metadata::MetadataArguments),
    Pipeline(pipeline::PipelineArguments),
    Http(Box<http::HttpArguments>),
    Pg(Box<pg::PgArguments>),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Shows warnings of the measured crates, such as of a provider that does not respond.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(LevelFilter::WARN)
        .init();
    match run(&arguments.program) {
        Ok(code) => code,
        Err(failure) => {
            // A failure to write to standard error is ignored.
            let _ = failure.write(&mut io::stderr().lock());
            failure.exit_code()
        }
    }
}

fn run(program: &Program) -> CommandResult {
    let done = match program {
        Program::Provider(arguments) => provider::run(arguments),
        Program::Cache(arguments) => cache::run(arguments),
        Program::Contains(arguments) => contains::run(arguments),
        Program::TableProbes(arguments) => tables::probes::run(arguments),
        Program::TableLoad(arguments) => tables::load::run(arguments),
        Program::OmlProvider(arguments) => oml_provider::run(arguments),
        Program::Freshness(arguments) => freshness::run(arguments),
        Program::Metadata(arguments) => metadata::run(arguments),
        Program::Pipeline(arguments) => pipeline::run(arguments),
        Program::Http(arguments) => return http::run(arguments),
        Program::Pg(arguments) => pg::run(arguments),
    };
    done.map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::new("the benchmark failed").because(error.as_ref()))
}

/// A benchmark prepares data and runs code of several crates. Any of it may fail, and errors are
/// only reported.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
