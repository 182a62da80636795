//! What does a point read of PostgreSQL cost in other people's drivers, and in no driver at all?
//!
//! `rival-postgres MODE --url URL [options]` prints one line of JSON. Modes:
//!
//! - `raw`: a blocking socket, a named statement, bytes made by hand, answers looked at only as far
//!   as to find the value: what remains is the server's and the kernel's. `--window N` sends N at
//!   once and then reads N answers; `--syncs each|one` gives each its own Sync or all of them one.
//! - `tokio-postgres`: one connection, a prepared statement, `--window N` in flight: from N tasks
//!   (`--flight tasks`) or as N futures of one task that are awaited together (`--flight batch`).
//! - `deadpool`: `--tasks` (64) over `--pool` (8) connections of tokio-postgres, statements from
//!   deadpool's cache, connections handed out unchecked.
//! - `sqlx`: one connection at `--tasks 1`, else `--tasks` (64) over `--pool` (8), filled ahead and
//!   handed out unchecked.
//!
//! All of them read `select value from points where id = $1`, whose `--rows` (10,000) they make
//! where they are not there, with `--keys hotset|zipf`, for `--seconds` (5) after a tenth of that to
//! warm up. `--runtime multi|current` chooses tokio's; `--server-pid` is the postmaster's, for the
//! CPU time of the server. The server must trust us; TLS is off.

mod deadpool;
mod raw;
mod sqlx;
mod table;
mod tokio_postgres;

use anyhow::{Result, bail};
use rival_common::arguments::Arguments;
use rival_common::keys::Keys;
use rival_common::work::Pace;
use tokio::runtime::{Builder, Runtime};

/// What each mode is asked.
struct Question {
    url: String,
    /// Of the measured statement.
    sql: &'static str,
    keys: Keys,
    pace: Pace,
    window: usize,
    tasks: usize,
    pool: usize,
    /// Of tokio's runtimes: multi or current.
    flavour: &'static str,
}

impl Question {
    /// How a line of JSON tells what was asked.
    fn case(&self, how: &str) -> String {
        format!("point read, {}, {how}", self.keys.law)
    }

    /// The same for what runs on tokio.
    fn case_of_tasks(&self, how: &str) -> String {
        self.case(&format!("{how}, {}-thread runtime", self.flavour))
    }
}

fn main() -> Result<()> {
    let mut known = vec![
        "--url",
        "--window",
        "--syncs",
        "--flight",
        "--tasks",
        "--pool",
        "--runtime",
    ];
    known.extend(Keys::OPTIONS);
    known.extend(Pace::OPTIONS);
    let arguments = Arguments::read(&known)?;
    let keys = Keys::read(&arguments)?;
    let question = Question {
        url: arguments.required("--url")?.into(),
        sql: table::select(keys.rows).leak(),
        keys,
        pace: Pace::read(&arguments)?,
        window: arguments.count("--window", 1)?,
        tasks: arguments.count("--tasks", 64)?,
        pool: arguments.count("--pool", 8)?,
        flavour: arguments.word("--runtime", &["multi", "current"])?,
    };
    let syncs = arguments.word("--syncs", &["each", "one"])?;
    let flight = arguments.word("--flight", &["tasks", "batch"])?;

    runtime("current")?.block_on(table::ensure(&question.url, question.keys.rows))?;
    match arguments.mode.as_str() {
        "raw" => raw::run(&question, syncs == "one"),
        "tokio-postgres" => {
            let batch = flight == "batch";
            runtime(question.flavour)?.block_on(tokio_postgres::run(&question, batch))
        }
        "deadpool" => runtime(question.flavour)?.block_on(deadpool::run(&question)),
        "sqlx" => runtime(question.flavour)?.block_on(sqlx::run(&question)),
        mode => bail!("mode {mode}: one of raw, tokio-postgres, deadpool, sqlx"),
    }
}

fn runtime(flavour: &str) -> Result<Runtime> {
    let mut builder = match flavour {
        "multi" => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}
