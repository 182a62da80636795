//! Kafka, by librdkafka.

mod commit_error;
mod consumer;
mod context;
mod delivery;
mod group;
mod lag;
mod last_results;
mod options;
mod record;
mod sink;
mod source;
mod start;
mod topics;
mod transactions;

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};

use self::context::Log;
use self::options::SinkOptions;
use self::sink::KafkaSink;
use self::transactions::TransactionalSink;
use crate::{ConnectUrl, Error, OpenedSink, OpenedSource, Result};

#[cfg(feature = "postgres")]
pub(crate) use self::commit_error::CommitError;
#[cfg(feature = "postgres")]
pub(crate) use self::group::{Assignment, EndTransaction, Group, PartitionKey};
#[cfg(feature = "postgres")]
pub(crate) use self::lag::reader as lag_of;
#[cfg(feature = "postgres")]
pub(crate) use self::last_results::LastResults;
pub(crate) use self::options::{Delivery, SourceOptions};
#[cfg(feature = "postgres")]
pub(crate) use self::source::{create_consumer, join};

/// How long opening waits for a broker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long opening waits for a topic that a broker may create when it is asked for.
const CREATION_TIMEOUT: Duration = Duration::from_secs(1);
const CREATION_POLL: Duration = Duration::from_millis(100);

/// Opens a source and a sink; with exactly-once delivery, transactions of the sink store the
/// positions of the source.
pub(crate) fn open_pair(
    source: &ConnectUrl,
    sink: &ConnectUrl,
) -> Result<(OpenedSource, OpenedSink)> {
    let sink_options = SinkOptions::new(sink)?;
    if sink_options.delivery == Delivery::AtLeastOnce {
        // The sink first: a group is joined when everything else is ready.
        let sink = open_sink(sink)?;
        return Ok((open_source(source)?, sink));
    }
    if source.hosts() != sink.hosts() {
        return Err(Error::refused(
            &sink_options.name,
            "with delivery=exactly-once, input and output are topics of one cluster",
            Some("write the same hosts in both URLs"),
        ));
    }
    let options = SourceOptions::new(source, Delivery::ExactlyOnce)?;
    let (framing, on_null) = (options.framing, options.on_null);
    let commit_interval = options.commit_interval;
    let (source, consumer) = source::open(options)?;
    let lag = lag::reader(&consumer);
    let meta = sink_options.meta.clone();
    let sink = TransactionalSink::open(sink_options, consumer, commit_interval)?;
    let source = OpenedSource {
        source: Box::new(source),
        framing,
        on_null,
        lag: Some(lag),
    };
    let sink = OpenedSink {
        sink: Box::new(sink),
        meta,
    };
    Ok((source, sink))
}

pub(crate) fn open_source(url: &ConnectUrl) -> Result<OpenedSource> {
    let options = SourceOptions::new(url, Delivery::AtLeastOnce)?;
    let (framing, on_null) = (options.framing, options.on_null);
    let (source, consumer) = source::open(options)?;
    Ok(OpenedSource {
        source: Box::new(source),
        framing,
        on_null,
        lag: Some(lag::reader(&consumer)),
    })
}

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let options = SinkOptions::new(url)?;
    if options.delivery == Delivery::ExactlyOnce {
        return Err(Error::refused(
            &options.name,
            "delivery=exactly-once needs a topic of the same cluster as input",
            Some("read from a topic, or omit the option"),
        ));
    }
    let meta = options.meta.clone();
    Ok(OpenedSink {
        sink: Box::new(KafkaSink::open(options)?),
        meta,
    })
}

pub(crate) fn check_source(url: &ConnectUrl) -> Result<String> {
    let options = SourceOptions::new(url, Delivery::AtLeastOnce)?;
    let consumer: BaseConsumer<Log> = options
        .config
        .create_with_context(Log::new(&options.name))
        .map_err(|error| options::refused(&options.name, &error))?;
    let found = find_topics(consumer.client(), &options.name, &options.topics)?;
    Ok(format!("{} is available: {found}", options.name))
}

pub(crate) fn check_sink(url: &ConnectUrl) -> Result<String> {
    let options = SinkOptions::new(url)?;
    let (name, topic) = (options.name.clone(), options.topic.clone());
    let producer: BaseProducer =
        (options.config.create()).map_err(|error: KafkaError| options::refused(&name, &error))?;
    // Not by its name: a broker that creates topics by itself would do so.
    let all = producer.client().fetch_metadata(None, CONNECT_TIMEOUT);
    let all = all.map_err(|error| unavailable(&name, &error))?;
    if !all.topics().iter().any(|known| known.name() == topic) {
        return Err(no_topic(&name, &topic));
    }
    let found = find_topics(producer.client(), &name, &[topic])?;
    Ok(format!("{name} is available: {found}"))
}

/// Waits for a broker and looks for the topics; those that are patterns are not looked for.
fn find_topics<C: ClientContext>(
    client: &Client<C>,
    name: &str,
    topics: &[String],
) -> Result<String> {
    let mut found = Vec::new();
    for topic in topics {
        let pattern = topic.starts_with('^');
        let wanted = (!pattern).then_some(&**topic);
        let begun = Instant::now();
        let (code, count) = loop {
            let metadata = client.fetch_metadata(wanted, CONNECT_TIMEOUT);
            let metadata = metadata.map_err(|error| unavailable(name, &error))?;
            let described = metadata.topics().first().filter(|_| !pattern);
            let code = described.and_then(|topic| topic.error());
            let code = code.map(RDKafkaErrorCode::from);
            // A broker that creates topics by itself has just begun to.
            let limit = match code {
                Some(RDKafkaErrorCode::LeaderNotAvailable) => CONNECT_TIMEOUT,
                Some(RDKafkaErrorCode::UnknownTopicOrPartition) => CREATION_TIMEOUT,
                _ => Duration::ZERO,
            };
            if begun.elapsed() >= limit {
                break (code, described.map(|topic| topic.partitions().len()));
            }
            thread::sleep(CREATION_POLL);
        };
        match (count, code) {
            (_, None) if pattern => found.push(format!("topics that match {topic}")),
            (Some(count), None) => {
                let plural = if count == 1 { "" } else { "s" };
                found.push(format!("topic {topic} with {count} partition{plural}"));
            }
            (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                let reason = format!("no access to the topic `{topic}`");
                let hint = "give the user the operations DESCRIBE and READ or WRITE on it";
                return Err(Error::unavailable(name, &reason, hint));
            }
            _ => {
                return Err(no_topic(name, topic));
            }
        }
    }
    Ok(found.join(", "))
}

fn no_topic(name: &str, topic: &str) -> Error {
    let reason = format!("the topic `{topic}` does not exist");
    let hint = "create it first, as in `kafka-topics --create --topic NAME --partitions 8`";
    Error::unavailable(name, &reason, hint)
}

fn unavailable(name: &str, error: &KafkaError) -> Error {
    let code = error.rdkafka_error_code();
    let reason = match code {
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::OperationTimedOut) => {
            "no broker answers".to_owned()
        }
        _ => error.to_string(),
    };
    let hint = "start the broker, or correct the hosts of the URL; with TLS or SASL, set \
                `security.protocol`, and see the log for the reason";
    Error::unavailable(name, &reason, hint)
}
