//! The thread of a sink: writes batches of rows, each in a transaction.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use lookaside_client::TransactionOptions;
use tracing::{debug, info, warn};

use super::client::{Client, Failure};
use super::rows::Rows;
use super::table::Table;
use crate::write_queue::WriteState;

/// After so many conflicts in a row, which take about ten seconds, they are attributed to a row: a
/// trigger can raise this error each time.
pub(super) const CONFLICT_COUNT_MAX: u32 = 10;

/// Writes what a sink passes to it.
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) table: Arc<Table>,
    /// The most rows of a transaction.
    pub(super) batch_rows: usize,
    /// No more is added to a batch of this size.
    pub(super) batch_size: usize,
    /// How long a row waits for further ones.
    pub(super) batch_time: Duration,
    pub(super) shared: Arc<WriteState>,
}

impl Writer {
    /// Writes until there is no more, the sink is dropped, or the server refuses.
    pub(super) fn write(mut self, chunks: &Receiver<Rows>) {
        while let Ok(mut rows) = chunks.recv() {
            let deadline = Instant::now() + self.batch_time;
            while rows.len() < self.batch_rows && rows.size() < self.batch_size {
                match chunks.recv_deadline(deadline) {
                    Ok(more) => rows.append(more),
                    Err(_) => break,
                }
            }
            if self.shared.lock().is_closing {
                return;
            }
            if let Err(reason) = self.write_all(&rows) {
                self.shared.fail(reason);
                return;
            }
            self.shared.end(rows.size());
        }
    }

    /// Writes rows, as often as it takes, and reports them on their receipts. A part that the server
    /// does not accept is halved until the row is found that it does not accept. The error is the
    /// reason why no row can be written.
    fn write_all(&mut self, rows: &Rows) -> Result<(), String> {
        let starts = (0..rows.len()).step_by(self.batch_rows);
        // The next part is the last one.
        let mut parts: Vec<Range<usize>> = starts
            .map(|start| start..rows.len().min(start + self.batch_rows))
            .rev()
            .collect();
        let mut is_away = false;
        let mut conflict_count = 0;
        // Whether a row is looked for whose transactions always fail by a conflict.
        let mut is_searching = false;
        while let Some(part) = parts.pop() {
            let written = self.write_part(rows, part.clone());
            conflict_count = match written {
                Err(Failure::Conflict(_)) => conflict_count + 1,
                _ => 0,
            };
            let is_one = part.len() == 1;
            is_searching |= conflict_count == CONFLICT_COUNT_MAX;
            let may_end = conflict_count < CONFLICT_COUNT_MAX && (is_one || !is_searching);
            let reason = match written {
                Ok(()) => {
                    rows.deliver(part);
                    continue;
                }
                Err(Failure::Conflict(reason)) if may_end => reason,
                Err(Failure::Data(reason) | Failure::Conflict(reason)) if is_one => {
                    self.shared.refuse(rows.refused(part.start, reason));
                    continue;
                }
                Err(Failure::Data(_) | Failure::Conflict(_)) => {
                    parts.extend(halves(part));
                    continue;
                }
                Err(Failure::TooLong(reason)) if !is_one => {
                    let (connector, row_count) = (self.client.name(), part.len());
                    warn!(
                        connector,
                        row_count, reason, "a statement takes too long: lower batch_rows"
                    );
                    parts.extend(halves(part));
                    continue;
                }
                Err(Failure::Refused(reason)) => {
                    return Err(format!("table {}: {reason}", self.table.name()));
                }
                Err(Failure::Away(reason) | Failure::TooLong(reason)) => reason,
            };
            parts.push(part);
            let connector = self.client.name();
            match is_away {
                false => warn!(connector, reason, "writing is interrupted"),
                true => debug!(connector, reason, "writing is interrupted"),
            }
            is_away = true;
            let mut state = self.shared.lock();
            if !state.is_closing {
                state = self.shared.wait(state, self.client.next_backoff());
            }
            if state.is_closing {
                return Err("the sink is closed".to_owned());
            }
        }
        if is_away {
            info!(connector = self.client.name(), "connected again");
        }
        Ok(())
    }

    fn write_part(&mut self, rows: &Rows, part: Range<usize>) -> Result<(), Failure> {
        let table = &self.table;
        let is_one_statement = rows.statement_count(part.clone(), table) == 1;
        self.client.run(|connection| {
            // A statement is a transaction by itself.
            if is_one_statement {
                return rows.write(part, table, connection);
            }
            let mut transaction = connection.begin(TransactionOptions::default())?;
            rows.write(part, table, &mut transaction)?;
            transaction.commit()
        })
    }
}

/// The halves of a range, the second one first.
pub(super) fn halves(range: Range<usize>) -> [Range<usize>; 2] {
    let middle = range.start + range.len() / 2;
    [middle..range.end, range.start..middle]
}
