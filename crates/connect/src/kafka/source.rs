//! A consumer group as source.

use std::sync::Arc;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::consumer::consume;
use super::group::Group;
use super::options::{SourceOptions, refused};
use crate::Result;
use crate::read_queue::QueuedSource;

/// Joins the group and starts the thread that polls librdkafka, as heartbeats and rebalances go on
/// while the run does not read. Also returns the consumer, for a sink whose transactions store its
/// positions.
pub(super) fn open(options: SourceOptions) -> Result<(QueuedSource, Arc<BaseConsumer<Group>>)> {
    let name = options.name.clone();
    let group = Group::new(&name);
    let consumer: BaseConsumer<Group> = options
        .config
        .create_with_context(group)
        .map_err(|error| refused(&name, &error))?;
    super::find_topics(consumer.client(), &name, &options.topics)?;
    let topics: Vec<_> = options.topics.iter().map(|topic| &**topic).collect();
    consumer
        .subscribe(&topics)
        .map_err(|error| refused(&name, &error))?;
    let consumer = Arc::new(consumer);
    let commit_interval = options.commit_interval;
    let source = QueuedSource::start(&name, "kafka-source", {
        let consumer = Arc::clone(&consumer);
        move |queue| {
            consume(consumer, commit_interval, &queue);
            Ok(())
        }
    })?;
    Ok((source, consumer))
}
