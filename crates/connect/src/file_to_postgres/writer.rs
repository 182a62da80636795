//! The thread of the sink: writes blocks and the position after them, in one transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use lookaside_client::blocking::Transaction;
use lookaside_client::postgres::PostgresDriver;
use tracing::{info, warn};

use super::batch::Batch;
use super::positions::Positions;
use crate::postgres::{Client, Ended, RowTransactions, Table};
use crate::write_queue::WriteState;

/// How often it is looked whether other results of the blocks are delivered.
const POLL: Duration = Duration::from_millis(2);

/// Writes what the sink passes to it.
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) table: Arc<Table>,
    pub(super) positions: Positions,
    /// No block is added to a batch of so many rows.
    pub(super) batch_rows: usize,
    /// No block is added to a batch of this size.
    pub(super) batch_size: usize,
    /// How long a block waits for further ones.
    pub(super) batch_time: Duration,
    /// The most rows of a statement.
    pub(super) statement_rows: usize,
    pub(super) shared: Arc<WriteState>,
}

/// Why the thread ends.
enum WriteEnd {
    /// The sink is being dropped.
    Closing,
    /// Nothing can be written.
    Failed(String),
}

impl Writer {
    /// Writes blocks until the queue ends, the sink is dropped, or a transaction cannot succeed.
    pub(super) fn write(mut self, blocks: &Receiver<Batch>) {
        while let Ok(mut batch) = blocks.recv() {
            let deadline = Instant::now() + self.batch_time;
            while batch.rows.len() < self.batch_rows && batch.size() < self.batch_size {
                match blocks.recv_deadline(deadline) {
                    Ok(next) => batch.append(next),
                    Err(_) => break,
                }
            }
            match self.commit(&mut batch) {
                Ok(()) => self.shared.end(batch.size()),
                Err(WriteEnd::Closing) => return,
                Err(WriteEnd::Failed(reason)) => return self.shared.fail(reason),
            }
        }
    }

    /// Writes a batch without the rows that the server does not accept; repeats this until it succeeds.
    fn commit(&mut self, batch: &mut Batch) -> Result<(), WriteEnd> {
        loop {
            // Also after rows were refused: their dead letters come first.
            while !batch.is_rest_delivered() {
                self.pause(POLL)?;
            }
            match self.try_commit(batch)? {
                Ended::Committed => break,
                Ended::Moved => {
                    // Whether the answer to a COMMIT of this batch was lost.
                    let stored = self.positions.read(&mut self.client);
                    match stored {
                        Ok(Some(stored)) if stored == batch.position => {
                            info!(connector = self.client.name(), "the batch was committed");
                            break;
                        }
                        Ok(_) => return Err(WriteEnd::Failed(self.positions.moved())),
                        Err(failure) => self.warn_and_pause(&failure.into_reason())?,
                    }
                }
                Ended::Refused(refused) => {
                    // From the last one, so that indexes stay valid.
                    let refused = refused.into_iter().rev();
                    let refused: Vec<_> = refused
                        .map(|(index, reason)| batch.refuse(index, reason))
                        .collect();
                    for message in refused.into_iter().rev() {
                        self.shared.refuse(message);
                    }
                }
                Ended::Unclear(reason) => self.warn_and_pause(&reason)?,
                Ended::Impossible(reason) => return Err(WriteEnd::Failed(reason)),
            }
        }
        batch.deliver();
        self.positions.set_stored(batch.position.clone());
        Ok(())
    }

    fn try_commit(&mut self, batch: &Batch) -> Result<Ended, WriteEnd> {
        let positions = &self.positions;
        let store = |transaction: &mut Transaction<'_, PostgresDriver>| {
            positions.store(transaction, &batch.position)
        };
        let shared = &self.shared;
        let mut transactions = RowTransactions {
            client: &mut self.client,
            table: &self.table,
            statement_rows: &mut self.statement_rows,
        };
        transactions.commit(&batch.rows, store, |time| pause(shared, time))
    }

    fn warn_and_pause(&mut self, reason: &str) -> Result<(), WriteEnd> {
        warn!(
            connector = self.client.name(),
            reason, "writing is interrupted"
        );
        let time = self.client.next_backoff();
        self.pause(time)
    }

    fn pause(&self, time: Duration) -> Result<(), WriteEnd> {
        pause(&self.shared, time)
    }
}

/// Waits, unless the sink is being dropped.
fn pause(shared: &WriteState, time: Duration) -> Result<(), WriteEnd> {
    let deadline = Instant::now() + time;
    let mut state = shared.lock();
    while !state.is_closing {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        state = shared.wait(state, left);
    }
    Err(WriteEnd::Closing)
}
