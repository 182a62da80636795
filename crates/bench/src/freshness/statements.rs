//! How many statements the server runs, as it counts itself.

use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_knowledge::Policy;
use lookaside_value::Value;

use super::Result;
use super::server::{Engine, FeedServer};
use crate::target::current_thread;

/// A backend reports what it has done at most once a second, with the next statement after that; without
/// one, up to 10 s later.
const REPORT_INTERVAL: Duration = Duration::from_millis(1100);

/// Counts the transactions of the database: each statement of the feed and of a lookup is one.
pub(super) struct TransactionCount {
    connection: Connection,
    begin: Instant,
    count: i64,
}

impl TransactionCount {
    /// Waits until earlier statements are counted, and begins.
    pub(super) fn begin(server: &FeedServer, engine: &Engine) -> Result<Self> {
        let mut connection = server.connect()?;
        thread::sleep(REPORT_INTERVAL);
        report(engine)?;
        let count = count(&mut connection)?;
        Ok(Self {
            connection,
            begin: Instant::now(),
            count,
        })
    }

    /// Waits until the statements up to now are counted; returns how many there were a second, without
    /// our own.
    pub(super) fn per_second(mut self, engine: &Engine) -> Result<f64> {
        thread::sleep(REPORT_INTERVAL);
        let own_count = 1 + report(engine)?;
        let made = count(&mut self.connection)? - self.count - own_count;
        Ok(made as f64 / self.begin.elapsed().as_secs_f64())
    }
}

/// Lets the connections of the engine report, by a statement on each: that of blocking callers and that of
/// asynchronous ones, which may be the same. Returns the number of statements.
fn report(engine: &Engine) -> Result<i64> {
    let (knowledge, statement, key) = (&engine.knowledge, &engine.statement, [Value::Int(1)]);
    knowledge.query_first_with(statement, &key, Policy::Bypass)?;
    let asking = knowledge.query_first_async_with(statement, &key, Policy::Bypass);
    current_thread()?.block_on(asking)?;
    Ok(2)
}

fn count(connection: &mut Connection) -> Result<i64> {
    let sql = "select xact_commit + xact_rollback from pg_stat_database \
               where datname = current_database()";
    let row = connection.query_one(sql, &[])?;
    Ok(row.as_ref().get::<i64>(0)?)
}
