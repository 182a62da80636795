//! A server as sink.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::client::Client;
use super::message::{Identities, Outgoing};
use super::options::SinkOptions;
use super::target::Target;
use super::writer::{Order, Writer};
use crate::write_queue::WriteState;
use crate::{Error, Result};

/// How many bytes are passed to the thread at once, so that passing them costs little.
const CHUNK_SIZE: usize = 64 << 10;

/// Sends messages, at least once: each is delivered when the server has answered so.
pub(super) struct HttpSink {
    target: Arc<dyn Target>,
    chunk_size: usize,
    buffer_max: usize,
    identities: Identities,
    shared: Arc<WriteState>,
    /// Its length is limited by `buffer_max`.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    give_up: Option<StopFlag>,
}

impl HttpSink {
    pub(super) fn open(
        client: Client,
        target: Box<dyn Target>,
        options: &SinkOptions,
    ) -> Result<Self> {
        let target: Arc<dyn Target> = target.into();
        let shared = Arc::new(WriteState::default());
        let (sender, orders) = unbounded();
        let writer = Writer::new(client, Arc::clone(&target), Arc::clone(&shared), options);
        let thread = std::thread::Builder::new()
            .name("http-sink".into())
            .spawn(move || writer.run(&orders))
            .map_err(|error| Error::no_thread(&options.name, &error))?;
        Ok(Self {
            target,
            chunk_size: CHUNK_SIZE.min(options.batch_bytes),
            buffer_max: options.buffer_max,
            identities: Identities::new(),
            shared,
            orders: Some(sender),
            thread: Some(thread),
            give_up: None,
        })
    }

    fn is_given_up(&self) -> bool {
        self.give_up.as_ref().is_some_and(StopFlag::is_raised)
    }

    fn order(&self, order: Order) {
        let orders = self.orders.as_ref().expect("there is a thread");
        // After a failure, the next write reports it.
        let _ = orders.send(order);
    }

    fn send(&self, chunk: Vec<Outgoing>, size: usize) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        let size_max = self.buffer_max;
        self.shared.begin(size, size_max, self.give_up.as_ref())?;
        self.order(Order::Send(chunk, size));
        Ok(())
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
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut chunk = Vec::new();
        let mut chunk_size = 0;
        for message in messages.iter() {
            let outgoing = match self.encode(&message, receipt) {
                Ok(outgoing) => outgoing,
                Err(reason) => {
                    self.shared.refuse(RefusedMessage {
                        payload: message.payload().map(<[u8]>::to_vec),
                        key: message.key().map(<[u8]>::to_vec),
                        reason: reason.to_owned(),
                        receipt: Arc::clone(receipt),
                        segment: message.segment(),
                    });
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
        self.shared.take_refused()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.order(Order::Flush);
        self.shared.flush(self.give_up.as_ref())
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        self.shared.close();
        self.orders = None;
        // A run that gives up does not wait for an answer that may never come; the thread ends when
        // that is clear.
        if let Some(thread) = self.thread.take()
            && !self.is_given_up()
        {
            let _ = thread.join();
        }
    }
}
