//! A table as sink, at least once.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::client::Client;
use super::options::SinkOptions;
use super::rows::Rows;
use super::table::Table;
use super::writer::Writer;
use crate::write_queue::WriteState;
use crate::{Error, Result};

/// How many bytes are passed to the thread at once: few enough that `buffer_max` holds many.
const CHUNK_SIZE: usize = 256 << 10;

/// Writes rows to a table: each is delivered when its transaction is committed. A thread of its own
/// writes them, so that a server that is away does not keep the run from ending.
pub(super) struct PostgresSink {
    table: Arc<Table>,
    buffer_max: usize,
    shared: Arc<WriteState>,
    /// Its length is limited by `buffer_max`.
    chunks: Option<Sender<Rows>>,
    thread: Option<JoinHandle<()>>,
    give_up: Option<StopFlag>,
}

impl PostgresSink {
    pub(super) fn open(client: Client, table: Table, options: &SinkOptions) -> Result<Self> {
        let shared = Arc::new(WriteState::default());
        let table = Arc::new(table);
        let (sender, chunks) = unbounded();
        let writer = Writer {
            client,
            table: Arc::clone(&table),
            batch_rows: options.batch_rows,
            batch_size: options.buffer_max / 2,
            batch_time: options.batch_time,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("postgres-sink".into())
            .spawn(move || writer.write(&chunks))
            .map_err(|error| Error::no_thread(&options.name, &error))?;
        Ok(Self {
            table,
            buffer_max: options.buffer_max,
            shared,
            chunks: Some(sender),
            thread: Some(thread),
            give_up: None,
        })
    }

    fn is_given_up(&self) -> bool {
        self.give_up.as_ref().is_some_and(StopFlag::is_raised)
    }

    fn send(&self, rows: Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.shared
            .begin(rows.size(), self.buffer_max, self.give_up.as_ref())?;
        let chunks = self.chunks.as_ref().expect("there is a thread");
        // After a failure, the next write reports it.
        let _ = chunks.send(rows);
        Ok(())
    }

    fn refuse(&self, message: &Message<'_>, receipt: &Arc<Receipt>, reason: String) {
        self.shared.refuse(RefusedMessage {
            payload: message.payload().map(<[u8]>::to_vec),
            key: message.key().map(<[u8]>::to_vec),
            reason,
            receipt: Arc::clone(receipt),
            segment: message.segment(),
        });
    }
}

impl MessageSink for PostgresSink {
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
        self.shared.take_refused()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shared.flush(self.give_up.as_ref())
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}

impl Drop for PostgresSink {
    fn drop(&mut self) {
        self.shared.close();
        self.chunks = None;
        // A run that gives up does not wait for an answer that may never come; the thread ends when
        // that is clear.
        if let Some(thread) = self.thread.take()
            && !self.is_given_up()
        {
            let _ = thread.join();
        }
    }
}
