//! A server as sink.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::client::Client;
use super::message::{Identities, Outgoing};
use super::options::SinkOptions;
use super::target::Target;
use super::writer::{Command, Writer};
use crate::Result;
use crate::write_thread::WriteThread;

/// How many bytes are passed to the thread at once, so that passing them costs little.
const CHUNK_SIZE: usize = 64 << 10;

/// Sends messages, at least once: each is delivered when the server has answered so.
pub(super) struct HttpSink {
    target: Arc<dyn Target>,
    chunk_size: usize,
    identities: Identities,
    thread: WriteThread<Command>,
}

impl HttpSink {
    pub(super) fn open(
        client: Client,
        target: Box<dyn Target>,
        options: &SinkOptions,
    ) -> Result<Self> {
        let target: Arc<dyn Target> = target.into();
        let thread = WriteThread::start(&options.name, "http-sink", options.buffer_max, {
            let target = Arc::clone(&target);
            let (batch_bytes, batch_time) = (options.batch_bytes, options.batch_time);
            move |commands, shared| {
                Writer::new(client, target, shared, batch_bytes, batch_time).run(commands);
            }
        })?;
        Ok(Self {
            target,
            chunk_size: CHUNK_SIZE.min(options.batch_bytes),
            identities: Identities::new(),
            thread,
        })
    }

    fn send(&self, chunk: Vec<Outgoing>, size: usize) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        self.thread.write(Command::Send(chunk, size), size)
    }

    /// The form of a message in which it is sent; the error is the reason why it has none.
    fn encode(
        &mut self,
        message: &Message<'_>,
        receipt: &Arc<Receipt>,
    ) -> Result<Outgoing, &'static str> {
        // Also of a message that is not sent, so that those behind it keep theirs.
        let id = self.identities.of(message, receipt);
        let Some(payload) = message.payload() else {
            return Err("the payload is null, and this output takes events only");
        };
        if payload.contains(&b'\n') {
            return Err("the event has several lines, and this output takes one for each event");
        }
        let outgoing = Outgoing {
            payload: payload.into(),
            key: message.key().map(Box::from),
            topic: message.topic().cloned(),
            id,
            receipt: Arc::clone(receipt),
            segment: message.segment(),
        };
        match self.target.problem_of(&outgoing) {
            Some(problem) => Err(problem),
            None => Ok(outgoing),
        }
    }
}

impl MessageSink for HttpSink {
    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.wait_room(timeout)
    }

    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut chunk = Vec::new();
        let mut chunk_size = 0;
        for message in messages.iter() {
            let outgoing = match self.encode(&message, receipt) {
                Ok(outgoing) => outgoing,
                Err(reason) => {
                    self.thread.shared.refuse(RefusedMessage::of(
                        &message,
                        receipt,
                        reason.to_owned(),
                    ));
                    continue;
                }
            };
            let size = outgoing.size();
            if chunk_size + size > self.chunk_size {
                self.send(mem::take(&mut chunk), mem::take(&mut chunk_size))?;
            }
            chunk_size += size;
            chunk.push(outgoing);
        }
        self.send(chunk, chunk_size)
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        self.thread.shared.take_refused()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.pass(Command::Flush);
        self.thread.flush(timeout)
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.thread.attach(give_up);
    }
}
