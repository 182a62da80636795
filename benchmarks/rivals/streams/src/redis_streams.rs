//! `XREADGROUP`, a pipeline of `XADD`, and `XACK`, on one connection.

use anyhow::{Context as _, Result};
use redis::Commands as _;
use redis::streams::{StreamReadOptions, StreamReadReply};

use crate::CopyArguments;

pub(crate) fn copy(arguments: &CopyArguments) -> Result<()> {
    let CopyArguments {
        server,
        from,
        to,
        count,
        batch,
    } = arguments;
    let client = redis::Client::open(format!("redis://{server}/"))?;
    let mut connection = client.get_connection()?;
    let _: () = connection.xgroup_create(from, "g", "0")?;
    let options = StreamReadOptions::default()
        .group("g", "c")
        .count(*batch)
        .block(60_000);
    let mut copied = 0;
    while copied < *count {
        let reply: Option<StreamReadReply> =
            connection.xread_options(&[from], &[">"], &options)?;
        let reply = reply.context("no message for a minute")?;
        let mut writes = redis::pipe();
        let mut ids = Vec::new();
        for entry in reply.keys.into_iter().flat_map(|stream| stream.ids) {
            let payload: Vec<u8> = entry.get("payload").context("no payload")?;
            writes.xadd(to, "*", &[("payload", payload)]).ignore();
            ids.push(entry.id);
        }
        writes.query::<()>(&mut connection)?;
        let _: u64 = connection.xack(from, "g", &ids)?;
        copied += ids.len() as u64;
    }
    Ok(())
}
