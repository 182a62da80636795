//! Redis: a server of its own for tests that stop it, and one that the others share.

mod failures;
mod groups;
mod messages;

use lookaside_testing::RedisServer;
use redis::{Connection, Value, cmd, from_redis_value};

use super::running::{Running, start, start_with, try_sink, try_source, unique};

fn connect(server: &RedisServer) -> Connection {
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    client.get_connection().unwrap()
}

/// Appends an entry.
fn add(connection: &mut Connection, stream: &str, fields: &[(&str, &str)]) {
    let mut command = cmd("XADD");
    command.arg(stream).arg("*");
    for (name, value) in fields {
        command.arg(name).arg(value);
    }
    command.exec(connection).unwrap();
}

/// Appends events with numbers.
fn add_numbers(server: &RedisServer, stream: &str, first: usize, count: usize) {
    let mut pipeline = redis::pipe();
    for n in first..first + count {
        let command = pipeline.cmd("XADD").arg(stream).arg("*");
        let key = format!("key {}", n % 7);
        command.arg("payload").arg(format!("{{\"n\":{n}}}"));
        command
            .arg("key")
            .arg(key)
            .arg("trace")
            .arg(format!("t{n}"));
    }
    pipeline.exec(&mut connect(server)).unwrap();
}

/// An entry as it was found in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    id: String,
    fields: Vec<(String, String)>,
}

impl Found {
    fn field(&self, wanted: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let (_, value) = fields.find(|(name, _)| name == wanted)?;
        Some(value)
    }

    fn payload(&self) -> &str {
        self.field("payload").unwrap()
    }
}

/// All entries of a stream.
fn entries(server: &RedisServer, stream: &str) -> Vec<Found> {
    let mut command = cmd("XRANGE");
    let command = command.arg(stream).arg("-").arg("+");
    let found: Vec<(String, Vec<(String, String)>)> = command.query(&mut connect(server)).unwrap();
    let found = found.into_iter();
    found.map(|(id, fields)| Found { id, fields }).collect()
}

fn payloads(server: &RedisServer, stream: &str) -> Vec<String> {
    let found = entries(server, stream).into_iter();
    found.map(|found| found.payload().to_owned()).collect()
}

/// The pending entries of a group: consumer, and how often each was delivered.
fn pending(server: &RedisServer, stream: &str, group: &str) -> Vec<(String, u64)> {
    let mut command = cmd("XPENDING");
    let command = command
        .arg(stream)
        .arg(group)
        .arg("-")
        .arg("+")
        .arg(100_000);
    let found: Vec<Value> = command.query(&mut connect(server)).unwrap();
    let found = found.into_iter().map(|entry| {
        let (_, consumer, _, count): (String, String, u64, u64) = from_redis_value(entry).unwrap();
        (consumer, count)
    });
    found.collect()
}

/// Reads entries as a consumer that then never acknowledges them.
fn read_and_die(server: &RedisServer, stream: &str, group: &str, consumer: &str, count: usize) {
    let mut connection = connect(server);
    let mut command = cmd("XGROUP");
    let command = command.arg("CREATE").arg(stream).arg(group).arg("0");
    let _ = command.exec(&mut connection);
    let mut command = cmd("XREADGROUP");
    let command = command.arg("GROUP").arg(group).arg(consumer);
    let command = command.arg("COUNT").arg(count);
    let command = command.arg("STREAMS").arg(stream).arg(">");
    command.exec(&mut connection).unwrap();
    let read = pending(server, stream, group);
    assert_eq!(
        read.iter().filter(|(name, _)| name == consumer).count(),
        count
    );
}
