//! Transactions that write rows together with the positions up to which they were read.

use std::ops::Range;
use std::time::Duration;

use lookaside_client::TransactionOptions;
use lookaside_client::blocking::Transaction;
use lookaside_client::postgres::PostgresDriver;
use lookaside_client::postgres::blocking::Connection;
use tracing::{debug, info, warn};

use super::client::{Client, Failure};
use super::rows::Rows;
use super::table::Table;
use super::writer::{CONFLICT_COUNT_MAX, halves};

/// How a transaction ended.
pub(crate) enum Ended {
    Committed,
    /// The stored positions are not the expected ones; nothing is written.
    Moved,
    /// The server does not accept these rows, by their indexes with the reasons; nothing is written.
    Refused(Vec<(usize, String)>),
    /// The cause of a failure was not found; another attempt may succeed. Nothing is written.
    Unclear(String),
    /// The server never will; nothing is written.
    Impossible(String),
}

/// Writes rows in transactions of one table.
pub(crate) struct RowTransactions<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) table: &'a Table,
    /// The most rows of a statement; lowered if one takes too long.
    pub(crate) statement_rows: &'a mut usize,
}

impl RowTransactions<'_> {
    /// Writes rows and positions in one transaction, as often as it takes. `store` writes the
    /// positions, and returns false if those that are stored are not the expected ones. `pause` waits
    /// between two attempts, and ends them by an error.
    pub(crate) fn commit<E>(
        &mut self,
        rows: &Rows,
        store: impl Fn(&mut Transaction<'_, PostgresDriver>) -> lookaside_client::Result<bool>,
        pause: impl Fn(Duration) -> Result<(), E>,
    ) -> Result<Ended, E> {
        let table = self.table;
        let mut is_away = false;
        let mut conflict_count = 0;
        let ended = loop {
            let statement_rows = *self.statement_rows;
            let attempt = self.client.run(|connection| {
                let mut transaction = connection.begin(TransactionOptions::default())?;
                // First, since they exclude other processes.
                if !store(&mut transaction)? {
                    transaction.rollback()?;
                    return Ok(false);
                }
                for start in (0..rows.len()).step_by(statement_rows) {
                    let end = rows.len().min(start.saturating_add(statement_rows));
                    rows.write(start..end, table, &mut transaction)?;
                }
                transaction.commit()?;
                Ok(true)
            });
            let connector = self.client.name();
            let reason = match attempt {
                Ok(true) => break Ended::Committed,
                Ok(false) => break Ended::Moved,
                Err(Failure::Conflict(reason)) if conflict_count < CONFLICT_COUNT_MAX => {
                    conflict_count += 1;
                    reason
                }
                Err(failure @ (Failure::Data(_) | Failure::Conflict(_))) => {
                    break self.find_refused(rows, failure);
                }
                Err(Failure::TooLong(reason)) if statement_rows.min(rows.len()) > 1 => {
                    let row_count = statement_rows.min(rows.len());
                    warn!(connector, row_count, reason, "a statement takes too long");
                    *self.statement_rows = row_count / 2;
                    continue;
                }
                Err(Failure::Refused(reason)) => {
                    break Ended::Impossible(format!("table {}: {reason}", table.name()));
                }
                Err(Failure::Away(reason) | Failure::TooLong(reason)) => reason,
            };
            match is_away {
                false => warn!(connector, reason, "writing is interrupted"),
                true => debug!(connector, reason, "writing is interrupted"),
            }
            is_away = true;
            pause(self.client.next_backoff())?;
        };
        if is_away {
            info!(connector = self.client.name(), "connected again");
        }
        Ok(ended)
    }

    /// Looks for the rows that the server does not accept, after a transaction failed.
    fn find_refused(&mut self, rows: &Rows, failure: Failure) -> Ended {
        let table = self.table;
        let is_conflict = matches!(failure, Failure::Conflict(_));
        let reason = failure.into_reason();
        match (self.client).run(|connection| refused_rows(connection, rows, table)) {
            // The conflict is over.
            Ok(refused) if refused.is_empty() && is_conflict => Ended::Unclear(reason),
            Ok(refused) if refused.is_empty() => Ended::Impossible(format!(
                "table {}: a transaction is refused, but none of its rows: {reason}",
                table.name()
            )),
            Ok(refused) => Ended::Refused(refused),
            Err(Failure::Refused(reason)) => Ended::Impossible(reason),
            Err(failure) => Ended::Unclear(failure.into_reason()),
        }
    }
}

/// The rows that the server does not accept after those before them, with the reasons. Nothing is
/// written.
fn refused_rows(
    connection: &mut Connection,
    rows: &Rows,
    table: &Table,
) -> lookaside_client::Result<Vec<(usize, String)>> {
    let mut transaction = connection.begin(TransactionOptions::default())?;
    let mut refused = Vec::new();
    // The next part is the last one.
    let mut parts: Vec<Range<usize>> = std::iter::once(0..rows.len()).collect();
    while let Some(part) = parts.pop() {
        let mut savepoint = transaction.savepoint()?;
        let written = rows
            .write(part.clone(), table, &mut savepoint)
            .and_then(|()| savepoint.batch_execute("set constraints all immediate"));
        let Err(error) = written else {
            savepoint.commit()?;
            continue;
        };
        match Failure::of(&error) {
            Failure::Data(reason) | Failure::Conflict(reason) if part.len() == 1 => {
                refused.push((part.start, reason));
            }
            Failure::TooLong(_) if part.len() == 1 => return Err(error),
            Failure::Data(_) | Failure::Conflict(_) | Failure::TooLong(_) => {
                parts.extend(halves(part));
            }
            Failure::Away(_) | Failure::Refused(_) => return Err(error),
        }
        savepoint.rollback()?;
    }
    transaction.rollback()?;
    Ok(refused)
}
