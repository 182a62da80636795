//! What does pipelining of prepared updates save, compared to one after the other?

use std::collections::HashSet;

use clap::Args;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Syncs, TransactionOptions};
use lookaside_load::workload::Random;
use lookaside_value::{ParamBatch, Value};

use super::Result;
use super::measure::Samples;
use super::report::Report;
use super::served::{ServedArguments, ServedDatabase, run_script};

/// Prepared updates by key through the project's own driver: one after the other, and pipelined
#[derive(Debug, Args)]
pub(super) struct UpdatesArguments {
    #[command(flatten)]
    served: ServedArguments,

    /// Updates of one round
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// The number of updates in flight
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    batch: u16,
}

/// Rows of the table whose rows are updated.
const ROW_COUNT: u64 = 10_000;

const PUT: &str = "update kv set value = $1 where id = $2::integer";

#[derive(Clone, Copy, Debug)]
enum Way {
    Sequential,
    SequentialInTransaction,
    Pipelined,
    PipelinedInTransactions,
}

pub(super) fn run(arguments: &UpdatesArguments) -> Result<()> {
    let served = ServedDatabase::start(&arguments.served)?;
    let mut connection = served.connect()?;
    let mut report = Report::new("prepared-updates", arguments.served.json);
    let durability = served.durability(&mut connection)?;
    let from = format!(
        "an open connection, a prepared statement, a fresh table of {ROW_COUNT} rows, {durability}"
    );
    report.begin(&served.engine(&connection), &from);
    let batch = arguments.batch;
    for (case, way) in [
        ("sequential, a commit each".to_owned(), Way::Sequential),
        (
            "sequential, one transaction".to_owned(),
            Way::SequentialInTransaction,
        ),
        (
            format!("pipelined by {batch}, a commit each"),
            Way::Pipelined,
        ),
        (
            format!("pipelined by {batch}, a commit a batch"),
            Way::PipelinedInTransactions,
        ),
    ] {
        report.measuring(&case);
        measure(&mut connection, &case, way, arguments, &mut report)?;
    }
    ServedDatabase::disconnect(connection)?;
    report.finish()
}

fn measure(
    connection: &mut Connection,
    case: &str,
    way: Way,
    arguments: &UpdatesArguments,
    report: &mut Report,
) -> Result<()> {
    let mut samples = Samples::default();
    for round in 0..=arguments.served.rounds {
        run_script(
            connection,
            &format!(
                "create table kv (id integer primary key, value text);
                 insert into kv select id, 'value_' || id from generate_series(1, {ROW_COUNT}) id;
                 analyze kv"
            ),
        )?;
        connection.describe(PUT)?;
        let params = params(arguments.ops, round);
        let mut warm_up = Samples::default();
        let samples = if round == 0 {
            &mut warm_up
        } else {
            &mut samples
        };
        samples.time(arguments.ops, || {
            update(connection, way, &params, usize::from(arguments.batch))
        })?;
        let sql = "select count(*) from kv where value like 'new_%'";
        let changed = connection.query(sql, &[])?.rows.row(0)[0].clone();
        run_script(connection, "drop table kv")?;
        let expected = params
            .iter()
            .map(|[_, id]| id)
            .collect::<HashSet<_>>()
            .len();
        if changed != Value::Int(expected as i64) {
            return Err(format!("{} rows changed instead of {expected}", changed.to_text()).into());
        }
    }
    report.add(case, arguments.ops, &samples, None, Vec::new())
}

fn params(count: u64, round: u16) -> Vec<[Value; 2]> {
    let mut random = Random::new(u64::from(round));
    (0..count)
        .map(|index| {
            let id = random.below(ROW_COUNT) + 1;
            [Value::from(format!("new_{index}")), Value::from(id as i64)]
        })
        .collect()
}

fn update(
    connection: &mut Connection,
    way: Way,
    params: &[[Value; 2]],
    batch_count: usize,
) -> Result<()> {
    match way {
        Way::Sequential => {
            for params in params {
                connection.query(PUT, params)?;
            }
        }
        Way::SequentialInTransaction => {
            let mut transaction = connection.begin(TransactionOptions::default())?;
            for params in params {
                transaction.query(PUT, params)?;
            }
            transaction.commit()?;
        }
        Way::Pipelined => {
            for chunk in params.chunks(batch_count) {
                for answer in connection.query_many(PUT, batch(chunk), Syncs::Each)? {
                    answer?;
                }
            }
        }
        Way::PipelinedInTransactions => {
            for chunk in params.chunks(batch_count) {
                let mut transaction = connection.begin(TransactionOptions::default())?;
                for answer in transaction.query_many(PUT, batch(chunk), Syncs::Each)? {
                    answer?;
                }
                transaction.commit()?;
            }
        }
    }
    Ok(())
}

fn batch(params: &[[Value; 2]]) -> ParamBatch {
    let mut batch = ParamBatch::new(2);
    for params in params {
        batch.push(params.iter().cloned());
    }
    batch
}
