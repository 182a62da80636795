//! The thread of a source: reads, acknowledges, and reports progress.

use std::io;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::Batch;
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::{AckKind, Message};
use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::StreamExt as _;
use lookaside_stream::{Messages, Partition};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::is_connected;
use super::options::SourceOptions;
use super::under_way::UnderWay;
use crate::read_queue::{READ_COUNT, READ_SIZE, ReadQueue};

/// How long a read waits for messages before the thread looks after those under way.
const WAIT: Duration = Duration::from_millis(50);

/// How long the thread waits while the run takes no messages.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// How long the server may collect the messages of a request.
const REQUEST_EXPIRES: Duration = Duration::from_secs(2);

/// How long after that its answer may arrive.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// How long the client may take to accept a message. Its queue is full when the server is away.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the confirmation of the last acknowledgement may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a consumer has to be missing before the source ends: a server that has just started may
/// not know its consumers yet.
const MISSING_MAX: Duration = Duration::from_secs(5);

/// The assumed size of a message before any was read.
const FIRST_SIZE: usize = 1024;

/// The header with the key.
pub(super) const KEY_HEADER: &str = "key";

const SUBJECT_HEADER: &str = "nats-subject";
const SEQUENCE_HEADER: &str = "nats-sequence";

/// A durable consumer.
pub(super) struct Consumer {
    name: String,
    client: Client,
    consumer: PullConsumer,
    /// The limit that the server has stored.
    ack_wait: Duration,
    pending_max: usize,
    under_way: UnderWay,
    /// Acknowledgements to send.
    delivered: Vec<Subject>,
    /// The acknowledgement that was sent last.
    last: Option<Subject>,
    renewed: Instant,
    /// A request that the server is answering.
    batch: Option<Batch>,
    /// When it was made.
    requested: Instant,
    /// The size of a message, which determines how many are requested at once.
    message_size: usize,
    missing_since: Option<Instant>,
}

impl Consumer {
    pub(super) fn new(
        name: &str,
        client: Client,
        consumer: PullConsumer,
        options: &SourceOptions,
    ) -> Self {
        let ack_wait = consumer.cached_info().config.ack_wait;
        if ack_wait != options.ack_wait {
            let milliseconds = ack_wait.as_millis();
            warn!(
                connector = name,
                "the consumer exists with ack_wait_ms={milliseconds}"
            );
        }
        Self {
            name: name.to_owned(),
            client,
            consumer,
            ack_wait,
            pending_max: options.pending_max,
            under_way: UnderWay::new(Partition::new(&*options.stream, 0)),
            delivered: Vec::new(),
            last: None,
            renewed: Instant::now(),
            batch: None,
            requested: Instant::now(),
            message_size: FIRST_SIZE,
            missing_since: None,
        }
    }

    /// Reads until the queue is stopped or the consumer is gone, and then acknowledges what is
    /// delivered and returns the rest.
    pub(super) async fn run(mut self, queue: &ReadQueue) -> io::Result<()> {
        let mut messages = Messages::new();
        while !queue.is_stopped() {
            let is_passed_on = messages.is_empty() || queue.pass_on(&mut messages, Duration::ZERO);
            self.acknowledge().await;
            if self.renewed.elapsed() >= self.ack_wait / 8 {
                self.renew().await;
            }
            if let Err(reason) = self.read(&mut messages, is_passed_on).await {
                let _ = queue.reads.send(Err(io::Error::other(reason)));
                break;
            }
        }
        self.finish().await
    }

    /// Appends messages; waits for the first one. Those of a request that was made are also read
    /// while the run takes none, so that they are among those under way.
    async fn read(&mut self, messages: &mut Messages, may_request: bool) -> Result<(), String> {
        if self.missing_since.is_some() {
            return self.look_for_consumer().await;
        }
        if self.batch.is_none() {
            self.requested = Instant::now();
            let room = self.pending_max.saturating_sub(self.under_way.len());
            if !may_request || room == 0 || !is_connected(&self.client) {
                sleep(FULL_WAIT).await;
                return Ok(());
            }
            let count = (READ_SIZE / self.message_size.max(1)).clamp(1, READ_COUNT);
            let request = self.consumer.batch().max_messages(count.min(room));
            let request = request.expires(REQUEST_EXPIRES).messages();
            match timeout(PUBLISH_TIMEOUT, request).await {
                Ok(Ok(batch)) => self.batch = Some(batch),
                _ => return self.look_for_consumer().await,
            }
        }
        let (before, size_before) = (messages.len(), messages.payload_size());
        let mut wait = if may_request { WAIT } else { FULL_WAIT };
        while let Some(batch) = &mut self.batch {
            match timeout(wait, batch.next()).await {
                Ok(Some(Ok(message))) => self.push(&message, messages),
                Ok(Some(Err(error))) => {
                    debug!(connector = self.name, %error, "a request is answered by an error");
                    self.batch = None;
                    self.look_for_consumer().await?;
                }
                Ok(None) => {
                    self.batch = None;
                    // No answer at all, which is how old servers answer if the consumer does not exist.
                    if self.requested.elapsed() > REQUEST_EXPIRES + ANSWER_TIMEOUT {
                        self.look_for_consumer().await?;
                    }
                }
                Err(_) => break,
            }
            wait = Duration::ZERO;
        }
        let size = messages.payload_size() - size_before;
        if let Some(size) = size.checked_div(messages.len() - before) {
            self.missing_since = None;
            // A read of small messages does not make the next one huge.
            self.message_size = size.max(self.message_size / 4);
        }
        Ok(())
    }

    /// Waits before the next request; the error says that the consumer is gone.
    async fn look_for_consumer(&mut self) -> Result<(), String> {
        sleep(WAIT).await;
        if !is_connected(&self.client) {
            return Ok(());
        }
        let is_missing = match self.consumer.get_info().await {
            Ok(_) => false,
            Err(error) => matches!(
                error.kind(),
                ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound
            ),
        };
        if !is_missing {
            self.missing_since = None;
            return Ok(());
        }
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        match since.elapsed() >= MISSING_MAX {
            true => Err("the consumer or its stream was removed".to_owned()),
            false => Ok(()),
        }
    }

    fn push(&mut self, message: &Message, messages: &mut Messages) {
        let (Ok(info), Some(reply)) = (message.info(), &message.reply) else {
            debug!(
                connector = self.name,
                "a message that is not of a stream is ignored"
            );
            return;
        };
        let Some(position) = self.under_way.add(info.stream_sequence, reply.clone()) else {
            return;
        };
        let headers = message.headers.iter().flat_map(|headers| headers.iter());
        let headers = headers.flat_map(|(name, values)| {
            let name = name.as_ref();
            values.iter().map(move |value| (name, value.as_str()))
        });
        let key = headers.clone().find(|(name, _)| *name == KEY_HEADER);
        let key = key.map(|(_, value)| value.as_bytes());
        messages.push(
            &self.under_way.partition,
            position,
            Some(&message.payload),
            key,
        );
        if let Ok(time) = i64::try_from(info.published.unix_timestamp_nanos() / 1_000_000) {
            messages.set_timestamp(time);
        }
        for (name, value) in headers.filter(|(name, _)| *name != KEY_HEADER) {
            messages.push_header(name, Some(value.as_bytes()));
        }
        messages.push_header(SUBJECT_HEADER, Some(message.subject.as_bytes()));
        let sequence = info.stream_sequence.to_string();
        messages.push_header(SEQUENCE_HEADER, Some(sequence.as_bytes()));
    }

    /// Publishes to a reply subject; returns whether the client took it.
    async fn reply(&self, reply: Subject, kind: AckKind) -> bool {
        let publish = self.client.publish(reply, Bytes::from(kind));
        is_connected(&self.client) && matches!(timeout(PUBLISH_TIMEOUT, publish).await, Ok(Ok(())))
    }

    /// Acknowledges the messages that are delivered. An acknowledgement that is lost on its way
    /// means that its message is read again.
    async fn acknowledge(&mut self) {
        while let Some(reply) = self.under_way.take_delivered() {
            self.delivered.push(reply);
        }
        let mut count = 0;
        for reply in &self.delivered {
            if !self.reply(reply.clone(), AckKind::Ack).await {
                break;
            }
            count += 1;
            self.last = Some(reply.clone());
        }
        self.delivered.drain(..count);
    }

    /// Reports progress of messages that will have waited for half of the limit at the next time.
    async fn renew(&mut self) {
        if !is_connected(&self.client) {
            return;
        }
        let old: Vec<_> = self.under_way.renew(self.ack_wait / 4).collect();
        for reply in old {
            self.reply(reply, AckKind::Progress).await;
        }
        self.renewed = Instant::now();
    }

    async fn finish(mut self) -> io::Result<()> {
        // What is on its way here is returned too, so that it does not wait for its time limit.
        let mut rest = Messages::new();
        if let Some(mut batch) = self.batch.take() {
            while let Ok(Some(Ok(message))) = timeout(Duration::ZERO, batch.next()).await {
                self.push(&message, &mut rest);
            }
        }
        self.acknowledge().await;
        let left: Vec<_> = self.under_way.drain().collect();
        for reply in left {
            self.reply(reply, AckKind::Nak(None)).await;
        }
        let count = self.delivered.len();
        if count > 0 {
            let message = format!("{count} messages are not acknowledged: no server answers");
            return Err(io::Error::other(message));
        }
        // Those before it are acknowledged when the last one is confirmed.
        if let Some(last) = self.last {
            let confirmed = self.client.request(last, Bytes::from(AckKind::Ack));
            match timeout(CLOSE_TIMEOUT, confirmed).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(_) => {
                    let message = "the last acknowledgements are not confirmed";
                    return Err(io::Error::other(message));
                }
            }
        }
        let _ = timeout(CLOSE_TIMEOUT, self.client.flush()).await;
        Ok(())
    }
}
