//! A subject as sink.

use std::io;
use std::mem;
use std::str::FromStr as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::{HeaderMap, HeaderName, HeaderValue, Subject};
use bytes::Bytes;
use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::consumer::KEY_HEADER;
use super::options::{SinkOptions, is_subject};
use super::writer::{Chunk, Outgoing, Writer};
use crate::write_queue::WriteState;
use crate::{Error, Result};

/// How many payload bytes are published before their acknowledgements are awaited.
const CHUNK_SIZE: usize = 256 << 10;

/// How many messages at most, if they are small; the client queues 2,048 by default.
const CHUNK_COUNT: usize = 1000;

/// What the size of a message is without its payload and key, as an estimate.
const OVERHEAD_SIZE: usize = 200;

/// The header by which a stream recognises what it has stored already.
const ID_HEADER: &str = "Nats-Msg-Id";

/// What the names of headers begin with that are instructions to the server.
const RESERVED: &str = "nats-";

/// The headers that a source adds are no instructions, and lead to the message of a dead letter.
const NOT_RESERVED: [&str; 2] = ["nats-subject", "nats-sequence"];

/// Publishes messages, at least once: each is delivered when a stream has acknowledged it.
pub(super) struct NatsSink {
    subject: Subject,
    buffer_max: usize,
    state: Arc<WriteState>,
    /// Its length is limited by `buffer_max`.
    chunks: Option<UnboundedSender<Chunk>>,
    thread: Option<JoinHandle<()>>,
    give_up: Option<StopFlag>,
    /// What the ids of this run begin with.
    prefix: String,
    count: u64,
}

impl NatsSink {
    pub(super) fn open(runtime: Runtime, context: Context, options: SinkOptions) -> Result<Self> {
        let name = options.connection.name;
        let subject = Subject::from(options.subject);
        let state = Arc::new(WriteState::new(&name));
        let (sender, chunks) = unbounded_channel();
        let writer = Writer {
            name: name.clone(),
            context,
            subject: subject.clone(),
            state: Arc::clone(&state),
        };
        let thread = std::thread::Builder::new()
            .name("nats-sink".into())
            .spawn(move || {
                runtime.block_on(writer.run(chunks));
                // A look-up of a host name may still be running.
                runtime.shutdown_background();
            })
            .map_err(|error| Error::no_thread(&name, &error))?;
        Ok(Self {
            subject,
            buffer_max: options.buffer_max,
            state,
            chunks: Some(sender),
            thread: Some(thread),
            give_up: None,
            prefix: format!("lookaside-{:016x}-", fastrand::u64(..)),
            count: 0,
        })
    }

    fn send(&self, messages: Vec<Outgoing>, size: usize, receipt: &Arc<Receipt>) -> io::Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        self.state
            .begin(size, self.buffer_max, self.give_up.as_ref())?;
        let chunk = Chunk {
            messages,
            receipt: Arc::clone(receipt),
            size,
        };
        // After a failure, the next write reports it.
        let chunks = self.chunks.as_ref().expect("there is a thread");
        let _ = chunks.send(chunk);
        Ok(())
    }

    /// The form of a message on the wire; the error is the reason why it has none.
    fn encode(&mut self, message: &Message<'_>) -> Result<Outgoing, String> {
        let subject = match message.topic() {
            None => self.subject.clone(),
            Some(topic) if is_subject(topic) => Subject::from(&**topic),
            Some(topic) => return Err(format!("`{topic}` is not a subject")),
        };
        let mut headers = HeaderMap::new();
        if let Some(key) = message.key() {
            let value = header_value(key).ok_or("the key is not a line of text")?;
            headers.insert(KEY_HEADER, value);
        }
        for header in message.headers() {
            let name = header.name;
            let is_reserved = name.get(..RESERVED.len()).is_some_and(|start| {
                start.eq_ignore_ascii_case(RESERVED) && !NOT_RESERVED.contains(&name)
            });
            if is_reserved {
                continue;
            }
            let parsed = HeaderName::from_str(name).ok().filter(|_| !name.is_empty());
            let value = header_value(header.value.unwrap_or_default());
            let (Some(parsed), Some(value)) = (parsed, value) else {
                return Err(format!("the header {name:?} is not a line of text"));
            };
            headers.append(parsed, value);
        }
        self.count += 1;
        headers.insert(ID_HEADER, format!("{}{}", self.prefix, self.count));
        Ok(Outgoing {
            subject,
            headers,
            payload: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
            segment: message.segment(),
        })
    }
}

fn header_value(bytes: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_str(str::from_utf8(bytes).ok()?).ok()
}

impl MessageSink for NatsSink {
    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        (self.state).wait_room(self.buffer_max, timeout, self.give_up.as_ref())
    }

    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut chunk = Vec::new();
        let mut size = 0;
        for message in messages.iter() {
            match self.encode(&message) {
                Ok(outgoing) => chunk.push(outgoing),
                Err(reason) => {
                    self.state
                        .refuse(RefusedMessage::of(&message, receipt, reason));
                    continue;
                }
            }
            let parts = [message.payload(), message.key()];
            let sizes = parts.into_iter().flatten().map(<[u8]>::len);
            size += OVERHEAD_SIZE + sizes.sum::<usize>();
            if size >= CHUNK_SIZE || chunk.len() == CHUNK_COUNT {
                self.send(mem::take(&mut chunk), mem::take(&mut size), receipt)?;
            }
        }
        self.send(chunk, size, receipt)
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        self.state.take_refused()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        self.state.flush(timeout, self.give_up.as_ref())
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}

impl Drop for NatsSink {
    fn drop(&mut self) {
        self.state.close();
        self.chunks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
