//! The sink of results of a followed file.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{Mark, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::batch::Batch;
use super::positions::{Followed, Positions};
use super::writer::Writer;
use crate::Result;
use crate::postgres::{Client, Rows, SinkOptions, Table};
use crate::write_thread::WriteThread;

/// Writes the results of a followed file with its positions. A thread of its own writes them.
pub(super) struct FollowedSink {
    table: Arc<Table>,
    followed: Followed,
    /// The rows of the current block.
    rows: Rows,
    thread: WriteThread<Batch>,
}

impl FollowedSink {
    pub(super) fn open(
        client: Client,
        table: Table,
        followed: Followed,
        positions: Positions,
        options: &SinkOptions,
    ) -> Result<Self> {
        let table = Arc::new(table);
        let (batch_rows, batch_time) = (options.batch_rows, options.batch_time);
        let batch_size = options.buffer_max / 2;
        let thread = WriteThread::start(&options.name, "postgres-sink", options.buffer_max, {
            let table = Arc::clone(&table);
            move |blocks, shared| {
                let writer = Writer {
                    client,
                    table,
                    positions,
                    batch_rows,
                    batch_size,
                    batch_time,
                    statement_rows: usize::MAX,
                    shared,
                };
                writer.write(blocks);
            }
        })?;
        Ok(Self {
            table,
            followed,
            rows: Rows::default(),
            thread,
        })
    }
}

impl MessageSink for FollowedSink {
    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.wait_room(timeout)
    }

    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        for message in messages.iter() {
            if let Err(reason) = self.rows.push(&self.table, &message, receipt) {
                self.thread
                    .shared
                    .refuse(RefusedMessage::of(&message, receipt, reason));
            }
        }
        Ok(())
    }

    fn end_block(&mut self, mark: &Mark, receipt: &Arc<Receipt>) -> io::Result<()> {
        let rows = mem::take(&mut self.rows);
        let batch = Batch::of(rows, receipt, self.followed.position(mark));
        let size = batch.size();
        self.thread.write_now(batch, size);
        Ok(())
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        self.thread.shared.take_refused()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.flush(timeout)
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.thread.attach(give_up);
    }
}
