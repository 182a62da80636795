//! Sinks that are HTTP servers: a plain server that takes lines of JSON, ClickHouse, Elasticsearch.
//!
//! A thread of the sink collects messages into a batch, which is the body of one POST request. A
//! batch is sent when it has `batch_bytes`, when its first message has waited for `batch_ms`, or when
//! the run waits for all that it has written. There is one request at a time, so that messages arrive
//! in their order.
//!
//! The response decides what becomes of the batch:
//!
//! - 2xx: it is delivered.
//! - 408, 425, 429, 5xx, and a response that does not arrive or is not complete: it is sent again,
//!   after a time that grows, or that the server states by `Retry-After`.
//! - 401, 403, 404, 405, 407 and redirects: the run ends with an error, as no other message would be
//!   taken either.
//! - Other 4xx: at least one message is not acceptable. The batch is halved until the server has
//!   taken the others; a message that is refused alone becomes a dead letter.
//!
//! ClickHouse and Elasticsearch state more precisely what is wrong, by the code of an exception and
//! by a status for each message.

mod clickhouse;
mod client;
mod elasticsearch;
mod message;
mod options;
mod plain;
mod sink;
mod target;
mod writer;

use self::clickhouse::ClickHouse;
use self::client::Client;
use self::elasticsearch::Elasticsearch;
use self::options::SinkOptions;
use self::plain::Plain;
use self::sink::HttpSink;
use self::target::Target;
use crate::{ConnectUrl, OpenedSink, Result};

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let mut options = SinkOptions::new(url)?;
    let meta = std::mem::take(&mut options.meta);
    let client = Client::new(&options)?;
    let mut target = target(&options)?;
    target.check(&client)?;
    Ok(OpenedSink {
        sink: Box::new(HttpSink::open(client, target, &options)?),
        meta,
    })
}

pub(crate) fn check_sink(url: &ConnectUrl) -> Result<String> {
    let options = SinkOptions::new(url)?;
    let client = Client::new(&options)?;
    let found = target(&options)?.check(&client)?;
    Ok(format!("{} is available: {found}", options.name))
}

fn target(options: &SinkOptions) -> Result<Box<dyn Target>> {
    Ok(match options.scheme {
        "clickhouse" => Box::new(ClickHouse::new(options)?),
        "elasticsearch" => Box::new(Elasticsearch::new(options)?),
        _ => Box::new(Plain::new(options)),
    })
}
