//! What does one round trip cost: a prepared statement, a row by its key, a row of 1 kB or 10 kB?

use std::sync::Arc;

use clap::Args;
use lookaside_client::postgres::blocking::Connection;
use lookaside_load::measure::AnswerHash;
use lookaside_load::workload::Random;
use lookaside_value::{RowSet, Value};

use super::Result;
use super::measure::{Latencies, Samples};
use super::report::Report;
use super::served::{ServedArguments, ServedDatabase, hash_rows, open, run_script};

/// Round trips of the project's own driver on one connection: prepared and simple statements, small
/// and large rows
#[derive(Debug, Args)]
pub(super) struct RttArguments {
    #[command(flatten)]
    served: ServedArguments,

    /// Round trips of one round
    #[arg(long, default_value_t = 2_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
}

/// Rows of the table that is queried by key.
const ROW_COUNT: u64 = 10_000;

/// A kind of round trip.
struct Trip {
    case: &'static str,
    sql: String,
    way: Way,
}

enum Way {
    /// A simple query, parsed each time.
    Simple,
    /// Prepared once, with a number below the bound as its parameter.
    Prepared { bound: u64 },
}

pub(super) fn run(arguments: &RttArguments) -> Result<()> {
    let served = ServedDatabase::start(&arguments.served)?;
    let mut connection = served.connect()?;
    let mut report = Report::new("rtt", arguments.served.json);
    let durability = served.durability(&mut connection)?;
    let engine = served.engine(&connection);
    let from = format!("an open connection, a server that has answered before, {durability}");
    report.begin(&engine, &from);
    run_script(
        &mut connection,
        &format!(
            "create table kv (id integer primary key, value text);
             insert into kv select id, 'value_' || id from generate_series(1, {ROW_COUNT}) id;
             create table t1 (id serial primary key, a integer);
             create table t2 (id serial primary key, a text);
             analyze kv"
        ),
    )?;
    for trip in trips() {
        report.measuring(trip.case);
        measure(&mut connection, &trip, arguments, &mut report)?;
    }
    // Frees the connection, for servers that allow only one.
    ServedDatabase::disconnect(connection)?;
    connections(&served, arguments, &mut report, &engine, &durability)?;
    report.finish()
}

/// The first three are typical of applications; the others are of the kinds for which PGlite
/// publishes figures (pglite.dev/benchmarks).
fn trips() -> Vec<Trip> {
    let simple = |case, sql: String| Trip {
        case,
        sql,
        way: Way::Simple,
    };
    let prepared = |case, sql: &str, bound| Trip {
        case,
        sql: sql.to_owned(),
        way: Way::Prepared { bound },
    };
    let text_1k = "a".repeat(1_000);
    let text_10k = "a".repeat(10_000);
    vec![
        prepared(
            "prepared: select a constant",
            "select $1::integer",
            ROW_COUNT,
        ),
        prepared(
            "prepared: select a row by key",
            "select value from kv where id = $1::integer + 1",
            ROW_COUNT,
        ),
        prepared(
            "prepared: update a row by key",
            "update kv set value = value where id = $1::integer + 1",
            ROW_COUNT,
        ),
        simple("simple: select a constant", "select 1".to_owned()),
        simple(
            "insert small row",
            "insert into t1 (a) values (1)".to_owned(),
        ),
        simple(
            "select small row",
            "select * from t1 where id = 333".to_owned(),
        ),
        simple(
            "update small row",
            "update t1 set a = 2 where id = 666".to_owned(),
        ),
        simple(
            "delete small row",
            "delete from t1 where id in (select id from t1 limit 1)".to_owned(),
        ),
        simple(
            "insert 1 kB row",
            format!("insert into t2 (a) values ('{text_1k}')"),
        ),
        simple("select 1 kB row", format!("select a from t2 {WHERE_ONE}")),
        simple(
            "update 1 kB row",
            format!("update t2 set a = '{text_1k}' {WHERE_ONE}"),
        ),
        simple("delete 1 kB row", format!("delete from t2 {WHERE_ONE}")),
        simple(
            "insert 10 kB row",
            format!("insert into t2 (a) values ('{text_10k}')"),
        ),
        simple("select 10 kB row", format!("select a from t2 {WHERE_ONE}")),
        simple(
            "update 10 kB row",
            format!("update t2 set a = '{text_10k}' {WHERE_ONE}"),
        ),
        simple("delete 10 kB row", format!("delete from t2 {WHERE_ONE}")),
    ]
}

/// Selects any row, so that each statement finds one.
const WHERE_ONE: &str = "where id in (select id from t2 limit 1)";

fn measure(
    connection: &mut Connection,
    trip: &Trip,
    arguments: &RttArguments,
    report: &mut Report,
) -> Result<()> {
    let sql: Arc<str> = trip.sql.as_str().into();
    let (mut samples, mut latencies) = (Samples::default(), Latencies::default());
    let mut hash = AnswerHash::new();
    for round in 0..=arguments.served.rounds {
        let mut random = Random::new(7);
        let mut warm_up = (Samples::default(), Latencies::default());
        let (samples, latencies) = match round {
            0 => (&mut warm_up.0, &mut warm_up.1),
            _ => (&mut samples, &mut latencies),
        };
        samples.time(arguments.ops, || -> Result<()> {
            for _ in 0..arguments.ops {
                let rows = match trip.way {
                    Way::Simple => latencies.time(|| simple(connection, Arc::clone(&sql)))?,
                    Way::Prepared { bound } => {
                        let param = Value::from(random.below(bound) as i64);
                        let query = || connection.query(Arc::clone(&sql), &[param]);
                        Some(latencies.time(query)?.rows)
                    }
                };
                if round == 0 {
                    hash_rows(&mut hash, rows.as_ref());
                }
            }
            Ok(())
        })?;
    }
    let quantiles = quantiles(&mut latencies);
    report.add(trip.case, arguments.ops, &samples, Some(hash), quantiles)
}

/// A statement that is parsed each time, and its rows.
fn simple(connection: &mut Connection, sql: Arc<str>) -> lookaside_client::Result<Option<RowSet>> {
    let answers = connection.script(sql, usize::MAX)?.into_iter();
    let mut rows = answers.map(|answer| answer.map(|answer| answer.rows));
    rows.next().transpose()
}

/// Measures a whole connection with one query.
fn connections(
    served: &ServedDatabase,
    arguments: &RttArguments,
    report: &mut Report,
    engine: &str,
    durability: &str,
) -> Result<()> {
    const CASE: &str = "connect, select a constant, disconnect";
    // A tenth of the others, since the server starts a process for each.
    let ops = arguments.ops.div_ceil(10);
    report.begin(
        engine,
        &format!("a server that has answered before, {durability}"),
    );
    report.measuring(CASE);
    let (mut samples, mut latencies) = (Samples::default(), Latencies::default());
    for _ in 0..arguments.served.rounds {
        samples.time(ops, || -> Result<()> {
            for _ in 0..ops {
                latencies.time(|| -> Result<()> {
                    run_script(&mut open(&served.target)?, "select 1")?;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    }
    let quantiles = quantiles(&mut latencies);
    report.add(CASE, ops, &samples, None, quantiles)
}

fn quantiles(latencies: &mut Latencies) -> Vec<(&'static str, f64)> {
    [("p50", 500), ("p99", 990), ("p99.9", 999)]
        .map(|(name, thousandths)| (name, latencies.quantile(thousandths)))
        .to_vec()
}
