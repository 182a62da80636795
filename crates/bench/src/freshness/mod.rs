//! What do change feeds cost, and how fresh are the answers behind them?
//!
//! | module | what it measures |
//! | --- | --- |
//! | [`latency`] | from a commit until all caches have the new value |
//! | [`demand`] | lookups within a duration: the share from memory, statements of the server |
//! | [`hit`] | a hit of a cache with a feed and without one |
//! | [`idle`] | a feed while nothing happens |
//! | [`replay`], [`beside`] | changes that concern no cached answer: recorded ones, and live ones beside lookups |
//! | [`hit_rate`] | hits, queries and staleness with a feed, and with lifetimes instead |
//! | [`mod@write`], [`serve`], [`statements`], [`cpu`] | writers, the program that serves, counts of the server, CPU time |
//! | [`server`] | the server, the tables and the engines |
//! | [`report`], [`samples`] | figures and percentiles |

mod beside;
mod cpu;
mod demand;
mod hit;
mod hit_rate;
mod idle;
mod latency;
mod replay;
mod report;
mod samples;
mod serve;
mod server;
mod statements;
mod write;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lookaside_load::workload::KeyLaw;

use self::beside::BesideOptions;
use self::demand::DemandOptions;
use self::hit_rate::HitRateOptions;
use self::latency::LatencyOptions;
use self::replay::ReplayOptions;
use self::report::Report;
use self::server::{FeedServer, ServerOptions};
use self::write::WritePlan;
use super::Result;

/// Change feeds: how soon caches have a change, and what that costs
///
/// Every case prints its parameters, the load of the machine and the server's settings, and for each
/// figure that has an aim whether it was met. Without --case, all run in turn, within two minutes. The
/// server is an embedded PostgreSQL on one machine with everything else, or one at --url with wal_level =
/// logical, in which the schema and the publication lookaside_bench_freshness are created and dropped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cargo bench-lookaside freshness --case latency --rate 1000 --fsync off
  cargo bench-lookaside freshness --case latency --serve target/release/lookaside --seconds 30
  cargo bench-lookaside freshness --case demand --within-ms 50 --reads-per-second 100000
  cargo bench-lookaside freshness --case hit-rate --warm-up 300 --seconds 60")]
pub(crate) struct FreshnessArguments {
    /// The case to run; by default, all of them in turn.
    #[arg(long, value_enum)]
    case: Option<Case>,
    /// The server to measure, as postgres://… [default: an embedded PostgreSQL, over TCP]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Whether the embedded server waits for the disk when a transaction commits; with off, its data is
    /// where temporary servers have theirs, in memory if possible.
    #[arg(long, value_enum, default_value = "on", conflicts_with = "url")]
    fsync: Switch,
    /// The folder in which the embedded server with fsync has its data, for a disk to measure [default: that
    /// of temporary files]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    path: Option<PathBuf>,
    /// The duration of a case in seconds; of `hit-rate`, for each of its three engines [default: 10, and 4
    /// for hit-rate]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Commits per second in `latency` and `hit-rate`.
    #[arg(long, default_value_t = 1000.0, value_name = "COUNT", value_parser = rate)]
    rate: f64,
    /// Connections that make them.
    #[arg(long, default_value_t = 8, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: u16,
    /// Sessions whose caches are looked at in `latency`.
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    sessions: u16,
    /// Commits per second in `latency` that are looked for in the caches.
    #[arg(long, default_value_t = 50.0, value_name = "COUNT", value_parser = rate)]
    samples_per_second: f64,
    /// The program `lookaside`, whose encoded bodies `latency` looks at, too; without it, they are left out.
    #[arg(long, value_name = "PATH")]
    serve: Option<PathBuf>,
    /// How fresh answers have to be in `demand`.
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    within_ms: u64,
    /// Lookups per second in `demand` and `hit-rate` [default: 100000 and 10000]
    #[arg(long, value_name = "COUNT", value_parser = rate)]
    reads_per_second: Option<f64>,
    /// Rows of the table in `demand` and `hit-rate` [default: 10000 and 100000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(16..=100_000_000))]
    rows: Option<u64>,
    /// Changes that `unrelated` records.
    #[arg(long, default_value_t = 200_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1000..=10_000_000))]
    changes: u64,
    /// Pairs of rounds in `unrelated`, with changes and without.
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// The distribution of the updated keys in `hit-rate`; keys are read by a Zipf distribution.
    #[arg(long, value_enum, default_value_t = KeyLaw::Uniform)]
    update_keys: KeyLaw,
    /// The longest time in seconds for which `hit-rate` reads before it measures. Figures of a lifetime that
    /// is longer are not steady, and are marked so.
    #[arg(long, default_value = "2", value_name = "SECONDS", value_parser = seconds)]
    warm_up: Duration,
    /// Print one line of JSON per case.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// From a commit until it is visible, and until all sessions, the shared cache and bodies have it.
    Latency,
    /// Lookups within a duration, without writes.
    Demand,
    /// A hit of a session's cache and of the shared cache, with a feed and without one in turn.
    Hit,
    /// A live feed while nothing happens.
    Idle,
    /// Changes that concern no cached answer, from a recording, and live beside lookups.
    Unrelated,
    /// Hits, queries and staleness with a feed, with a short lifetime, and with one of as many queries.
    HitRate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    let is_time = (0.0..=86_400.0).contains(&seconds);
    let duration = Duration::try_from_secs_f64(seconds);
    (duration.ok().filter(|_| is_time)).ok_or_else(|| "is not a time of at most a day".to_owned())
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    let is_rate = (0.1..=1e8).contains(&rate);
    is_rate.then_some(rate).ok_or("is not a rate".to_owned())
}

pub(super) fn run(arguments: &FreshnessArguments) -> Result<()> {
    let server = FeedServer::start(&ServerOptions {
        url: arguments.url.as_deref(),
        fsync: arguments.fsync == Switch::On,
        path: arguments.path.as_deref(),
    })?;
    let cases = match arguments.case {
        Some(case) => vec![case],
        None => Case::value_variants().to_vec(),
    };
    for case in cases {
        for report in arguments.measure(case, &server)? {
            report.print(arguments.json)?;
        }
    }
    Ok(())
}

impl FreshnessArguments {
    fn measure(&self, case: Case, server: &FeedServer) -> Result<Vec<Report>> {
        let default_seconds = if case == Case::HitRate { 4 } else { 10 };
        let duration = (self.seconds).unwrap_or(Duration::from_secs(default_seconds));
        let writes = WritePlan {
            rate: self.rate,
            writer_count: self.writers.into(),
        };
        let report = match case {
            Case::Latency => latency::run(
                server,
                LatencyOptions {
                    duration,
                    writes,
                    session_count: self.sessions,
                    samples_per_second: self.samples_per_second,
                    serve: self.serve.as_deref(),
                },
            )?,
            Case::Demand => demand::run(
                server,
                DemandOptions {
                    duration,
                    within: Duration::from_millis(self.within_ms),
                    reads_per_second: self.reads_per_second.unwrap_or(100_000.0),
                    row_count: self.rows.unwrap_or(10_000),
                },
            )?,
            Case::Hit => hit::run(server, duration)?,
            Case::Idle => idle::run(server, duration)?,
            Case::Unrelated => {
                let replayed = ReplayOptions {
                    duration: duration / 2,
                    change_count: self.changes,
                };
                let live = BesideOptions {
                    duration: duration / 2,
                    round_count: self.rounds.into(),
                };
                return Ok(vec![
                    replay::run(server, replayed)?,
                    beside::run(server, live)?,
                ]);
            }
            Case::HitRate => hit_rate::run(
                server,
                HitRateOptions {
                    duration,
                    warm_up_max: self.warm_up,
                    reads_per_second: self.reads_per_second.unwrap_or(10_000.0),
                    writes,
                    row_count: self.rows.unwrap_or(100_000),
                    update_keys: self.update_keys,
                },
            )?,
        };
        Ok(vec![report])
    }
}
