//! What do 25,000 prepared updates by an index cost, one after another and pipelined? They are those
//! of speed tests 9 and 10, in one transaction, each an Execute and a Sync of its own.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;

use crate::client::{Client, Parameter};
use crate::measure::{Measure, Report, Server, ServerCpu, Stopwatch};
use crate::speed::{Numbers, ROW_COUNT, indexed_table, words};

/// Requests on their way at once; the answers to so many fit into a socket's buffer.
const PIPELINE_DEPTH: usize = 256;

#[derive(Clone, Copy)]
enum Column {
    Number,
    Text,
}

impl Column {
    fn sql(self) -> &'static str {
        match self {
            Self::Number => "update t2 set b = $1 where a = $2",
            Self::Text => "update t2 set c = $1 where a = $2",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Text => "text",
        }
    }
}

/// The new values of row 1, 2, ….
struct Values {
    numbers: Vec<i32>,
    texts: Vec<String>,
}

pub fn run(url: &str, server: Server, rounds: usize, report: &Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let setup = indexed_table();
    let mut source = Numbers::default();
    let numbers: Vec<i32> = (0..ROW_COUNT).map(|_| source.draw() as i32).collect();
    let texts = numbers.iter().map(|&number| words(number as u32)).collect();
    let values = Values { numbers, texts };
    let mut warm_up = Measure::new("warm-up");
    with_table(url, &setup, Column::Number, &values, || {
        thin(url, server, Column::Number, 1, &values, &mut warm_up)
    })?;
    for column in [Column::Number, Column::Text] {
        for (depth, order) in [(1, "sequential"), (PIPELINE_DEPTH, "pipelined")] {
            let name = |client: &str| {
                format!(
                    "25000 prepared {} updates, {order}, {client}",
                    column.name()
                )
            };
            let mut by_thin = Measure::new(name("thin client"));
            let mut by_tokio = Measure::new(name("tokio-postgres"));
            for _ in 0..rounds {
                with_table(url, &setup, column, &values, || {
                    thin(url, server, column, depth, &values, &mut by_thin)
                })?;
                with_table(url, &setup, column, &values, || {
                    let work = tokio_postgres(url, server, column, depth, &values, &mut by_tokio);
                    runtime.block_on(work)
                })?;
            }
            report.print(&by_thin);
            report.print(&by_tokio);
        }
    }
    Client::connect(url)?.ask("drop table t2")?;
    Ok(())
}

/// A fresh table before and a look at the result after, each on a connection of its own.
fn with_table(
    url: &str,
    setup: &str,
    column: Column,
    values: &Values,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    Client::connect(url)?.ask(setup)?;
    work()?;
    let (sql, expected): (_, i64) = match column {
        Column::Number => (
            "select sum(b) from t2",
            values.numbers.iter().map(|&number| i64::from(number)).sum(),
        ),
        Column::Text => (
            "select sum(length(c)) from t2",
            values.texts.iter().map(|text| text.len() as i64).sum(),
        ),
    };
    let sum: i64 = Client::connect(url)?.ask(sql)?.text()?.parse()?;
    ensure!(sum == expected, "{sql}: {sum} in place of {expected}");
    Ok(())
}

fn thin(
    url: &str,
    server: Server,
    column: Column,
    depth: usize,
    values: &Values,
    measure: &mut Measure,
) -> Result<()> {
    let mut client = Client::connect(url)?;
    let value = |index: usize| match column {
        Column::Number => Parameter::Integer(values.numbers[index]),
        Column::Text => Parameter::Text(&values.texts[index]),
    };
    client.prepare("update", column.sql(), &[value(0), Parameter::Integer(0)])?;
    let stopwatch = Stopwatch::start(Some(server.cpu(client.backend_pid())));
    client.ask("begin")?;
    for first in (0..ROW_COUNT).step_by(depth) {
        let indexes = first..ROW_COUNT.min(first + depth);
        for index in indexes.clone() {
            client.push_execute(
                "update",
                &[value(index), Parameter::Integer(index as i32 + 1)],
            );
        }
        client.send()?;
        for _ in indexes {
            client.complete()?;
        }
    }
    client.ask("commit")?;
    measure.add(stopwatch);
    Ok(())
}

async fn tokio_postgres(
    url: &str,
    server: Server,
    column: Column,
    depth: usize,
    values: &Values,
    measure: &mut Measure,
) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let statement = client.prepare(column.sql()).await?;
    let pid: i32 = client
        .query_one("select pg_backend_pid()", &[])
        .await?
        .get(0);
    let cpu: ServerCpu = server.cpu(pid as u32);
    let update = async |index: usize| {
        let key = index as i32 + 1;
        let value: &(dyn ToSql + Sync) = match column {
            Column::Number => &values.numbers[index],
            Column::Text => &values.texts[index],
        };
        client.execute(&statement, &[value, &key]).await
    };
    let stopwatch = Stopwatch::start(Some(cpu));
    client.batch_execute("begin").await?;
    for first in (0..ROW_COUNT).step_by(depth) {
        // Polled in order, they send in order, without waiting for each other's answers.
        try_join_all((first..ROW_COUNT.min(first + depth)).map(update)).await?;
    }
    client.batch_execute("commit").await?;
    measure.add(stopwatch);
    drop(client);
    connection
        .await?
        .context("the connection of tokio-postgres")?;
    Ok(())
}
