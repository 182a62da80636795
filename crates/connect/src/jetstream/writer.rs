//! The thread of a sink: publishes messages and awaits their acknowledgements.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use futures_util::future::join_all;
use lookaside_stream::{Receipt, RefusedMessage};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::consumer::KEY_HEADER;
use super::is_connected;
use crate::write_queue::WriteState;

/// How long an acknowledgement may take; then the message is published again, which the stream
/// recognises.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the thread looks whether the sink is being dropped or connected again.
const WAIT: Duration = Duration::from_millis(50);

/// The limits of the time between two attempts.
const BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(2);

/// The code of the error that a message is larger than the stream's limit.
const STREAM_MESSAGE_EXCEEDS_MAXIMUM: &str = "10054";

/// A message as it is published.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) subject: Subject,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    pub(super) segment: usize,
}

/// Messages that are published together.
pub(super) struct Chunk {
    pub(super) messages: Vec<Outgoing>,
    pub(super) receipt: Arc<Receipt>,
    pub(super) size: usize,
}

/// Publishes chunks of messages.
pub(super) struct Writer {
    pub(super) name: String,
    pub(super) context: Context,
    /// The subject of messages that name none.
    pub(super) subject: Subject,
    pub(super) state: Arc<WriteState>,
}

impl Writer {
    /// Publishes until there are no more chunks, or the sink is dropped.
    pub(super) async fn run(mut self, mut chunks: UnboundedReceiver<Chunk>) {
        self.context.set_timeout(ACK_TIMEOUT);
        let state = Arc::clone(&self.state);
        let closing = async {
            while !state.lock().is_closing {
                sleep(WAIT).await;
            }
        };
        let write = async {
            while let Some(chunk) = chunks.recv().await {
                let size = chunk.size;
                self.write(chunk).await;
                self.state.end(size);
            }
        };
        tokio::select! {
            () = write => {}
            () = closing => {}
        }
    }

    /// Publishes messages, as often as it takes.
    async fn write(&self, chunk: Chunk) {
        let Chunk {
            mut messages,
            receipt,
            ..
        } = chunk;
        let mut backoff = *BACKOFF.start();
        let mut is_away = false;
        loop {
            while !is_connected(&self.context.client()) {
                sleep(WAIT).await;
            }
            let Some(reason) = self.publish(&mut messages, &receipt).await else {
                break;
            };
            match is_away {
                false => warn!(connector = self.name, reason, "writing is interrupted"),
                true => debug!(connector = self.name, reason, "writing is interrupted"),
            }
            is_away = true;
            sleep(backoff).await;
            backoff = (backoff * 2).min(*BACKOFF.end());
        }
        if is_away {
            info!(connector = self.name, "messages are written again");
        }
    }

    /// Publishes messages and leaves those that are to be published again, with the reason.
    ///
    /// These are in their order. Those that the stream has stored without an acknowledgement that
    /// arrived are recognised by their ids.
    async fn publish(
        &self,
        messages: &mut Vec<Outgoing>,
        receipt: &Arc<Receipt>,
    ) -> Option<String> {
        let mut acknowledgements = Vec::with_capacity(messages.len());
        for message in &*messages {
            let publish = PublishMessage::build()
                .payload(message.payload.clone())
                .headers(message.headers.clone());
            let queued = self
                .context
                .send_publish(message.subject.clone(), publish)
                .await;
            let is_lost = queued.is_err() && !is_connected(&self.context.client());
            acknowledgements.push(async move { queued?.await });
            // Nothing is taken until the server is back.
            if is_lost {
                break;
            }
        }
        // Together, as the time limit of each begins when it is awaited.
        let mut results = join_all(acknowledgements).await.into_iter();
        let mut left = Vec::new();
        let mut reason = None;
        for message in messages.drain(..) {
            let result = results.next();
            let error = match result.unwrap_or_else(|| Err(PublishErrorKind::TimedOut.into())) {
                Ok(_) => {
                    receipt.deliver(message.segment, 1);
                    continue;
                }
                Err(error) => error,
            };
            match self.problem_of(&error, &message).await {
                Some(problem) => self.state.refuse(refused(&message, problem, receipt)),
                None => {
                    reason.get_or_insert_with(|| text_of(&error));
                    left.push(message);
                }
            }
        }
        *messages = left;
        reason
    }

    /// Why a message will never be taken, if so.
    async fn problem_of(&self, error: &PublishError, message: &Outgoing) -> Option<String> {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded => {
                Some("the message is larger than max_payload of the server".to_owned())
            }
            // The subject of the sink had a stream; it may be moving to another server.
            PublishErrorKind::StreamNotFound if message.subject != self.subject => {
                let found = self
                    .context
                    .stream_by_subject(message.subject.as_str())
                    .await;
                let error = found.err()?;
                let is_missing = error.kind() == GetStreamByNameErrorKind::NotFound;
                is_missing.then(|| format!("no stream takes the subject `{}`", message.subject))
            }
            _ if text_of(error).contains(STREAM_MESSAGE_EXCEEDS_MAXIMUM) => {
                Some("the message is larger than max_msg_size of the stream".to_owned())
            }
            _ => None,
        }
    }
}

fn text_of(error: &PublishError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn refused(message: &Outgoing, reason: String, receipt: &Arc<Receipt>) -> RefusedMessage {
    let key = message.headers.get(KEY_HEADER);
    RefusedMessage {
        payload: Some(message.payload.to_vec()),
        key: key.map(|key| key.as_str().as_bytes().to_vec()),
        reason,
        receipt: Arc::clone(receipt),
        segment: message.segment,
    }
}
