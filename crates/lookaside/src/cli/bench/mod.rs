//! `lookaside bench`: measures what operations cost on this machine.

mod enrich;
mod load;
mod lookup;
mod oml;
mod project;

use std::error::Error;

use clap::{Args, Subcommand};

use crate::failure::{CommandResult, Exit, Failure};

/// Measure lookups, models, whole runs and loading on this machine
///
/// Each benchmark generates its data from a seed, runs in rounds after a warm-up round, and prints
/// the CPU and wall time of one operation: the smallest, the median and the largest round. CPU time
/// is that of all threads. The hash is computed over the answers: equal hashes mean equal answers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lookaside bench lookup                          all kinds of lookups
  lookaside bench lookup --case interval --ranges asn.csv
  lookaside bench enrich --events 1000000 --rounds 5
  lookaside bench load --range-count 411961 --json")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Lookup(lookup::LookupArguments),
    Oml(oml::OmlArguments),
    Enrich(enrich::EnrichArguments),
    Load(load::LoadArguments),
}

pub(crate) fn run(arguments: &BenchArguments) -> CommandResult {
    let done = match &arguments.bench {
        Bench::Lookup(arguments) => lookup::run(arguments),
        Bench::Oml(arguments) => oml::run(arguments),
        Bench::Enrich(arguments) => enrich::run(arguments),
        Bench::Load(arguments) => load::run(arguments),
    };
    done.map(|()| Exit::Done)
        .map_err(|error| Failure::new("the benchmark failed").because(error.as_ref()))
}

/// A benchmark prepares data and runs code of several crates. Any of it may fail, and errors are
/// only reported.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
