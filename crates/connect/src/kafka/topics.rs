//! What a sink knows of topics: how large their messages may be, and whether those exist that a
//! model names.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext};

use super::CREATION_TIMEOUT;
use super::context::Log;

/// How long the description of a topic may take. Without it, the library's limits apply.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The library's default of `batch.size`.
const BATCH_SIZE_MAX: u32 = 1_000_000;

/// The least `message.max.bytes` that the library takes.
const MESSAGE_SIZE_MIN: u32 = 1000;

/// After what time a topic is looked for again that does not exist.
const MISSING_TIMEOUT: Duration = Duration::from_secs(30);

/// Sets the limits of messages and batches to that of the topic, unless the URL sets them.
///
/// A broker refuses a batch as a whole, with all events in it, and the library refuses messages
/// that are larger than its own default, whatever the topic accepts.
pub(super) fn limit_sizes(config: &mut ClientConfig, name: &str, topic: &str) {
    let Some(size_max) = message_size_max(config, name, topic) else {
        return;
    };
    if config.get("message.max.bytes").is_none() {
        let size_max = size_max.clamp(MESSAGE_SIZE_MIN, 1_000_000_000);
        config.set("message.max.bytes", size_max.to_string());
    }
    if config.get("batch.size").is_none() {
        let size_max = size_max.clamp(1, BATCH_SIZE_MAX);
        config.set("batch.size", size_max.to_string());
    }
}

/// The topic's `max.message.bytes`, if the user may know it.
fn message_size_max(config: &ClientConfig, name: &str, topic: &str) -> Option<u32> {
    let mut config = config.clone();
    config.remove("transactional.id");
    let admin: AdminClient<Log> = config.create_with_context(Log::new(name)).ok()?;
    let options = AdminOptions::new().request_timeout(Some(DESCRIBE_TIMEOUT));
    let topics = [ResourceSpecifier::Topic(topic)];
    let described = block_on(admin.describe_configs(&topics, &options)).ok()?;
    let topic = described.into_iter().next()?.ok()?;
    topic.get("max.message.bytes")?.value.as_ref()?.parse().ok()
}

/// Waits for a future that other threads complete.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// The topics that results name, and whether they exist. The library waits without end for one that
/// does not, and everything behind it waits too.
#[derive(Default)]
pub(super) struct KnownTopics(Mutex<HashMap<Box<str>, Known>>);

#[derive(Clone, Copy)]
struct Known {
    exists: bool,
    since: Instant,
}

impl KnownTopics {
    /// Why no message can be written to the topic, if there is a reason. Asks until a broker
    /// answers, or `check` fails.
    pub(super) fn problem<C: ClientContext, E>(
        &self,
        client: &Client<C>,
        topic: &str,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        // The library may ask for such a name again and again.
        if !is_name(topic) {
            return Ok(Some(format!("{topic:?} is not a name of a topic")));
        }
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = topics.get(topic).copied();
        let known = known.filter(|known| known.exists || known.since.elapsed() < MISSING_TIMEOUT);
        let exists = match known {
            Some(known) => known.exists,
            None => loop {
                if let Some(exists) = exists(client, topic) {
                    let since = Instant::now();
                    topics.insert(topic.into(), Known { exists, since });
                    break exists;
                }
                check()?;
            },
        };
        Ok((!exists).then(|| format!("the topic {topic:?} does not exist")))
    }
}

/// Whether brokers accept the name: letters, digits, dots, underscores and dashes, at most 249.
fn is_name(topic: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&topic.len())
        && topic.bytes().all(is_name_byte)
        && !matches!(topic, "." | "..")
}

/// Whether a topic exists; `None` if no broker tells.
fn exists<C: ClientContext>(client: &Client<C>, topic: &str) -> Option<bool> {
    let begun = Instant::now();
    loop {
        let metadata = client.fetch_metadata(Some(topic), DESCRIBE_TIMEOUT);
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                let is_refused = error.rdkafka_error_code() == Some(RDKafkaErrorCode::InvalidTopic);
                return is_refused.then_some(false);
            }
        };
        let code = metadata.topics().first().and_then(|topic| topic.error());
        match code.map(RDKafkaErrorCode::from) {
            Some(RDKafkaErrorCode::InvalidTopic) => return Some(false),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition)
                if begun.elapsed() >= CREATION_TIMEOUT =>
            {
                return Some(false);
            }
            // A broker that creates topics by itself has just begun to.
            Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
                thread::sleep(CREATION_TIMEOUT / 10);
            }
            _ => return Some(true),
        }
    }
}
