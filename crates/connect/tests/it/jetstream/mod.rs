//! NATS: a server of its own for tests that stop it, and one that the others share.

mod consumers;
mod failures;
mod messages;

use std::collections::{BTreeMap, HashMap};

use async_nats::jetstream::consumer::{self, AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, Context, stream};
use async_nats::{ConnectOptions, HeaderMap};
use lookaside_testing::NatsServer;
use tokio::runtime::Runtime;

use super::running::{Running, start, start_with, try_sink, try_source, unique};

/// A client for tests.
struct Client {
    runtime: Runtime,
    context: Context,
}

/// A message as it was found in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    subject: String,
    payload: String,
    headers: BTreeMap<String, String>,
}

impl Client {
    fn new(server: &NatsServer) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // The context starts a task.
        let context = runtime.block_on(async {
            let client = ConnectOptions::new().connect(server.address());
            jetstream::new(client.await.unwrap())
        });
        Self { runtime, context }
    }

    /// Creates a stream of the subjects that begin with its name, and returns the name.
    fn create_stream(&self) -> String {
        self.create_stream_of(-1)
    }

    /// As [`Self::create_stream`], with a limit of the size of messages.
    fn create_stream_of(&self, max_message_size: i32) -> String {
        let name = unique("S");
        let config = stream::Config {
            name: name.clone(),
            subjects: vec![format!("{name}.>")],
            max_message_size,
            ..stream::Config::default()
        };
        self.runtime
            .block_on(self.context.create_stream(config))
            .unwrap();
        name
    }

    fn stream(&self, name: &str) -> stream::Stream {
        self.runtime
            .block_on(self.context.get_stream(name))
            .unwrap()
    }

    fn publish(&self, subject: &str, payload: &str, headers: &[(&str, &str)]) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, *value);
        }
        let subject = subject.to_owned();
        let payload = payload.to_owned().into();
        self.runtime.block_on(async {
            let published = self
                .context
                .publish_with_headers(subject, map, payload)
                .await;
            published.unwrap().await.unwrap();
        });
    }

    /// Publishes events with numbers.
    fn publish_numbers(&self, subject: &str, first: usize, count: usize) {
        self.runtime.block_on(async {
            let mut acknowledgements = Vec::new();
            for n in first..first + count {
                let mut headers = HeaderMap::new();
                headers.insert("key", format!("key {}", n % 7));
                headers.insert("trace", format!("t{n}"));
                let payload = format!("{{\"n\":{n}}}").into();
                let subject = subject.to_owned();
                let published = self.context.publish_with_headers(subject, headers, payload);
                acknowledgements.push(published.await.unwrap());
            }
            for acknowledgement in acknowledgements {
                acknowledgement.await.unwrap();
            }
        });
    }

    /// All messages of a stream.
    fn messages(&self, name: &str) -> Vec<Found> {
        let stream = self.stream(name);
        let last = stream.cached_info().state.last_sequence;
        let found = (1..=last).map(|sequence| {
            let found = self
                .runtime
                .block_on(stream.get_raw_message(sequence))
                .unwrap();
            let headers = found.headers.iter().map(|(name, values)| {
                let value = values.last().unwrap();
                (name.to_string(), value.to_string())
            });
            Found {
                subject: found.subject.to_string(),
                payload: String::from_utf8(found.payload.to_vec()).unwrap(),
                headers: headers.filter(|(name, _)| name != "Nats-Msg-Id").collect(),
            }
        });
        found.collect()
    }

    fn payloads(&self, name: &str) -> Vec<String> {
        let found = self.messages(name).into_iter();
        found.map(|found| found.payload).collect()
    }

    /// How often each payload is in a stream.
    fn counts(&self, name: &str) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for payload in self.payloads(name) {
            *counts.entry(payload).or_default() += 1;
        }
        counts
    }

    /// How many messages wait for an acknowledgement, and how many of them were delivered again.
    fn pending(&self, name: &str, durable: &str) -> (usize, usize) {
        let info = self.consumer_info(name, durable);
        (info.num_ack_pending, info.num_redelivered)
    }

    fn consumer_info(&self, name: &str, durable: &str) -> consumer::Info {
        let stream = self.stream(name);
        self.runtime
            .block_on(stream.consumer_info(durable))
            .unwrap()
    }

    fn create_consumer(&self, name: &str, config: pull::Config) -> PullConsumer {
        let stream = self.stream(name);
        self.runtime
            .block_on(stream.create_consumer(config))
            .unwrap()
    }
}

fn durable(name: &str) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ..pull::Config::default()
    }
}
