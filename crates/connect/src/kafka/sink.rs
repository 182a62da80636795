//! A topic as sink.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lookaside_stream::{Message, MessageSink, Messages, Receipt, RefusedMessage, StopFlag};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, ThreadedProducer};

use super::delivery::Deliveries;
use super::options::{SinkOptions, refused};
use super::record::{Sent, Target};
use super::topics::limit_sizes;
use crate::Result;

/// How often a wait looks whether the run gives up.
const WAIT: Duration = Duration::from_millis(100);

/// Writes messages to a topic, at least once: each is delivered when the broker has acknowledged it.
pub(super) struct KafkaSink {
    name: String,
    target: Target,
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
            target: Target::new(topic),
            producer,
            give_up: None,
        })
    }

    fn send(&self, message: &Message<'_>, id: usize) -> io::Result<()> {
        let deliveries = self.producer.context();
        let wait = || {
            self.check()?;
            deliveries.warn_of_stall(&self.name);
            deliveries.wait(WAIT);
            Ok(())
        };
        let sent = self
            .target
            .send(&self.producer, message, id, wait, io::Error::other)?;
        if let Sent::Refused(reason) = sent {
            deliveries.refuse_parts(id, message.payload(), message.key(), reason);
        }
        Ok(())
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

    fn flush(&mut self, timeout: Duration) -> io::Result<bool> {
        match self.producer.flush(timeout) {
            // Reports may still be on their way from the library's queue.
            Ok(()) | Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {
                self.check()?;
                Ok(self.producer.in_flight_count() == 0)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}
