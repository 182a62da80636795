//! How messages are passed to a producer.

use lookaside_stream::Message;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{
    BaseRecord, NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer,
};

use super::delivery::{is_refused, reason_of};
use super::topics::KnownTopics;

/// What became of a message.
pub(super) enum Sent {
    /// It is in the producer's queue.
    Queued,
    /// It will never be accepted, for this reason, as one lower-case phrase.
    Refused(String),
}

/// A topic, and where the messages go that name another one.
pub(super) struct Target {
    topic: String,
    topics: KnownTopics,
}

impl Target {
    pub(super) fn new(topic: String) -> Self {
        Self {
            topic,
            topics: KnownTopics::default(),
        }
    }

    /// Passes a message to a producer. While its queue is full, `wait` is called, which fails to end
    /// the attempt.
    ///
    /// # Errors
    /// That of `wait`, or what `fail` makes of the library's error.
    pub(super) fn send<C, E>(
        &self,
        producer: &ThreadedProducer<C>,
        message: &Message<'_>,
        id: usize,
        wait: impl Fn() -> Result<(), E>,
        fail: impl Fn(KafkaError) -> E,
    ) -> Result<Sent, E>
    where
        C: ProducerContext<NoCustomPartitioner, DeliveryOpaque = usize> + 'static,
    {
        if let Some(topic) = message.topic()
            && let Some(problem) = self.topics.problem(producer.client(), topic, &wait)?
        {
            return Ok(Sent::Refused(problem));
        }
        let mut record = match self.record(message, id) {
            Ok(record) => record,
            Err(reason) => return Ok(Sent::Refused(reason)),
        };
        loop {
            let (error, back) = match producer.send(record) {
                Ok(()) => return Ok(Sent::Queued),
                Err(failed) => failed,
            };
            if is_refused(&error) {
                return Ok(Sent::Refused(reason_of(&error)));
            }
            if error.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(fail(error));
            }
            record = back;
            wait()?;
        }
    }

    /// The record of a message.
    ///
    /// # Errors
    /// Why the message cannot be written.
    fn record<'a>(
        &'a self,
        message: &Message<'a>,
        id: usize,
    ) -> Result<BaseRecord<'a, [u8], [u8], usize>, String> {
        let topic = message.topic().map_or(&*self.topic, |topic| &**topic);
        let mut record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord::with_opaque_to(topic, id);
        record.payload = message.payload();
        record.key = message.key();
        record.timestamp = message.timestamp_ms();
        if message.headers().len() > 0 {
            record.headers = Some(headers(message)?);
        }
        Ok(record)
    }
}

fn headers(message: &Message<'_>) -> Result<OwnedHeaders, String> {
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
