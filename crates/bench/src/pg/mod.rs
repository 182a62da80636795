//! `lookaside-bench pg`: benchmarks of the embedded PostgreSQL, or any other.

mod cold;
mod diagnose;
mod measure;
mod report;
mod rtt;
mod served;
mod speed;
mod target;
mod updates;
mod warm;

use clap::{Args, Subcommand};

use crate::Result;

/// Measure the embedded server, or any other, on this machine
///
/// Prints the median, the smallest and the largest round, and the CPU time of the client's process.
/// The client is Lookaside's own driver. Each result states what was prepared before the
/// measurement. The hash is computed over the returned rows: equal hashes mean equal answers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo bench-lookaside pg warm
  cargo bench-lookaside pg speed --json
  cargo bench-lookaside pg diagnose --path data
  cargo bench-lookaside pg rtt --target postgres://postgres@127.0.0.1/postgres")]
pub(crate) struct PgArguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    Cold(cold::ColdArguments),
    Warm(warm::WarmArguments),
    Rtt(rtt::RttArguments),
    Speed(speed::SpeedArguments),
    Diagnose(diagnose::DiagnoseArguments),
    PreparedUpdates(updates::UpdatesArguments),
    #[command(hide = true)]
    Fresh(cold::FreshArguments),
}

pub(crate) fn run(arguments: &PgArguments) -> Result<()> {
    match &arguments.bench {
        Bench::Cold(arguments) => cold::run(arguments),
        Bench::Warm(arguments) => warm::run(arguments),
        Bench::Rtt(arguments) => rtt::run(arguments),
        Bench::Speed(arguments) => speed::run(arguments),
        Bench::Diagnose(arguments) => diagnose::run(arguments),
        Bench::PreparedUpdates(arguments) => updates::run(arguments),
        Bench::Fresh(arguments) => cold::run_fresh(arguments),
    }
}
