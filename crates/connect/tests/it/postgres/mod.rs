//! PostgreSQL: a database of its own for each test, and servers for those that stop them.

#[cfg(feature = "kafka")]
mod exactly_once;
mod failures;
mod followed;
mod opening;
mod rows;

use std::sync::Arc;

use lookaside_client::Value;
use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use lookaside_stream::{MessageSink, Messages, Partition, Receipt, RefusedMessage};

use super::flush::flush;
use super::running::try_sink;

fn database() -> Postgres {
    Postgres::temporary().unwrap()
}

/// The URL of a table in a database.
fn url(postgres: &Postgres, options: &str) -> String {
    let folder = postgres
        .socket_folder()
        .to_str()
        .unwrap()
        .replace('/', "%2F");
    let (user, port, database) = (postgres.user(), postgres.port(), postgres.database());
    format!("postgres://{user}@{folder}:{port}/{database}?{options}")
}

fn open(url: &str) -> Box<dyn MessageSink> {
    lookaside_connect::open_sink(&url.parse().unwrap())
        .unwrap()
        .sink
}

fn connect(postgres: &Postgres) -> Connection {
    Connection::connect(&postgres.url()).unwrap()
}

/// The rows of a query, each as its values with `|` between them.
fn query(postgres: &Postgres, sql: &str) -> Vec<String> {
    let answer = connect(postgres).query(sql, &[]).unwrap();
    let rows = answer.rows.iter().map(|row| {
        let texts = row.iter().map(|value| match value {
            Value::Null => "null".to_owned(),
            value => value.to_text().to_string(),
        });
        texts.collect::<Vec<_>>().join("|")
    });
    rows.collect()
}

fn count(postgres: &Postgres, table: &str) -> usize {
    let count = query(postgres, &format!("select count(*) from {table}"));
    count[0].parse().unwrap()
}

/// Messages that were read, as a run passes their results to a sink.
struct Written {
    partition: Arc<Partition>,
    receipt: Arc<Receipt>,
    count: usize,
}

impl Written {
    /// Whether as many messages are delivered.
    fn is_delivered(&self) -> bool {
        self.partition.acknowledged() == Some(self.count as u64)
    }
}

fn messages<'a>(payloads: impl IntoIterator<Item = &'a str>) -> (Messages, Written) {
    let partition = Partition::new("in", 0);
    let mut messages = Messages::new();
    for (position, payload) in payloads.into_iter().enumerate() {
        messages.push(&partition, position as u64, Some(payload.as_bytes()), None);
    }
    let receipt = Receipt::of(&messages);
    receipt.add(0, messages.len() as u32);
    let count = messages.len();
    let written = Written {
        partition,
        receipt,
        count,
    };
    (messages, written)
}

/// Writes results, each of a message of its own.
fn write<'a>(sink: &mut dyn MessageSink, payloads: impl IntoIterator<Item = &'a str>) -> Written {
    let (messages, written) = messages(payloads);
    sink.write(&messages, &written.receipt).unwrap();
    written.receipt.release();
    written
}

/// Writes results and waits for them; returns those that are refused.
fn write_all<'a>(
    sink: &mut dyn MessageSink,
    payloads: impl IntoIterator<Item = &'a str>,
) -> Vec<RefusedMessage> {
    let written = write(sink, payloads);
    flush(sink).unwrap();
    let refused = sink.take_refused();
    assert_eq!(written.is_delivered(), refused.is_empty());
    for refused in &refused {
        refused.receipt.deliver(refused.segment, 1);
    }
    assert!(written.is_delivered(), "the others are delivered");
    refused
}

fn reasons(refused: &[RefusedMessage]) -> Vec<&str> {
    refused.iter().map(|refused| &*refused.reason).collect()
}
