//! A consumer group as source.

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::consumer::{Group, consume};
use super::options::{SourceOptions, refused};
use crate::Result;
use crate::read_queue::QueuedSource;

/// Joins the group and starts the thread that polls librdkafka, as heartbeats and rebalances go on
/// while the run does not read.
pub(super) fn open(options: SourceOptions) -> Result<QueuedSource> {
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
    let commit_interval = options.commit_interval;
    QueuedSource::start(&name, "kafka-source", move |queue| {
        consume(consumer, commit_interval, &queue)
    })
}
