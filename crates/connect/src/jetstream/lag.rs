//! The lag of a durable consumer.

use tokio::time::timeout;

use super::options::SourceOptions;
use super::{connect, runtime};
use crate::lag::{ANSWER_TIMEOUT, LagReader, PartitionLag};
use crate::{Error, Result};

/// Opens a connection for each query: its runtime runs only during a query, and the server closes a
/// connection that does not respond in between.
pub(super) fn reader(options: SourceOptions) -> LagReader {
    LagReader::new(move || read(&options).ok())
}

fn read(options: &SourceOptions) -> Result<Vec<PartitionLag>> {
    let name = &options.connection.name;
    let late = || Error::unavailable(name, "the server does not answer", "start it");
    let info = runtime(name)?.block_on(async {
        let asked = timeout(ANSWER_TIMEOUT, async {
            let context = connect(&options.connection).await?;
            let stream = context.get_stream_no_info(&options.stream).await;
            let stream = stream.map_err(|_| late())?;
            let info = stream.consumer_info(&options.durable).await;
            info.map_err(|_| late())
        });
        asked.await.map_err(|_| late())?
    })?;
    Ok(vec![PartitionLag {
        topic: options.stream.clone(),
        partition: 0,
        // What was not sent to any process, and what processes have not acknowledged.
        messages: info.num_pending + info.num_ack_pending as u64,
    }])
}
