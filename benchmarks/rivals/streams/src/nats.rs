//! A durable pull consumer, publishing with acknowledgements that are awaited together, and `+ACK`.

use anyhow::{Context as _, Result};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;

use crate::CopyArguments;

pub(crate) fn copy(arguments: &CopyArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: &CopyArguments) -> Result<()> {
    let CopyArguments {
        server,
        from,
        to,
        count,
        batch,
    } = arguments;
    let client = async_nats::connect(server).await?;
    let context = jetstream::ContextBuilder::new()
        .max_ack_inflight(*batch)
        .build(client);
    let stream = context.get_stream(from).await?;
    let config = pull::Config {
        durable_name: Some("g".to_owned()),
        ack_policy: AckPolicy::Explicit,
        max_ack_pending: 65_536,
        ..pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await?;
    let mut messages = consumer
        .stream()
        .max_messages_per_batch(*batch)
        .messages()
        .await?
        .ready_chunks(*batch);
    let mut copied = 0;
    while copied < *count {
        let chunk = messages.next().await.context("the stream ended")?;
        let chunk = chunk.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut published = Vec::with_capacity(chunk.len());
        for message in &chunk {
            let payload = message.payload.clone();
            published.push(context.publish(to.clone(), payload).await?.into_future());
        }
        try_join_all(published).await?;
        for message in &chunk {
            message.ack().await.map_err(|error| anyhow::anyhow!(error))?;
        }
        copied += chunk.len() as u64;
    }
    Ok(context.client().flush().await?)
}
