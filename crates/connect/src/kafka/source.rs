//! A consumer group as source.

use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::consumer::consume;
use super::group::Group;
use super::options::{SourceOptions, refused};
use crate::Result;
use crate::read_queue::QueuedSource;

/// Opens a source. Also returns the consumer, for a sink whose transactions store its positions.
pub(super) fn open(options: SourceOptions) -> Result<(QueuedSource, Arc<BaseConsumer<Group>>)> {
    let consumer = Arc::new(create_consumer(&options)?);
    let source = join(options, Arc::clone(&consumer))?;
    Ok((source, consumer))
}

/// A consumer that has not joined its group; its topics exist.
pub(crate) fn create_consumer(options: &SourceOptions) -> Result<BaseConsumer<Group>> {
    let name = &options.name;
    let consumer: BaseConsumer<Group> = options
        .config
        .create_with_context(Group::new(name, options.start))
        .map_err(|error| refused(name, &error))?;
    super::find_topics(consumer.client(), name, &options.topics)?;
    Ok(consumer)
}

/// Joins the group and starts the thread that polls librdkafka, as heartbeats and rebalances go on
/// while the run does not read.
pub(crate) fn join(
    options: SourceOptions,
    consumer: Arc<BaseConsumer<Group>>,
) -> Result<QueuedSource> {
    let name = options.name;
    let topics: Vec<_> = options.topics.iter().map(|topic| &**topic).collect();
    consumer
        .subscribe(&topics)
        .map_err(|error| refused(&name, &error))?;
    let commit_interval = options.commit_interval;
    QueuedSource::start(&name, "kafka-source", move |queue| {
        consume(consumer, commit_interval, &queue);
        Ok(())
    })
}
