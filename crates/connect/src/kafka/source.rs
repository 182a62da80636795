//! A consumer group as source.

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use lookaside_stream::{MessageRead, MessageSource, Messages};
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::consumer::consume;
use super::group::Group;
use super::options::{SourceOptions, refused};
use crate::{Error, Result};

/// How many reads wait for the run. One more is being filled, so that neither side waits for the
/// other after each.
const READ_COUNT_MAX: usize = 2;

/// The topics of a consumer group. A thread of its own polls librdkafka, as heartbeats and
/// rebalances go on while the run does not read.
pub(super) struct KafkaSource {
    reads: Option<Receiver<io::Result<Messages>>>,
    /// Returns the memory of reads.
    spares: Sender<Messages>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    consumer: Arc<BaseConsumer<Group>>,
}

impl KafkaSource {
    pub(super) fn open(options: SourceOptions) -> Result<Self> {
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
        let (sender, reads) = bounded(READ_COUNT_MAX);
        let (spares, spare_reads) = bounded(READ_COUNT_MAX + 1);
        let (stop, stopped) = bounded(0);
        let commit_interval = options.commit_interval;
        let thread = std::thread::Builder::new()
            .name("kafka-source".into())
            .spawn({
                let consumer = Arc::clone(&consumer);
                move || consume(consumer, commit_interval, &sender, &spare_reads, &stopped)
            })
            .map_err(|error| {
                let hint = "end other processes, or raise the limit of threads";
                Error::unavailable(&name, &format!("no thread can be started: {error}"), hint)
            })?;
        Ok(Self {
            reads: Some(reads),
            spares,
            stop: Some(stop),
            thread: Some(thread),
            consumer,
        })
    }

    /// The consumer, for a sink whose transactions store its positions.
    pub(super) fn consumer(&self) -> &Arc<BaseConsumer<Group>> {
        &self.consumer
    }
}

impl MessageSource for KafkaSource {
    fn read(&mut self, messages: &mut Messages, timeout: Duration) -> io::Result<MessageRead> {
        let reads = self.reads.as_ref().expect("a closed source is not read");
        let read = match reads.recv_timeout(timeout) {
            Ok(read) => read?,
            Err(RecvTimeoutError::Timeout) => return Ok(MessageRead::Idle),
            // The thread has ended: after an error, which was returned, or by a panic.
            Err(RecvTimeoutError::Disconnected) => {
                self.close()?;
                return Ok(MessageRead::End);
            }
        };
        let _ = self.spares.try_send(mem::replace(messages, read));
        messages.remove_revoked();
        Ok(match messages.is_empty() {
            true => MessageRead::Idle,
            false => MessageRead::Messages,
        })
    }

    fn close(&mut self) -> io::Result<()> {
        // What was read and not processed is read again by the next owner of its partition.
        self.reads = None;
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(())) | None => Ok(()),
            Some(Err(_)) => Err(io::Error::other("the thread of the consumer panicked")),
        }
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        // An error was returned by an explicit call of `close`, or nobody waits for it.
        let _ = self.close();
    }
}
