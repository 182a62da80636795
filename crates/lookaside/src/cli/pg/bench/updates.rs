//! What does it save to send prepared updates ahead instead of one after the other?

use std::collections::HashSet;

use clap::Args;

use super::Result;
use super::measure::Samples;
use super::report::Report;
use super::served::{Served, ServedArguments};
use crate::cli::bench::workload::Random;
use crate::cli::pg::client::{BATCH_COUNT_MAX, Batch, Client};

/// Prepared updates by key: one after the other, and pipelined
#[derive(Debug, Args)]
pub(super) struct UpdatesArguments {
    #[command(flatten)]
    served: ServedArguments,

    /// Updates of one round
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// Updates that are sent before the first of their replies is read
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=BATCH_COUNT_MAX as i64))]
    batch: u16,
}

/// Rows of the table whose rows are updated.
const ROW_COUNT: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
enum Way {
    Sequential,
    SequentialInTransaction,
    Pipelined(Batch),
}

pub(super) fn run(arguments: &UpdatesArguments) -> Result<()> {
    let served = Served::start(&arguments.served)?;
    let mut client = served.connect()?;
    let mut report = Report::new("prepared-updates", arguments.served.json);
    let durability = served.durability(&mut client)?;
    let from = format!(
        "an open connection, a prepared statement, a fresh table of {ROW_COUNT} rows, {durability}"
    );
    report.begin(&served.engine(&client), &from);
    let batch = arguments.batch;
    for (case, way) in [
        ("sequential, a commit each".to_owned(), Way::Sequential),
        (
            "sequential, one transaction".to_owned(),
            Way::SequentialInTransaction,
        ),
        (
            format!("pipelined by {batch}, a commit each"),
            Way::Pipelined(Batch::SyncEach),
        ),
        (
            format!("pipelined by {batch}, a commit a batch"),
            Way::Pipelined(Batch::OneSync),
        ),
    ] {
        report.measuring(&case);
        measure(&mut client, &case, way, arguments, &mut report)?;
    }
    Served::disconnect(client)?;
    report.finish()
}

fn measure(
    client: &mut Client,
    case: &str,
    way: Way,
    arguments: &UpdatesArguments,
    report: &mut Report,
) -> Result<()> {
    let mut samples = Samples::default();
    for round in 0..=arguments.served.rounds {
        client.query(
            &format!(
                "deallocate all;
                 create table kv (id integer primary key, value text);
                 insert into kv select id, 'value_' || id from generate_series(1, {ROW_COUNT}) id;
                 analyze kv"
            ),
            0,
        )?;
        client.prepare("put", "update kv set value = $1 where id = $2::integer")?;
        let params = params(arguments.ops, round);
        let mut warm_up = Samples::default();
        let samples = if round == 0 {
            &mut warm_up
        } else {
            &mut samples
        };
        samples.time(arguments.ops, || {
            update(client, way, &params, usize::from(arguments.batch))
        })?;
        let sql = "select count(*) from kv where value like 'new_%'; drop table kv";
        let answers = client.query(sql, 1)?;
        let changed = answers.first().and_then(|answer| answer.rows[0][0].clone());
        let expected = params.iter().map(|[_, id]| id).collect::<HashSet<_>>();
        if changed.as_deref() != Some(expected.len().to_string().as_str()) {
            return Err(format!("{changed:?} rows changed instead of {}", expected.len()).into());
        }
    }
    report.add(case, arguments.ops, &samples, None, Vec::new())
}

fn params(count: u64, round: u16) -> Vec<[String; 2]> {
    let mut random = Random::new(u64::from(round));
    (0..count)
        .map(|index| {
            let id = random.below(ROW_COUNT) + 1;
            [format!("new_{index}"), id.to_string()]
        })
        .collect()
}

fn update(client: &mut Client, way: Way, params: &[[String; 2]], batch_count: usize) -> Result<()> {
    match way {
        Way::Sequential => sequential(client, params),
        Way::SequentialInTransaction => {
            client.query("begin", 0)?;
            sequential(client, params)?;
            client.query("commit", 0)?;
            Ok(())
        }
        Way::Pipelined(batch) => {
            for chunk in params.chunks(batch_count) {
                client.execute_batch("put", chunk, batch)?;
            }
            Ok(())
        }
    }
}

fn sequential(client: &mut Client, params: &[[String; 2]]) -> Result<()> {
    for params in params {
        client.execute("put", params, &mut |_| {})?;
    }
    Ok(())
}
