//! Streams of Redis and Valkey, in a consumer group.
//!
//! A source reads with `XREADGROUP` and acknowledges entries with `XACK` when their results are
//! delivered. Entries that the last run of the same consumer left pending are read first; those of
//! consumers that are gone are claimed when they were idle for `claim_idle_ms`. What is under way
//! here is renewed long before that, also while the sinks are blocked, so that no other consumer
//! claims it. Each process needs a consumer name of its own, which is the name of the host unless
//! the option `consumer` gives another one.
//!
//! An entry is a map of fields. The one that the option `field` names (`payload` by default) is the
//! payload, `key` is the key, and all others are headers. The header `redis-id` is the id of the
//! entry, and the timestamp is the time in it. An entry without a payload is rejected, as a dead
//! letter with all of its fields. A sink writes entries of this form.
//!
//! # What can be lost
//!
//! A sink treats an entry as delivered when the server has replied. What the server keeps when it
//! crashes is a matter of its configuration: with `appendonly yes` and `appendfsync always`,
//! everything; with `appendfsync everysec`, which is the default with `appendonly yes`, all but the
//! last one or two seconds; with `appendonly no`, what is in the last snapshot. When a replica takes
//! over, entries are lost that it did not have yet. The same holds for acknowledgements, of which a
//! lost one only means that an entry is read again. A stream that is trimmed (`maxlen`) loses
//! entries whether they were read or not.

mod client;
mod consumer;
mod entry;
mod lag;
mod options;
mod sink;
mod stream;
mod writer;

use lookaside_stream::OnNull;

use self::client::{Client, Failure};
use self::consumer::Consumer;
use self::options::{SinkOptions, SourceOptions};
use self::sink::RedisSink;
use crate::read_queue::QueuedSource;
use crate::{ConnectUrl, Error, OpenedSink, OpenedSource, Result};

pub(crate) fn open_source(url: &ConnectUrl) -> Result<OpenedSource> {
    let options = SourceOptions::new(url)?;
    let name = options.name.clone();
    let framing = options.framing;
    let mut client = connect(&options.name, options.client.clone())?;
    require_version(&name, &describe_server(&mut client))?;
    for stream in &options.streams {
        describe_stream(&mut client, &name, stream)?;
    }
    let lag = lag::reader(&options);
    let mut consumer = Consumer::new(client, options);
    consumer
        .create_groups()
        .map_err(|failure| unavailable(&name, failure))?;
    let source = QueuedSource::start(&name, "redis-source", move |queue| consumer.run(&queue))?;
    Ok(OpenedSource {
        source: Box::new(source),
        framing,
        // An entry without a payload is rejected instead.
        on_null: OnNull::Skip,
        lag: Some(lag),
    })
}

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let mut options = SinkOptions::new(url)?;
    let meta = std::mem::take(&mut options.meta);
    let mut client = connect(&options.name, options.client.clone())?;
    describe_stream(&mut client, &options.name, &options.stream)?;
    Ok(OpenedSink {
        sink: Box::new(RedisSink::open(client, options)?),
        meta,
    })
}

pub(crate) fn check_source(url: &ConnectUrl) -> Result<String> {
    let options = SourceOptions::new(url)?;
    let name = &options.name;
    let mut client = connect(name, options.client.clone())?;
    require_version(name, &describe_server(&mut client))?;
    let streams = options.streams.iter();
    let found = streams.map(|stream| describe_stream(&mut client, name, stream));
    let found = found.collect::<Result<Vec<_>>>()?.join(", ");
    Ok(format!("{name} is available: {found}"))
}

pub(crate) fn check_sink(url: &ConnectUrl) -> Result<String> {
    let options = SinkOptions::new(url)?;
    let name = &options.name;
    let mut client = connect(name, options.client.clone())?;
    let found = describe_stream(&mut client, name, &options.stream)?;
    let is_unlogged = describe_server(&mut client).contains("aof_enabled:0");
    let warning = match is_unlogged {
        true => "; it keeps no append-only file, so a crash loses entries since its last snapshot",
        false => "",
    };
    Ok(format!("{name} is available: {found}{warning}"))
}

fn connect(name: &str, client: redis::Client) -> Result<Client> {
    let mut client = Client::new(name, client);
    let connected = client.connect();
    connected.map_err(|failure| unavailable(name, failure))?;
    Ok(client)
}

/// The server's description of itself; empty for users that may not read it.
fn describe_server(client: &mut Client) -> String {
    let info = client.call(&redis::cmd("INFO"));
    info.ok()
        .and_then(|info| redis::from_redis_value(info).ok())
        .unwrap_or_default()
}

/// `XAUTOCLAIM` is new in Redis 6.2. Valkey calls itself Redis 7.2.
fn require_version(name: &str, description: &str) -> Result<()> {
    let mut lines = description.lines();
    let version = lines.find_map(|line| line.strip_prefix("redis_version:"));
    let Some(version) = version else {
        return Ok(());
    };
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (6, 2) => {
            let reason = format!("the server is Redis {version}, and 6.2 is needed");
            Err(Error::unavailable(name, &reason, "update the server"))
        }
        _ => Ok(()),
    }
}

/// What is found of a stream; it need not exist yet.
fn describe_stream(client: &mut Client, name: &str, stream: &str) -> Result<String> {
    let length = client.call(redis::cmd("XLEN").arg(stream));
    let length = match length {
        Err(Failure::Refused(reason)) if reason.contains("WRONGTYPE") => {
            return Err(not_a_stream(name, stream));
        }
        length => length.map_err(|failure| unavailable(name, failure))?,
    };
    Ok(match length {
        redis::Value::Int(0) => format!("stream {stream}, empty or to be created"),
        redis::Value::Int(count) => {
            let plural = if count == 1 { "entry" } else { "entries" };
            format!("stream {stream} with {count} {plural}")
        }
        _ => format!("stream {stream}"),
    })
}

fn not_a_stream(name: &str, stream: &str) -> Error {
    let reason = format!("the key `{stream}` holds something else than a stream");
    let hint = "name another key, or remove this one with `redis-cli DEL KEY`";
    Error::unavailable(name, &reason, hint)
}

fn unavailable(name: &str, failure: Failure) -> Error {
    match failure {
        Failure::Away(reason) => {
            let hint = "start the server, or correct the host and the port of the URL; for a \
                        server with TLS, write rediss://";
            Error::unavailable(name, &format!("no server answers: {reason}"), hint)
        }
        Failure::Refused(reason) => {
            let hint = "correct the user and the password of the URL, and what the user may do";
            Error::unavailable(name, &format!("the server refuses: {reason}"), hint)
        }
        Failure::NoGroup => Error::unavailable(
            name,
            "the group was removed while it was opened",
            "open it again",
        ),
    }
}
