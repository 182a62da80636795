//! A table as sink, at least once.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::client::Client;
use super::options::SinkOptions;
use super::rows::Rows;
use super::table::Table;
use super::writer::Writer;
use crate::Result;
use crate::write_thread::WriteThread;

/// How many bytes are passed to the thread at once: few enough that `buffer_max` holds many.
const CHUNK_SIZE: usize = 256 << 10;

/// Writes rows to a table: each is delivered when its transaction is committed. A thread of its own
/// writes them, so that a server that is away does not keep the run from ending.
pub(super) struct PostgresSink {
    table: Arc<Table>,
    thread: WriteThread<Rows>,
}

impl PostgresSink {
    pub(super) fn open(client: Client, table: Table, options: &SinkOptions) -> Result<Self> {
        let table = Arc::new(table);
        let thread = WriteThread::start(&options.name, "postgres-sink", options.buffer_max, {
            let table = Arc::clone(&table);
            let (batch_rows, batch_time) = (options.batch_rows, options.batch_time);
            let batch_size = options.buffer_max / 2;
            move |chunks, shared| {
                let writer = Writer {
                    client,
                    table,
                    batch_rows,
                    batch_size,
                    batch_time,
                    shared,
                };
                writer.write(chunks);
            }
        })?;
        Ok(Self { table, thread })
    }

    fn send(&self, rows: Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let size = rows.size();
        self.thread.write(rows, size)
    }

    fn refuse(&self, message: &Message<'_>, receipt: &Arc<Receipt>, reason: String) {
        self.thread
            .shared
            .refuse(RefusedMessage::of(message, receipt, reason));
    }
}

impl MessageSink for PostgresSink {
    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.wait_room(timeout)
    }

    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut rows = Rows::default();
        for message in messages.iter() {
            if let Err(reason) = rows.push(&self.table, &message, receipt) {
                self.refuse(&message, receipt, reason);
            }
            if rows.size() >= CHUNK_SIZE {
                self.send(mem::take(&mut rows))?;
            }
        }
        self.send(rows)
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
