//! Options of the URLs, and the properties of librdkafka that they become.

use std::hash::{BuildHasher as _, RandomState};
use std::process;
use std::time::Duration;

use lookaside_stream::{MessageFraming, OnNull, ResultMeta};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use crate::options::{HEADER, Start, UrlOptions};
use crate::{ConnectUrl, Error, Result};

/// The default of `buffer_max`: some tenths of a second at a hundred megabytes per second, and small
/// beside the tables of most projects.
const BUFFER_MAX: usize = 32 << 20;

/// The least `buffer_max`: a fetch request of the default size.
const BUFFER_MAX_MIN: usize = 1 << 20;

/// The default of `commit_interval_ms`: what a killed process delivers twice is at most the events
/// of this time.
const COMMIT_INTERVAL: Duration = Duration::from_millis(1000);

/// The default of `commit_interval_ms` with transactions: the results of a transaction become visible
/// at its end.
const TRANSACTION_INTERVAL: Duration = Duration::from_millis(100);

/// Properties that would contradict the URL, or what a run guarantees.
const FIXED: [&str; 5] = [
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.id",
];

/// The options of a source.
pub(crate) struct SourceOptions {
    pub(crate) name: String,
    pub(super) topics: Vec<String>,
    /// The consumer group.
    #[cfg(feature = "postgres")]
    pub(crate) group: String,
    pub(super) config: ClientConfig,
    /// Where partitions begin that have no stored position.
    pub(super) start: Start,
    pub(crate) commit_interval: Duration,
    pub(crate) framing: MessageFraming,
    pub(crate) on_null: OnNull,
}

/// The options of a sink.
pub(super) struct SinkOptions {
    pub(super) name: String,
    pub(super) topic: String,
    pub(super) config: ClientConfig,
    pub(super) meta: ResultMeta,
    pub(super) delivery: Delivery,
}

/// How often a result is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    AtLeastOnce,
    /// By transactions, which also store the positions.
    ExactlyOnce,
}

const SOURCE_OPTIONS: [&str; 6] = [
    "group",
    "start",
    "commit_interval_ms",
    "framing",
    "on_null",
    "buffer_max",
];

const SINK_OPTIONS: [&str; 5] = ["key", "topic", "timestamp", "delivery", "buffer_max"];

impl SourceOptions {
    pub(crate) fn new(url: &ConnectUrl, delivery: Delivery) -> Result<Self> {
        let kafka = KafkaOptions::new(url, &SOURCE_OPTIONS, &[])?;
        let options = &kafka.options;
        let name = url.name();
        if url.paths().is_empty() {
            return Err(Error::no_path(
                &name,
                "topic",
                "kafka://localhost:9092/clicks?group=NAME",
            ));
        }
        let Some(group) = options.text("group").filter(|group| !group.is_empty()) else {
            return Err(Error::missing_option(
                &name,
                "group",
                "name the consumer group that shares the partitions and keeps the positions, as in \
                 `?group=lookaside`",
            ));
        };
        let start = options.start_or_time_or_position("an offset")?;
        let buffer_kbytes = kafka.buffer_kbytes()?;
        let mut config = kafka.config()?;
        config
            .set("group.id", group)
            .set(
                "auto.offset.reset",
                match start {
                    Start::Latest => "latest",
                    Start::Earliest | Start::Time(_) | Start::Position(_) => "earliest",
                },
            )
            // Partitions that stay with this process are not interrupted by a rebalance.
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("queued.max.messages.kbytes", buffer_kbytes)
            // The library pauses for a second by default whenever its queue is full, which leaves cores idle.
            .set("fetch.queue.backoff.ms", "5");
        kafka.pass_properties(&mut config);
        // Positions are stored when the results are delivered, which only the run knows.
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "false");
        let milliseconds: u64 = options.parse(
            "commit_interval_ms",
            match delivery {
                Delivery::AtLeastOnce => COMMIT_INTERVAL,
                Delivery::ExactlyOnce => TRANSACTION_INTERVAL,
            }
            .as_millis() as u64,
            "a number of milliseconds",
        )?;
        Ok(Self {
            topics: url.paths().to_vec(),
            #[cfg(feature = "postgres")]
            group: group.to_owned(),
            config,
            start,
            commit_interval: Duration::from_millis(milliseconds),
            framing: options.framing()?,
            on_null: options.on_null()?,
            name,
        })
    }
}

impl SinkOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let kafka = KafkaOptions::new(url, &SINK_OPTIONS, &[HEADER])?;
        let options = &kafka.options;
        let name = url.name();
        let [topic] = url.paths() else {
            return Err(Error::no_path(
                &name,
                "topic",
                "kafka://localhost:9092/clicks-rich",
            ));
        };
        let buffer_kbytes = kafka.buffer_kbytes()?;
        let mut config = kafka.config()?;
        let delivery = match options.choice("delivery", &["at-least-once", "exactly-once"])? {
            "exactly-once" => Delivery::ExactlyOnce,
            _ => Delivery::AtLeastOnce,
        };
        match delivery {
            // A broker that is away makes the run wait, not fail.
            Delivery::AtLeastOnce => config.set("message.timeout.ms", "0"),
            // The identifier need not be known: the metadata of the group excludes a process that
            // has lost its partitions.
            Delivery::ExactlyOnce => config
                .set("transactional.id", unique_id())
                // A transaction that begins before the broker has finished the last one is told to
                // try again, which is milliseconds later. The library's 100 ms double that time.
                .set("retry.backoff.ms", "10"),
        };
        config
            // No duplicates by repeated requests, and the order is kept.
            .set("enable.idempotence", "true")
            // A key is in the same partition as if a Java client had written it.
            .set("partitioner", "murmur2_random")
            .set("queue.buffering.max.kbytes", buffer_kbytes);
        kafka.pass_properties(&mut config);
        Ok(Self {
            topic: topic.clone(),
            config,
            meta: options.result_meta()?,
            delivery,
            name,
        })
    }
}

/// An identifier that no other process has.
fn unique_id() -> String {
    // The standard library's only source of randomness.
    let random = RandomState::new().hash_one(process::id());
    format!("lookaside-{random:016x}")
}

/// An error of librdkafka about its properties, whose values may be secrets.
pub(super) fn refused(name: &str, error: &KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, reason, property, value) => {
            let reason = match value.is_empty() || !is_secret(property) {
                true => reason.clone(),
                false => "the value is not valid".to_owned(),
            };
            let needs_tls = reason.contains("OpenSSL not available");
            let hint = needs_tls.then_some("build the program with the feature kafka-tls");
            Error::refused(name, &format!("property `{property}`: {reason}"), hint)
        }
        error => {
            let text = error.to_string();
            let needs_tls = text.contains("OpenSSL") || text.contains("ssl");
            let hint = needs_tls.then_some("build the program with the feature kafka-tls");
            Error::refused(name, &text, hint)
        }
    }
}

fn is_secret(property: &str) -> bool {
    ["password", "secret", "key", "pem", "token", "jaas"]
        .iter()
        .any(|word| property.contains(word))
}

/// The options of a URL: those of the connector, and properties of librdkafka, which contain a dot.
struct KafkaOptions<'a> {
    options: UrlOptions<'a>,
    url: &'a ConnectUrl,
    properties: Vec<(&'a str, &'a str)>,
}

impl<'a> KafkaOptions<'a> {
    fn new(url: &'a ConnectUrl, known: &[&str], prefixes: &[&str]) -> Result<Self> {
        // Some properties are a single word.
        let words = ["acks", "debug", "partitioner", "retries"];
        let is_property = |option: &str| {
            (option.contains('.') && !option.starts_with(HEADER)) || words.contains(&option)
        };
        let mut options = url.options().iter();
        if let Some((property, _)) = options.find(|(it, _)| FIXED.contains(&&**it)) {
            return Err(Error::refused(
                &url.name(),
                &format!("the property `{property}` cannot be set"),
                Some("the URL determines brokers and group, and the run when positions are stored"),
            ));
        }
        let properties = url.options().iter();
        Ok(Self {
            options: UrlOptions::with_properties(url, known, prefixes, is_property)?,
            url,
            properties: properties
                .filter(|(option, _)| is_property(option))
                .map(|(option, value)| (&**option, &**value))
                .collect(),
        })
    }

    fn buffer_kbytes(&self) -> Result<String> {
        let size = self
            .options
            .at_least("buffer_max", BUFFER_MAX, BUFFER_MAX_MIN, "bytes")?;
        Ok((size >> 10).to_string())
    }

    fn property(&self, wanted: &str) -> Option<&'a str> {
        let mut properties = self.properties.iter().rev();
        properties
            .find(|(property, _)| *property == wanted)
            .map(|(_, value)| *value)
    }

    /// The properties that sources and sinks share.
    fn config(&self) -> Result<ClientConfig> {
        let name = self.options.name();
        let mechanism = self
            .property("sasl.mechanism")
            .or(self.property("sasl.mechanisms"));
        if let Some(mechanism @ ("AWS_MSK_IAM" | "OAUTHBEARER")) = mechanism {
            return Err(Error::refused(
                name,
                &format!("the SASL mechanism {mechanism} is not supported"),
                Some("use SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN"),
            ));
        }
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.url.hosts())
            .set("client.id", "lookaside")
            .set_log_level(RDKafkaLogLevel::Info);
        if let Some((user, password)) = self.url.user() {
            if mechanism.is_none() || self.property("security.protocol").is_none() {
                return Err(Error::missing_option(
                    name,
                    "sasl.mechanism` and `security.protocol",
                    "a URL with a user needs both, as in \
                     `?sasl.mechanism=SCRAM-SHA-512&security.protocol=sasl_ssl`",
                ));
            }
            config.set("sasl.username", user);
            config.set("sasl.password", password.unwrap_or_default());
        }
        Ok(config)
    }

    fn pass_properties(&self, config: &mut ClientConfig) {
        for (property, value) in &self.properties {
            config.set(*property, *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str) -> Result<SourceOptions> {
        SourceOptions::new(&url.parse().unwrap(), Delivery::AtLeastOnce)
    }

    #[test]
    fn options_and_properties_are_told_apart() {
        let url = "kafka://a:1,b:2/t,^u.*?group=g&start=latest&framing=lines&on_null=forward\
                   &buffer_max=2097152&fetch.wait.max.ms=9&commit_interval_ms=7";
        let options = source(url).unwrap();
        let get = |property| options.config.get(property);
        assert_eq!(get("bootstrap.servers"), Some("a:1,b:2"));
        assert_eq!(get("group.id"), Some("g"));
        assert_eq!(get("auto.offset.reset"), Some("latest"));
        assert_eq!(get("queued.max.messages.kbytes"), Some("2048"));
        assert_eq!(get("fetch.wait.max.ms"), Some("9"));
        assert_eq!(options.topics, ["t", "^u.*"]);
        assert_eq!(options.commit_interval, Duration::from_millis(7));
        assert_eq!(options.framing, MessageFraming::Lines);
        assert_eq!(options.on_null, OnNull::Forward);
        let url = "kafka://u:p@a/t?group=g&sasl.mechanism=PLAIN&security.protocol=sasl_plaintext\
                   &acks=1";
        let options = source(url).unwrap();
        assert_eq!(options.config.get("sasl.password"), Some("p"));
        assert_eq!(options.config.get("enable.auto.commit"), Some("false"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, expected) in [
            ("kafka://a?group=g", "names no topic"),
            ("kafka://a/t", "needs the option `group`"),
            ("kafka://a/t?group=", "needs the option `group`"),
            ("kafka://a/t?groop=g", "did you mean `group`?"),
            (
                "kafka://a/t?group=g&start=now",
                "earliest, latest, an offset, or a time",
            ),
            ("kafka://a/t?group=g&buffer_max=1000", "at least 1048576"),
            ("kafka://a/t?group=g&commit_interval_ms=x", "milliseconds"),
            ("kafka://u:p@a/t?group=g", "sasl.mechanism"),
            (
                "kafka://a/t?group=g&enable.auto.commit=true",
                "cannot be set",
            ),
            ("kafka://a/t?group=g&group.id=h", "cannot be set"),
            (
                "kafka://a/t?group=g&sasl.mechanism=AWS_MSK_IAM",
                "not supported",
            ),
        ] {
            let error = source(url).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
        let sink = |url: &str| SinkOptions::new(&url.parse().unwrap()).map(|_| ());
        for (url, expected) in [
            ("kafka://a", "names no topic"),
            ("kafka://a/t,u", "names no topic"),
            ("kafka://a/t?group=g", "no option `group`"),
        ] {
            let error = sink(url).unwrap_err();
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn values_of_secret_properties_are_not_shown() {
        let error = |property: &str| {
            refused(
                "kafka://a",
                &KafkaError::ClientConfig(
                    rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
                    "Invalid value \"hidden\"".to_owned(),
                    property.to_owned(),
                    "hidden".to_owned(),
                ),
            )
        };
        assert!(!error("ssl.key.password").to_string().contains("hidden"));
        assert!(error("linger.ms").to_string().contains("hidden"));
    }
}
