//! What do wide and narrow, short and long results of MySQL and MariaDB cost in other people's
//! drivers?
//!
//! `rival-mysql MODE --url URL [options]` prints one line of JSON. Modes:
//!
//! - `sqlx`: one connection, its statement cache on, which parses every column definition again.
//! - `mysql_async`: one connection, a prepared statement; MariaDB's cached metadata is on, as it is
//!   by default.
//! - `proxy --to HOST:PORT [--rtt-ms 30] [--mbit N]`: no measure, but a relay to one, which keeps all
//!   bytes for half of the round trip each way. It prints its own HOST:PORT and ends with its input.
//!
//! The statement is `select * from wide_N` with `--columns` N (50) integers and a condition that
//! `--rows` (1) rows meet; every value is decoded and added. Neither driver sends a query before the
//! answer to the one before, so the window is 1. The table, of 10,000 rows, is made where it is not
//! there. It runs for `--seconds` (5) after a tenth of that to warm up; `--runtime current|multi`
//! chooses tokio's, `--server-pid` is the server's, for its CPU time. TLS is off.

mod mysql_async;
mod proxy;
mod sqlx;
mod table;

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use rival_common::arguments::Arguments;
use rival_common::work::{self, Look, Pace};
use tokio::runtime::Builder;

/// What each mode is asked.
struct Question {
    url: String,
    columns: usize,
    rows: usize,
    sql: &'static str,
    pace: Pace,
    runtime: &'static str,
}

fn main() -> Result<()> {
    let mut known = vec![
        "--url",
        "--columns",
        "--rows",
        "--runtime",
        "--to",
        "--rtt-ms",
        "--mbit",
    ];
    known.extend(Pace::OPTIONS);
    let arguments = Arguments::read(&known)?;
    if arguments.mode == "proxy" {
        return proxy::run(&arguments);
    }

    let columns = arguments.count("--columns", 50)?;
    let rows = arguments.count("--rows", 1)?;
    ensure!(columns >= 2, "--columns is at least 2");
    ensure!(rows <= table::ROWS, "--rows is at most {}", table::ROWS);
    let question = Question {
        url: arguments.required("--url")?.into(),
        columns,
        rows,
        sql: table::select(columns, rows).leak(),
        pace: Pace::read(&arguments)?,
        runtime: arguments.word("--runtime", &["current", "multi"])?,
    };
    let mut builder = match question.runtime {
        "multi" => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    runtime.block_on(table::ensure(&question))?;
    match arguments.mode.as_str() {
        "sqlx" => runtime.block_on(sqlx::run(&question)),
        "mysql_async" => runtime.block_on(mysql_async::run(&question)),
        mode => bail!("mode {mode}: one of sqlx, mysql_async, proxy"),
    }
}

async fn measure(question: &Question, engine: &str, looker: impl Look) -> Result<()> {
    let Question { columns, rows, .. } = question;
    let keys: Arc<[i64]> = match rows {
        // The hot set of the other benchmarks.
        1 => (0..128).map(|turn| turn * 17 % 128 + 1).collect(),
        &rows => [rows as i64].into(),
    };
    let mut lookers = vec![looker];
    let hash = work::check(&mut lookers[0], &keys).await?;
    work::run(&mut lookers, &keys, question.pace.warm_up()).await?;
    let measure = work::run(&mut lookers, &keys, question.pace).await?;
    let runtime = question.runtime;
    let case = format!("{columns} columns x {rows}, window 1, {runtime}-thread runtime");
    measure.print(engine, "metadata", &case, hash);
    Ok(())
}
