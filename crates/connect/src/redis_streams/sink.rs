//! A stream as sink.

use std::io::{self, Write as _};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{
    Message, MessageHeader, MessageSink, Messages, Receipt, RefusedMessage, StopFlag,
};

use super::client::Client;
use super::options::{KEY_FIELD, SinkOptions};
use super::writer::{Append, Pipeline, write};
use crate::Result;
use crate::write_thread::WriteThread;

/// How many bytes are sent before their replies are read: the replies of most servers come faster
/// than these bytes, and the server keeps them in its memory until then.
const PIPELINE_SIZE: usize = 256 << 10;

/// The default of `proto-max-bulk-len`, beyond which a server takes no argument.
const ARGUMENT_SIZE_MAX: usize = 512 << 20;

/// Writes messages to a stream, at least once: each is delivered when the server has replied. A
/// thread of its own sends them, so that a server that is away does not keep the run from ending.
pub(super) struct RedisSink {
    options: SinkOptions,
    thread: WriteThread<(Pipeline, Arc<Receipt>)>,
}

impl RedisSink {
    pub(super) fn open(client: Client, options: SinkOptions) -> Result<Self> {
        let thread = WriteThread::start(
            &options.name,
            "redis-sink",
            options.buffer_max,
            move |pipelines, shared| write(client, pipelines, &shared),
        )?;
        Ok(Self { options, thread })
    }

    fn send(&self, pipeline: Pipeline, receipt: &Arc<Receipt>) -> io::Result<()> {
        if pipeline.appends.is_empty() {
            return Ok(());
        }
        let size = pipeline.bytes.len();
        self.thread.write((pipeline, Arc::clone(receipt)), size)
    }

    fn refuse(&self, message: &Message<'_>, receipt: &Arc<Receipt>, reason: &str) {
        self.thread
            .shared
            .refuse(RefusedMessage::of(message, receipt, reason.to_owned()));
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
            + headers(message, payload_field).count();
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
        for header in headers(message, payload_field) {
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

/// The headers that are fields of an entry: not those with the name of another field.
fn headers<'a>(
    message: &Message<'a>,
    payload_field: &'a str,
) -> impl Iterator<Item = MessageHeader<'a>> {
    let is_free = move |name: &str| name != payload_field && name != KEY_FIELD;
    (message.headers()).filter(move |header| is_free(header.name))
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
fn problem_of(message: &Message<'_>, payload_field: &str) -> Option<&'static str> {
    let values = message.headers().filter_map(|header| header.value);
    let mut values = values.chain(message.payload()).chain(message.key());
    if values.any(|value| value.len() > ARGUMENT_SIZE_MAX) {
        return Some("the message is larger than 512 MiB");
    }
    let is_empty = message.payload().is_none()
        && message.key().is_none()
        && headers(message, payload_field).next().is_none();
    is_empty.then_some("an entry needs a field, and the message has neither payload nor key")
}

impl MessageSink for RedisSink {
    fn wait_ready(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.wait_room(timeout)
    }

    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        let mut pipeline = Pipeline::default();
        for message in messages.iter() {
            if let Some(reason) = problem_of(&message, &self.options.payload_field) {
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
        self.thread.shared.take_refused()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        self.thread.flush(timeout)
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.thread.attach(give_up);
    }
}
