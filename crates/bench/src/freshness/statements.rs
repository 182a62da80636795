//! How many statements the server runs, as it counts itself.

use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;

use super::Result;
use super::server::FeedServer;

/// A backend reports what it has done at most once a second, with the next statement after that.
const REPORT_INTERVAL: Duration = Duration::from_millis(1100);

/// Counts the transactions of the database: each statement of the feed and of a lookup is one.
pub(super) struct TransactionCount {
    connection: Connection,
    begin: Instant,
    count: i64,
}

impl TransactionCount {
    /// Waits until earlier statements are counted, and begins.
    pub(super) fn begin(server: &FeedServer) -> Result<Self> {
        let mut connection = server.connect()?;
        thread::sleep(REPORT_INTERVAL);
        let count = count(&mut connection)?;
        Ok(Self {
            connection,
            begin: Instant::now(),
            count,
        })
    }

    /// Waits until the statements up to now are counted; returns how many there were a second, without
    /// our own.
    pub(super) fn per_second(mut self) -> Result<f64> {
        thread::sleep(REPORT_INTERVAL);
        let made = count(&mut self.connection)? - self.count - 1;
        Ok(made as f64 / self.begin.elapsed().as_secs_f64())
    }
}

fn count(connection: &mut Connection) -> Result<i64> {
    let sql = "select xact_commit + xact_rollback from pg_stat_database \
               where datname = current_database()";
    let row = connection.query_one(sql, &[])?;
    Ok(row.as_ref().get::<i64>(0)?)
}
