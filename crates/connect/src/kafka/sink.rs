//! A topic as sink.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};

use super::delivery::{Deliveries, is_refused, reason_of};
use super::options::{SinkOptions, refused};
use super::topics::{KnownTopics, limit_sizes};
use crate::Result;

/// How often a wait looks whether the run gives up.
const WAIT: Duration = Duration::from_millis(100);

/// Writes messages to a topic, at least once: each is delivered when the broker has acknowledged it.
pub(super) struct KafkaSink {
    name: String,
    topic: String,
    topics: KnownTopics,
    producer: ThreadedProducer<Deliveries>,
    give_up: Option<StopFlag>,
}

impl KafkaSink {
    pub(super) fn open(options: SinkOptions) -> Result<Self> {
        let SinkOptions {
            name,
            topic,
            mut config,
            ..
        } = options;
        limit_sizes(&mut config, &name, &topic);
        let producer: ThreadedProducer<Deliveries> = config
            .create_with_context(Deliveries::new(&name))
            .map_err(|error| refused(&name, &error))?;
        super::find_topics(producer.client(), &name, std::slice::from_ref(&topic))?;
        Ok(Self {
            name,
            topic,
            topics: KnownTopics::default(),
            producer,
            give_up: None,
        })
    }

    pub(super) fn producer(&self) -> &ThreadedProducer<Deliveries> {
        &self.producer
    }

    fn send(&self, message: &Message<'_>, id: usize) -> io::Result<()> {
        let deliveries = self.producer.context();
        let refuse = |reason| {
            deliveries.refuse_parts(id, message.payload(), message.key(), reason);
            Ok(())
        };
        if let Some(topic) = message.topic()
            && let client = self.producer.client()
            && let Some(problem) = self.topics.problem(client, topic, || self.check())?
        {
            return refuse(problem);
        }
        let mut record = match record_of(message, &self.topic, id) {
            Ok(record) => record,
            Err(reason) => return refuse(reason),
        };
        loop {
            let (error, back) = match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            if is_refused(&error) {
                return refuse(reason_of(&error));
            }
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(io::Error::other(error));
            }
            record = back;
            self.check()?;
            deliveries.warn_of_stall(&self.name);
            deliveries.wait(WAIT);
        }
    }

    /// Fails if the run gives up, or nothing can be delivered.
    fn check(&self) -> io::Result<()> {
        if let Some(failure) = self.producer.context().failure() {
            return Err(io::Error::other(failure));
        }
        match self.give_up.as_ref().is_some_and(StopFlag::is_raised) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

impl MessageSink for KafkaSink {
    fn write(&mut self, messages: &Messages, receipt: &Arc<Receipt>) -> io::Result<()> {
        self.check()?;
        let deliveries = self.producer.context();
        let slot = deliveries.begin(receipt);
        let sent = messages.iter().try_for_each(|message| {
            let id = deliveries.add(slot, message.segment());
            let sent = self.send(&message, id);
            if sent.is_err() {
                deliveries.end(slot);
            }
            sent
        });
        deliveries.end(slot);
        sent
    }

    fn take_refused(&mut self) -> Vec<RefusedMessage> {
        let deliveries = self.producer.context();
        if self.producer.in_flight_count() > 0 {
            deliveries.warn_of_stall(&self.name);
        }
        deliveries.take_refused()
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match self.producer.flush(WAIT) {
                // Reports may still be on their way from the library's queue.
                Ok(()) => {
                    self.check()?;
                    if self.producer.in_flight_count() == 0 {
                        return Ok(());
                    }
                }
                Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => self.check()?,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}

/// The record of a message, for the sink's topic unless it names another.
///
/// # Errors
/// Why the message cannot be written, as one lower-case phrase.
pub(super) fn record_of<'a>(
    message: &Message<'a>,
    topic: &'a str,
    id: usize,
) -> std::result::Result<BaseRecord<'a, [u8], [u8], usize>, String> {
    let topic = message.topic().map_or(topic, |topic| &**topic);
    let mut record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(topic, id);
    record.payload = message.payload();
    record.key = message.key();
    record.timestamp = message.timestamp_ms();
    if message.headers().len() > 0 {
        record.headers = Some(headers(message)?);
    }
    Ok(record)
}

fn headers(message: &Message<'_>) -> std::result::Result<OwnedHeaders, String> {
    let mut headers = OwnedHeaders::new_with_capacity(message.headers().len());
    for header in message.headers() {
        // The library takes names that end at a zero byte.
        if header.name.contains('\0') {
            return Err(format!(
                "the name of the header {:?} has a zero byte",
                header.name
            ));
        }
        headers = headers.insert(Header {
            key: header.name,
            value: header.value,
        });
    }
    Ok(headers)
}
