//! The kinds of connectors, whether they are built in or not.

use crate::{Error, Result};

/// A kind of connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// The scheme of its URLs.
    pub scheme: &'static str,
    /// What it connects to.
    pub summary: &'static str,
    /// The feature that brings it.
    pub feature: &'static str,
    /// Whether this build has it.
    pub is_built_in: bool,
    /// The URL of a source, if it can be one.
    pub source_example: Option<&'static str>,
    /// The URL of a sink, if it can be one.
    pub sink_example: Option<&'static str>,
}

/// All kinds.
pub const KINDS: [Kind; 10] = [
    Kind {
        scheme: "clickhouse",
        summary: "tables of ClickHouse, by HTTP or HTTPS (tls=true)",
        feature: "http",
        is_built_in: cfg!(feature = "http"),
        source_example: None,
        sink_example: Some("clickhouse://localhost:8123/default.clicks"),
    },
    Kind {
        scheme: "elasticsearch",
        summary: "indices of Elasticsearch or OpenSearch, by HTTP or HTTPS (tls=true)",
        feature: "http",
        is_built_in: cfg!(feature = "http"),
        source_example: None,
        sink_example: Some("elasticsearch://localhost:9200/clicks"),
    },
    Kind {
        scheme: "http",
        summary: "an HTTP server that takes lines of JSON by POST",
        feature: "http",
        is_built_in: cfg!(feature = "http"),
        source_example: None,
        sink_example: Some("http://localhost:8080/clicks"),
    },
    Kind {
        scheme: "https",
        summary: "an HTTPS server that takes lines of JSON by POST",
        feature: "http",
        is_built_in: cfg!(feature = "http"),
        source_example: None,
        sink_example: Some("https://collector.example.com/clicks"),
    },
    Kind {
        scheme: "kafka",
        summary: "topics of Apache Kafka or Redpanda",
        feature: "kafka",
        is_built_in: cfg!(feature = "kafka"),
        source_example: Some("kafka://localhost:9092/clicks?group=lookaside"),
        sink_example: Some("kafka://localhost:9092/clicks-rich"),
    },
    Kind {
        scheme: "nats",
        summary: "streams of NATS JetStream",
        feature: "nats",
        is_built_in: cfg!(feature = "nats"),
        source_example: Some("nats://localhost:4222/CLICKS?durable=lookaside"),
        sink_example: Some("nats://localhost:4222/clicks.rich"),
    },
    Kind {
        scheme: "postgres",
        summary: "tables of PostgreSQL",
        feature: "postgres",
        is_built_in: cfg!(feature = "postgres"),
        source_example: None,
        sink_example: Some("postgres://app@localhost:5432/shop?table=clicks"),
    },
    // The other scheme that clients of PostgreSQL know, for the same.
    Kind {
        scheme: "postgresql",
        summary: "tables of PostgreSQL",
        feature: "postgres",
        is_built_in: cfg!(feature = "postgres"),
        source_example: None,
        sink_example: None,
    },
    Kind {
        scheme: "redis",
        summary: "streams of Redis or Valkey",
        feature: "redis",
        is_built_in: cfg!(feature = "redis"),
        source_example: Some("redis://localhost:6379/clicks?group=lookaside"),
        sink_example: Some("redis://localhost:6379/clicks-rich?maxlen=1000000"),
    },
    Kind {
        scheme: "rediss",
        summary: "streams of Redis or Valkey, by TLS",
        feature: "redis",
        is_built_in: cfg!(feature = "redis"),
        source_example: Some("rediss://redis.example.com:6380/clicks?group=lookaside"),
        sink_example: Some("rediss://redis.example.com:6380/clicks-rich"),
    },
];

/// The scheme, if it is a kind of source that is built in.
pub(crate) fn source_of(scheme: &str) -> Result<&'static str> {
    let mut kinds = KINDS.iter();
    let is_sink = kinds.any(|kind| kind.scheme == scheme && kind.source_example.is_none());
    match is_sink {
        true => Err(Error::not_a_source(scheme)),
        false => of(scheme),
    }
}

/// The scheme, if it is a kind that is built in.
pub(crate) fn of(scheme: &str) -> Result<&'static str> {
    match KINDS.iter().find(|kind| kind.scheme == scheme) {
        Some(kind) if kind.is_built_in => Ok(kind.scheme),
        Some(kind) => Err(Error::not_built_in(kind.scheme, kind.feature)),
        None => Err(Error::unknown_kind(scheme, &KINDS.map(|kind| kind.scheme))),
    }
}
