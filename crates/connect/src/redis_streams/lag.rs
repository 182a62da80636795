//! The lag of a group.

use std::collections::HashMap;

use redis::{RedisResult, Value};

use super::options::SourceOptions;
use crate::lag::{ANSWER_TIMEOUT, LagReader, PartitionLag};

/// Opens a connection for each query, since the one of the source may be waiting for entries.
pub(super) fn reader(options: &SourceOptions) -> LagReader {
    let (client, streams) = (options.client.clone(), options.streams.clone());
    let group = options.group.clone();
    LagReader::new(move || read(&client, &streams, &group).ok())
}

fn read(client: &redis::Client, streams: &[String], group: &str) -> RedisResult<Vec<PartitionLag>> {
    let mut connection = client.get_connection_with_timeout(ANSWER_TIMEOUT)?;
    connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut lags = Vec::new();
    for stream in streams {
        let groups: Vec<HashMap<String, Value>> = redis::cmd("XINFO")
            .arg("GROUPS")
            .arg(stream)
            .query(&mut connection)?;
        let is_it = |found: &&HashMap<String, Value>| {
            let name = found.get("name").cloned();
            name.and_then(|name| redis::from_redis_value(name).ok()) == Some(group.to_owned())
        };
        if let Some(messages) = groups.iter().find(is_it).and_then(messages) {
            lags.push(PartitionLag {
                topic: stream.clone(),
                partition: 0,
                messages,
            });
        }
    }
    Ok(lags)
}

/// What the group has not read, and what its consumers have not acknowledged. Before Redis 7, and
/// after entries in the middle were deleted, the server does not know the former.
fn messages(group: &HashMap<String, Value>) -> Option<u64> {
    let number = |name: &str| match group.get(name) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    Some(number("lag")? + number("pending")?)
}
