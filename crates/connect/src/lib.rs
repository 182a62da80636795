//! Connectors: sources and sinks of event streams in message brokers, and sinks that are databases
//! and HTTP servers.
//!
//! A connector is named by a URL, such as `kafka://localhost:9092/clicks?group=lookaside`. Each kind
//! is a feature of this crate; [`KINDS`] lists all of them, also those that are not built in.
//!
//! ```no_run
//! use lookaside_connect::ConnectUrl;
//! use lookaside_stream::{Sink, Source};
//!
//! let url: ConnectUrl = "kafka://localhost:9092/clicks?group=lookaside".parse()?;
//! let opened = lookaside_connect::open_source(&url)?;
//! let source = Source::new().with_messages(&url.name(), opened.source);
//!
//! let url: ConnectUrl = "kafka://localhost:9092/clicks-rich?key=user".parse()?;
//! let opened = lookaside_connect::open_sink(&url)?;
//! let sink = Sink::messages(&url.name(), opened.sink, opened.meta);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
#[cfg(feature = "postgres")]
mod file_to_postgres;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "nats")]
mod jetstream;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(all(feature = "kafka", feature = "postgres"))]
mod kafka_to_postgres;
mod kind;
mod lag;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "kafka", feature = "redis", feature = "nats"))]
mod read_queue;
#[cfg(feature = "redis")]
mod redis_streams;
mod url;
#[cfg(any(
    feature = "http",
    feature = "nats",
    feature = "postgres",
    feature = "redis"
))]
mod write_queue;
#[cfg(any(feature = "http", feature = "postgres", feature = "redis"))]
mod write_thread;

use std::path::Path;

use lookaside_stream::{Mark, MessageFraming, MessageSink, MessageSource, OnNull, ResultMeta};

pub use error::{Error, ErrorKind, Result};
pub use kind::{KINDS, Kind};
pub use lag::{LagReader, PartitionLag};
pub use options::UrlOptions;
pub use url::ConnectUrl;

/// An open source, and the options of its URL that the run applies.
pub struct OpenedSource {
    /// The source, which has joined its consumer group.
    pub source: Box<dyn MessageSource>,
    /// How messages are split into events; the option `framing`.
    pub framing: MessageFraming,
    /// What is done with null payloads; the option `on_null`.
    pub on_null: OnNull,
    /// How far the source is behind, if its broker tells.
    pub lag: Option<LagReader>,
}

/// An open sink, and the options of its URL that the run applies.
pub struct OpenedSink {
    /// The sink.
    pub sink: Box<dyn MessageSink>,
    /// The metadata of results; the options `key`, `topic`, `timestamp` and `header.NAME`.
    pub meta: ResultMeta,
}

/// Opens a source and begins to read.
///
/// # Errors
/// When the kind is unknown, not built in or only a sink, an option is wrong, or the broker or its
/// topics are not available.
pub fn open_source(url: &ConnectUrl) -> Result<OpenedSource> {
    match kind::source_of(url.scheme())? {
        #[cfg(feature = "kafka")]
        "kafka" => kafka::open_source(url),
        #[cfg(feature = "nats")]
        "nats" => jetstream::open_source(url),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => redis_streams::open_source(url),
        other => unreachable!("{other} is not a kind that is built in"),
    }
}

/// Opens a source and a sink of one run. Only so is exactly-once delivery possible, where the sink
/// stores the positions of the source.
///
/// # Errors
/// As [`open_source`].
pub fn open_pair(source: &ConnectUrl, sink: &ConnectUrl) -> Result<(OpenedSource, OpenedSink)> {
    match (kind::source_of(source.scheme())?, kind::of(sink.scheme())?) {
        #[cfg(feature = "kafka")]
        ("kafka", "kafka") => kafka::open_pair(source, sink),
        #[cfg(all(feature = "kafka", feature = "postgres"))]
        ("kafka", "postgres" | "postgresql") => kafka_to_postgres::open_pair(source, sink),
        (_, _) => {
            // The sink first: a group is joined when everything else is ready.
            let sink = open_sink(sink)?;
            Ok((open_source(source)?, sink))
        }
    }
}

/// Opens a sink.
///
/// # Errors
/// As [`open_source`].
pub fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    match kind::of(url.scheme())? {
        #[cfg(feature = "http")]
        "clickhouse" | "elasticsearch" | "http" | "https" => http::open_sink(url),
        #[cfg(feature = "kafka")]
        "kafka" => kafka::open_sink(url),
        #[cfg(feature = "nats")]
        "nats" => jetstream::open_sink(url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => postgres::open_sink(url),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => redis_streams::open_sink(url),
        other => unreachable!("{other} is not a kind that is built in"),
    }
}

/// Opens the sink of a run that follows a file under the path `followed`. If the sink stores the
/// position in the file, which is exactly-once delivery, the run begins at the returned one, or at the
/// start of the file if there is none.
///
/// # Errors
/// As [`open_source`].
pub fn open_sink_of_followed(
    url: &ConnectUrl,
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "only a table stores it")
    )]
    followed: &Path,
) -> Result<(OpenedSink, Option<Mark>)> {
    match kind::of(url.scheme())? {
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => file_to_postgres::open_sink(url, followed),
        _ => Ok((open_sink(url)?, None)),
    }
}

/// Checks the options of a source, connects to its broker and looks for its topics, without joining
/// a group; returns one line on what was found.
///
/// # Errors
/// As [`open_source`].
pub fn check_source(url: &ConnectUrl) -> Result<String> {
    match kind::source_of(url.scheme())? {
        #[cfg(feature = "kafka")]
        "kafka" => kafka::check_source(url),
        #[cfg(feature = "nats")]
        "nats" => jetstream::check_source(url),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => redis_streams::check_source(url),
        other => unreachable!("{other} is not a kind that is built in"),
    }
}

/// As [`check_source`], for a sink.
///
/// # Errors
/// As [`open_source`].
pub fn check_sink(url: &ConnectUrl) -> Result<String> {
    match kind::of(url.scheme())? {
        #[cfg(feature = "http")]
        "clickhouse" | "elasticsearch" | "http" | "https" => http::check_sink(url),
        #[cfg(feature = "kafka")]
        "kafka" => kafka::check_sink(url),
        #[cfg(feature = "nats")]
        "nats" => jetstream::check_sink(url),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => postgres::check_sink(url),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => redis_streams::check_sink(url),
        other => unreachable!("{other} is not a kind that is built in"),
    }
}
