//! What does a prepared round trip over the socket cost? Once with the thinnest client and once with
//! tokio-postgres on one thread, as applications use it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tokio_postgres::types::ToSql;

use crate::client::{Client, Parameter};
use crate::measure::{Measure, Report, Server, Stopwatch};

const SETUP: &str = "\
    drop table if exists rtt; \
    create table rtt (id int4 primary key, value text not null); \
    insert into rtt select number, 'value ' || number from generate_series(1, 1000) number";
const KEY_COUNT: i32 = 1000;

struct Case {
    name: &'static str,
    sql: &'static str,
    /// After the key, which is the first.
    value: Option<&'static str>,
    row_count: u64,
}

const CASES: [Case; 3] = [
    Case {
        name: "constant",
        sql: "select $1::int4",
        value: None,
        row_count: 1,
    },
    Case {
        name: "select by key",
        sql: "select value from rtt where id = $1",
        value: None,
        row_count: 1,
    },
    Case {
        name: "update by key",
        sql: "update rtt set value = $2 where id = $1",
        value: Some("another value"),
        row_count: 0,
    },
];

pub fn run(url: &str, server: Server, count: usize, report: &Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for case in &CASES {
        // One connection at a time: a WebAssembly build has no second.
        report.print(&thin(url, server, count, case)?);
        report.print(&runtime.block_on(tokio_postgres(url, server, count, case))?);
    }
    Ok(())
}

/// A tenth of the operations goes before, unmeasured.
fn keys(count: usize) -> (impl Iterator<Item = i32>, impl Iterator<Item = i32>) {
    let key = |index: usize| (index as i32).wrapping_mul(7919).rem_euclid(KEY_COUNT) + 1;
    ((0..count.div_ceil(10)).map(key), (0..count).map(key))
}

fn thin(url: &str, server: Server, count: usize, case: &Case) -> Result<Measure> {
    let mut client = Client::connect(url)?;
    client.ask(SETUP)?;
    let parameters = |key| {
        [
            Parameter::Integer(key),
            Parameter::Text(case.value.unwrap_or("")),
        ]
    };
    let parameter_count = 1 + usize::from(case.value.is_some());
    client.prepare("case", case.sql, &parameters(0)[..parameter_count])?;
    let mut measure = Measure::new(format!("round trip: {}, thin client", case.name));
    let ask = |client: &mut Client, key| -> Result<()> {
        let answer = client.execute("case", &parameters(key)[..parameter_count])?;
        ensure!(
            answer.row_count == case.row_count,
            "{} rows came",
            answer.row_count
        );
        Ok(())
    };
    let (before, measured) = keys(count);
    for key in before {
        ask(&mut client, key)?;
    }
    let stopwatch = Stopwatch::start(Some(server.cpu(client.backend_pid())));
    for key in measured {
        let started = Instant::now();
        ask(&mut client, key)?;
        measure.add_wall(started.elapsed());
    }
    measure.add_cpu(stopwatch);
    check(&mut client, case)?;
    Ok(measure)
}

async fn tokio_postgres(url: &str, server: Server, count: usize, case: &Case) -> Result<Measure> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute(SETUP).await?;
    let statement = client.prepare(case.sql).await?;
    let pid: i32 = client
        .query_one("select pg_backend_pid()", &[])
        .await?
        .get(0);
    let mut measure = Measure::new(format!("round trip: {}, tokio-postgres", case.name));
    let ask = async |key: i32| -> Result<()> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&key, &case.value];
        let parameters = &parameters[..1 + usize::from(case.value.is_some())];
        if case.row_count == 0 {
            ensure!(
                client.execute(&statement, parameters).await? == 1,
                "no row was updated"
            );
        } else {
            client.query_one(&statement, parameters).await?;
        }
        Ok(())
    };
    let (before, measured) = keys(count);
    for key in before {
        ask(key).await?;
    }
    let stopwatch = Stopwatch::start(Some(server.cpu(pid as u32)));
    for key in measured {
        let started = Instant::now();
        ask(key).await?;
        measure.add_wall(started.elapsed());
    }
    measure.add_cpu(stopwatch);
    drop(client);
    connection
        .await?
        .context("the connection of tokio-postgres")?;
    Ok(measure)
}

/// The updates must have happened: every key was met, 7919 and 1000 having no common divisor.
fn check(client: &mut Client, case: &Case) -> Result<()> {
    let Some(value) = case.value else {
        return Ok(());
    };
    let sql = format!("select count(*) from rtt where value = '{value}'");
    let count: usize = client.ask(&sql)?.text()?.parse()?;
    ensure!(count > 0, "no row has the new value");
    Ok(())
}
