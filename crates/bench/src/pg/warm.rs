//! How long does a process with a running server wait for the next database?

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::{Builder, Postgres, VersionRequirement};
use lookaside_load::measure::cpu_time;
use lookaside_value::Value;

use super::Result;
use super::cold::file_system;
use super::measure::Samples;
use super::report::Report;
use super::served::{open, ours, run_script};
use crate::progress::DownloadBar;

/// Databases of a process that has a server: created in advance, on demand, each with its own
/// server; snapshots; many concurrent tests
#[derive(Debug, Args)]
pub(super) struct WarmArguments {
    /// The version of PostgreSQL: a major version such as 17, or an exact one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,

    /// Rounds after the warm-up round; the median is the result to quote
    #[arg(long, default_value_t = 15, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Print one line of JSON per case
    #[arg(long)]
    json: bool,
}

/// The pause between two hand-outs from the pool; preparing a database takes a tenth of it.
const REFILL: Duration = Duration::from_millis(200);

/// The number of concurrent tests, and the connections of each.
const TEST_COUNT: usize = 16;
const CONNECTION_COUNT: usize = 4;

pub(super) fn run(arguments: &WarmArguments) -> Result<()> {
    let mut report = Report::new("warm", arguments.json);
    let base = builder(arguments)
        .progress(Arc::new(DownloadBar::new()))
        .start()?;
    let version = open(&ours(&base)?)?.server_version().to_owned();
    let engine = format!(
        "embedded PostgreSQL {version}, data on {}",
        file_system(base.folder())
    );
    let rounds = arguments.rounds;

    report.begin(
        &engine,
        "a warm process, its server up, a database made ahead",
    );
    hand_outs(&mut report, "from the ready pool", rounds, || {
        thread::sleep(REFILL);
        timed(|| Ok(builder(arguments).start()?))
    })?;

    report.begin(&engine, "a warm process, its server up");
    hand_outs(&mut report, "on demand", rounds, || {
        timed(|| Ok(builder(arguments).prewarm(0).start()?))
    })?;
    drops(arguments, &mut report)?;
    snapshots(arguments, &mut report)?;
    parallel(arguments, &mut report)?;

    let from = "a warm process; programs, template and a spare copy of it in the file cache";
    report.begin(&engine, from);
    hand_outs(&mut report, "own cluster", rounds, || {
        // The next spare copy is prepared while the last server runs.
        thread::sleep(REFILL);
        timed(|| Ok(builder(arguments).fresh_cluster().start()?))
    })?;
    base.close()?;
    report.finish()
}

fn builder(arguments: &WarmArguments) -> Builder {
    let builder = Postgres::builder();
    match arguments.pg_version {
        Some(version) => builder.version(version),
        None => builder,
    }
}

/// A database, and when the clock began.
struct HandOut {
    database: Postgres,
    started: Instant,
    cpu_before: Duration,
}

fn timed(hand_out: impl FnOnce() -> Result<Postgres>) -> Result<HandOut> {
    let (started, cpu_before) = (Instant::now(), cpu_time());
    Ok(HandOut {
        database: hand_out()?,
        started,
        cpu_before,
    })
}

/// Two cases: until the database is available, and until its first query is answered.
fn hand_outs(
    report: &mut Report,
    case: &str,
    rounds: u16,
    mut hand_out: impl FnMut() -> Result<HandOut>,
) -> Result<()> {
    report.measuring(case);
    let (mut in_hand, mut answered) = (Samples::default(), Samples::default());
    for round in 0..=rounds {
        let HandOut {
            database,
            started,
            cpu_before,
        } = hand_out()?;
        let (in_hand_after, in_hand_cpu) = (started.elapsed(), cpu_time() - cpu_before);
        let mut connection = open(&ours(&database)?)?;
        run_script(&mut connection, "select 1")?;
        if round > 0 {
            in_hand.push(in_hand_after, in_hand_cpu, 1);
            answered.push(started.elapsed(), cpu_time() - cpu_before, 1);
        }
        drop(connection);
        database.close()?;
    }
    report.add(format!("{case}: in hand"), 1, &in_hand, None, Vec::new())?;
    let case = format!("{case}: first query answered");
    report.add(case, 1, &answered, None, Vec::new())
}

fn drops(arguments: &WarmArguments, report: &mut Report) -> Result<()> {
    const CASES: [&str; 2] = ["drop of the value", "close, which waits"];
    for (index, case) in CASES.into_iter().enumerate() {
        report.measuring(case);
        let mut samples = Samples::default();
        for round in 0..=arguments.rounds {
            let database = builder(arguments).start()?;
            let mut warm_up = Samples::default();
            let samples = if round == 0 {
                &mut warm_up
            } else {
                &mut samples
            };
            samples.time(1, || match index {
                0 => {
                    drop(database);
                    Ok(())
                }
                _ => database.close(),
            })?;
        }
        report.add(case, 1, &samples, None, Vec::new())?;
    }
    Ok(())
}

fn snapshots(arguments: &WarmArguments, report: &mut Report) -> Result<()> {
    const SEED: &str = "create table t (id integer primary key, value text);
        insert into t select id, 'value_' || id from generate_series(1, 1000) id";
    let database = builder(arguments).start()?;
    database.execute(SEED)?;
    let (mut kept, mut reset) = (Samples::default(), Samples::default());
    report.measuring("snapshots");
    for round in 0..=arguments.rounds {
        let mut warm_up = (Samples::default(), Samples::default());
        let (kept, reset) = match round {
            0 => (&mut warm_up.0, &mut warm_up.1),
            _ => (&mut kept, &mut reset),
        };
        kept.time(1, || database.snapshot("seeded"))?;
        database.execute("delete from t")?;
        reset.time(1, || database.reset_to("seeded"))?;
        database.drop_snapshot("seeded")?;
    }
    let mut connection = open(&ours(&database)?)?;
    let count = connection.query("select count(*) from t", &[])?.rows;
    if count.row(0) != [Value::Int(1_000)] {
        return Err("a reset did not bring the rows back".into());
    }
    drop(connection);
    report.add("snapshot of 1,000 rows", 1, &kept, None, Vec::new())?;
    report.add("reset to it", 1, &reset, None, Vec::new())?;
    Ok(database.close()?)
}

fn parallel(arguments: &WarmArguments, report: &mut Report) -> Result<()> {
    let case =
        format!("{TEST_COUNT} tests at once, a database and {CONNECTION_COUNT} connections each");
    report.measuring(&case);
    let mut samples = Samples::default();
    for _ in 0..arguments.rounds.min(5) {
        thread::sleep(REFILL);
        samples.time(1, || {
            thread::scope(|scope| {
                let tests: Vec<_> = (0..TEST_COUNT)
                    .map(|_| scope.spawn(|| test(arguments).map_err(|error| error.to_string())))
                    .collect();
                tests
                    .into_iter()
                    .try_for_each(|test| test.join().expect("a test does not panic"))
            })
        })?;
    }
    report.add(case, 1, &samples, None, Vec::new())
}

/// The minimal test of an application.
fn test(arguments: &WarmArguments) -> Result<()> {
    let database = builder(arguments).start()?;
    let target = ours(&database)?;
    let mut connections: Vec<Connection> = (0..CONNECTION_COUNT)
        .map(|_| open(&target))
        .collect::<Result<_>>()?;
    run_script(
        &mut connections[0],
        "create table t (id integer primary key)",
    )?;
    for (id, connection) in connections.iter_mut().enumerate() {
        run_script(connection, &format!("insert into t values ({id})"))?;
    }
    let answers = run_script(&mut connections[0], "select count(*) from t")?;
    if answers[0].rows.row(0) != [Value::from(CONNECTION_COUNT.to_string())] {
        return Err("another test's rows are here".into());
    }
    drop(connections);
    Ok(database.close()?)
}
