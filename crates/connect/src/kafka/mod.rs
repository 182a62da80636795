//! Kafka, by librdkafka.

mod consumer;
mod context;
mod delivery;
mod options;
mod sink;
mod source;

use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;

use self::context::Log;
use self::options::{SinkOptions, SourceOptions};
use self::sink::KafkaSink;
use crate::{ConnectUrl, Error, OpenedSink, OpenedSource, Result};

/// How long opening waits for a broker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn open_source(url: &ConnectUrl) -> Result<OpenedSource> {
    let options = SourceOptions::new(url)?;
    let (framing, on_null) = (options.framing, options.on_null);
    Ok(OpenedSource {
        source: Box::new(source::open(options)?),
        framing,
        on_null,
    })
}

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let options = SinkOptions::new(url)?;
    let key_field = options.key_field.clone();
    Ok(OpenedSink {
        sink: Box::new(KafkaSink::open(options)?),
        key_field,
    })
}

pub(crate) fn check_source(url: &ConnectUrl) -> Result<String> {
    let options = SourceOptions::new(url)?;
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
    let sink = KafkaSink::open(options)?;
    let found = find_topics(sink.producer().client(), &name, &[topic])?;
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
        let metadata = client.fetch_metadata(wanted, CONNECT_TIMEOUT);
        let metadata = metadata.map_err(|error| unavailable(name, &error))?;
        if pattern {
            found.push(format!("topics that match {topic}"));
            continue;
        }
        let described = metadata.topics().first();
        let error = described.and_then(|topic| topic.error());
        let code = error.map(RDKafkaErrorCode::from);
        match (described, code) {
            (Some(described), None) => {
                let count = described.partitions().len();
                let plural = if count == 1 { "" } else { "s" };
                found.push(format!("topic {topic} with {count} partition{plural}"));
            }
            (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                let reason = format!("no access to the topic `{topic}`");
                let hint = "give the user the operations DESCRIBE and READ or WRITE on it";
                return Err(Error::unavailable(name, &reason, hint));
            }
            _ => {
                let reason = format!("the topic `{topic}` does not exist");
                let hint =
                    "create it first, as in `kafka-topics --create --topic NAME --partitions 8`";
                return Err(Error::unavailable(name, &reason, hint));
            }
        }
    }
    Ok(found.join(", "))
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
