//! A stream as sink.

use std::io::{self, Write as _};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};

use super::client::Client;
use super::options::{KEY_FIELD, SinkOptions};
use super::writer::{Append, Pipeline, write};
use crate::write_queue::WriteState;
use crate::{Error, Result};

/// How many bytes are sent before their replies are read: the replies of most servers come faster
/// than these bytes, and the server keeps them in its memory until then.
const PIPELINE_SIZE: usize = 256 << 10;

/// The default of `proto-max-bulk-len`, beyond which a server takes no argument.
const ARGUMENT_SIZE_MAX: usize = 512 << 20;

/// Writes messages to a stream, at least once: each is delivered when the server has replied. A
/// thread of its own sends them, so that a server that is away does not keep the run from ending.
pub(super) struct RedisSink {
    options: SinkOptions,
    shared: Arc<WriteState>,
    /// Its length is limited by `buffer_max`.
    pipelines: Option<Sender<(Pipeline, Arc<Receipt>)>>,
    thread: Option<JoinHandle<()>>,
    give_up: Option<StopFlag>,
}

impl RedisSink {
    pub(super) fn open(client: Client, options: SinkOptions) -> Result<Self> {
        let shared = Arc::new(WriteState::default());
        let (sender, pipelines) = unbounded();
        let thread = std::thread::Builder::new()
            .name("redis-sink".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || write(client, &pipelines, &shared)
            })
            .map_err(|error| Error::no_thread(&options.name, &error))?;
        Ok(Self {
            options,
            shared,
            pipelines: Some(sender),
            thread: Some(thread),
            give_up: None,
        })
    }

    fn is_given_up(&self) -> bool {
        self.give_up.as_ref().is_some_and(StopFlag::is_raised)
    }

    fn send(&self, pipeline: Pipeline, receipt: &Arc<Receipt>) -> io::Result<()> {
        if pipeline.appends.is_empty() {
            return Ok(());
        }
        let size = pipeline.bytes.len();
        let size_max = self.options.buffer_max;
        self.shared.begin(size, size_max, self.give_up.as_ref())?;
        let pipelines = self.pipelines.as_ref().expect("there is a thread");
        // After a failure, the next write reports it.
        let _ = pipelines.send((pipeline, Arc::clone(receipt)));
        Ok(())
    }

    fn refuse(&self, message: &Message<'_>, receipt: &Arc<Receipt>, reason: &str) {
        self.shared.refuse(RefusedMessage {
            payload: message.payload().map(<[u8]>::to_vec),
            key: message.key().map(<[u8]>::to_vec),
            reason: reason.to_owned(),
            receipt: Arc::clone(receipt),
            segment: message.segment(),
        });
    }

    /// Appends the command of a message that has a field.
    fn append(&self, message: &Message<'_>, pipeline: &mut Pipeline) {
        let SinkOptions {
            stream,
            payload_field,
            maxlen,
            ..
        } = &self.options;
        let bytes = &mut pipeline.bytes;
        let start = bytes.len();
        let field_count = usize::from(message.payload().is_some())
            + usize::from(message.key().is_some())
            + message.headers().len();
        let limit_count = if maxlen.is_some() { 3 } else { 0 };
        let _ = write!(bytes, "*{}\r\n", 3 + limit_count + 2 * field_count);
        push(bytes, b"XADD");
        let stream = message.topic().map_or(&**stream, |topic| &**topic);
        push(bytes, stream.as_bytes());
        if let Some(maxlen) = maxlen {
            push(bytes, b"MAXLEN");
            push(bytes, b"~");
            push(bytes, maxlen.to_string().as_bytes());
        }
        push(bytes, b"*");
        let payload = message.payload().map(|payload| {
            push(bytes, payload_field.as_bytes());
            push(bytes, payload)
        });
        let key = message.key().map(|key| {
            push(bytes, KEY_FIELD.as_bytes());
            push(bytes, key)
        });
        for header in message.headers() {
            push(bytes, header.name.as_bytes());
            push(bytes, header.value.unwrap_or_default());
        }
        pipeline.appends.push(Append {
            start,
            payload,
            key,
            segment: message.segment(),
            names_stream: message.topic().is_some(),
        });
    }
}

/// Appends an argument, and returns its place.
fn push(bytes: &mut Vec<u8>, argument: &[u8]) -> Range<usize> {
    let _ = write!(bytes, "${}\r\n", argument.len());
    let start = bytes.len();
    bytes.extend_from_slice(argument);
    bytes.extend_from_slice(b"\r\n");
    start..start + argument.len()
}

/// Why a message cannot be an entry, if it cannot.
fn problem_of(message: &Message<'_>) -> Option<&'static str> {
    let headers = message.headers();
    let values = headers.filter_map(|header| header.value);
    let mut values = values.chain(message.payload()).chain(message.key());
    if values.any(|value| value.len() > ARGUMENT_SIZE_MAX) {
        return Some("the message is larger than 512 MiB");
    }
    let is_empty =
        message.payload().is_none() && message.key().is_none() && message.headers().len() == 0;
    is_empty.then_some("an entry needs a field, and the message has neither payload nor key")
}

impl MessageSink for RedisSink {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut pipeline = Pipeline::default();
        for message in messages.iter() {
            if let Some(reason) = problem_of(&message) {
                self.refuse(&message, receipt, reason);
                continue;
            }
            self.append(&message, &mut pipeline);
            if pipeline.bytes.len() >= PIPELINE_SIZE {
                self.send(mem::take(&mut pipeline), receipt)?;
            }
        }
        self.send(pipeline, receipt)
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

impl Drop for RedisSink {
    fn drop(&mut self) {
        self.shared.close();
        self.pipelines = None;
        // A run that gives up does not wait for a reply that may never come; the thread ends when
        // that is clear.
        if let Some(thread) = self.thread.take()
            && !self.is_given_up()
        {
            let _ = thread.join();
        }
    }
}
