//! Streams of NATS JetStream, by a durable pull consumer.
//!
//! A source acknowledges each message when its results are delivered. While messages are under way
//! for longer, also because the sinks are blocked, it sends `+WPI` (work in progress) for them, far
//! before the consumer's `ack_wait` ends, so that the server delivers none of them again. What is
//! read and not delivered when the source is closed is returned to the server. All processes that
//! name the same durable consumer share its messages.
//!
//! The payload is the message's, the header `key` is the key, and all other headers are headers. The
//! header `nats-subject` is the subject, `nats-sequence` the sequence number in the stream.
//!
//! A sink publishes to a subject that a stream takes, and a message is delivered when the stream has
//! acknowledged it. The header `Nats-Msg-Id` has a number that is unique to the message and this run,
//! so that the stream stores a message once that is published again because its acknowledgement was
//! lost, within the stream's duplicate window. It is not made of the position in the input: two runs
//! that read the same topic, or lines of one message, would have the same ids, and the stream would
//! drop events. Headers whose names begin with `Nats-` are instructions to the server and are not
//! passed on: one of them empties the stream.
//!
//! # What can be lost
//!
//! A stream with several replicas acknowledges what a majority has. A server alone acknowledges what
//! it has written to a file, which it syncs every two minutes by default (`sync_interval` in its
//! configuration; `always` is possible): a crash of the machine, though not of the process, may lose
//! what came since.

mod consumer;
mod lag;
mod options;
mod sink;
mod under_way;
mod writer;

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, Event};
use lookaside_stream::OnNull;
use tokio::runtime::Runtime;
use tracing::{debug, info, warn};

use self::consumer::Consumer;
use self::options::{ConnectionOptions, SinkOptions, SourceOptions};
use self::sink::NatsSink;
use crate::options::Start;
use crate::read_queue::QueuedSource;
use crate::{ConnectUrl, Error, OpenedSink, OpenedSource, Result};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn open_source(url: &ConnectUrl) -> Result<OpenedSource> {
    let options = SourceOptions::new(url)?;
    let name = options.connection.name.clone();
    let framing = options.framing;
    let runtime = runtime(&name)?;
    let (context, consumer) = runtime.block_on(async {
        let context = connect(&options.connection).await?;
        let stream = find_stream(&context, &name, &options.stream).await?;
        let consumer = open_consumer(&stream, &options).await?;
        Ok((context, consumer))
    })?;
    let consumer = Consumer::new(&name, context.client(), consumer, &options);
    let source = QueuedSource::start(&name, "nats-source", move |queue| {
        let result = runtime.block_on(consumer.run(&queue));
        // A look-up of a host name may still be running.
        runtime.shutdown_background();
        result
    })?;
    Ok(OpenedSource {
        source: Box::new(source),
        framing,
        // Payloads are empty, not null.
        on_null: OnNull::Skip,
        lag: Some(lag::reader(options)),
    })
}

pub(crate) fn open_sink(url: &ConnectUrl) -> Result<OpenedSink> {
    let mut options = SinkOptions::new(url)?;
    let meta = std::mem::take(&mut options.meta);
    let runtime = runtime(&options.connection.name)?;
    let context = runtime.block_on(async {
        let context = connect(&options.connection).await?;
        find_stream_of(&context, &options).await?;
        Ok(context)
    })?;
    Ok(OpenedSink {
        sink: Box::new(NatsSink::open(runtime, context, options)?),
        meta,
    })
}

pub(crate) fn check_source(url: &ConnectUrl) -> Result<String> {
    let options = SourceOptions::new(url)?;
    let name = &options.connection.name;
    runtime(name)?.block_on(async {
        let context = connect(&options.connection).await?;
        let stream = find_stream(&context, name, &options.stream).await?;
        let count = stream.cached_info().state.messages;
        let plural = if count == 1 { "" } else { "s" };
        let consumer = match stream.consumer_info(&options.durable).await {
            Ok(info) => {
                let count = info.num_pending + info.num_ack_pending as u64;
                format!("consumer {} has {count} to read", options.durable)
            }
            Err(_) => format!("consumer {} will be created", options.durable),
        };
        let stream = &options.stream;
        Ok(format!(
            "{name} is available: stream {stream} with {count} message{plural}; {consumer}"
        ))
    })
}

pub(crate) fn check_sink(url: &ConnectUrl) -> Result<String> {
    let options = SinkOptions::new(url)?;
    let name = &options.connection.name;
    runtime(name)?.block_on(async {
        let context = connect(&options.connection).await?;
        let stream = find_stream_of(&context, &options).await?;
        Ok(format!(
            "{name} is available: stream {stream} takes the subject"
        ))
    })
}

/// A runtime for the connection of a source or a sink, whose thread drives it.
fn runtime(name: &str) -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(|error| Error::no_thread(name, &error))
}

async fn connect(options: &ConnectionOptions) -> Result<Context> {
    let name = &options.name;
    let connector = name.clone();
    let settings = options
        .settings()?
        .name("lookaside")
        .connection_timeout(CONNECT_TIMEOUT);
    let settings = settings.event_callback(move |event| {
        match event {
            Event::Disconnected => warn!(connector, "the connection is lost"),
            Event::Connected => info!(connector, "connected"),
            event => debug!(connector, "{event}"),
        }
        async {}
    });
    let client = settings.connect(&options.servers).await.map_err(|error| {
        let (reason, hint) = match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => (
                format!("the server refuses the user: {error}"),
                "correct the user and the password or the token of the URL, or the option `creds`",
            ),
            _ => (
                format!("no server answers: {error}"),
                "start the server, or correct the hosts of the URL",
            ),
        };
        Error::unavailable(name, &reason, hint)
    })?;
    Ok(jetstream::new(client))
}

async fn find_stream(context: &Context, name: &str, stream: &str) -> Result<Stream> {
    context
        .get_stream(stream)
        .await
        .map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(error) if error.code() == 404 => {
                let reason = format!("the stream `{stream}` does not exist");
                let hint = "create it first, as in `nats stream add CLICKS --subjects 'clicks.>'`";
                Error::unavailable(name, &reason, hint)
            }
            _ => no_jetstream(name, &error),
        })
}

/// The stream that takes the subject of a sink.
async fn find_stream_of(context: &Context, options: &SinkOptions) -> Result<String> {
    let (name, subject) = (&options.connection.name, &options.subject);
    context
        .stream_by_subject(subject)
        .await
        .map_err(|error| match error.kind() {
            GetStreamByNameErrorKind::NotFound => {
                let reason = format!("no stream takes the subject `{subject}`");
                let hint =
                    format!("create one, as in `nats stream add RESULTS --subjects {subject}`");
                Error::unavailable(name, &reason, &hint)
            }
            _ => no_jetstream(name, &error),
        })
}

fn no_jetstream(name: &str, error: &impl std::fmt::Display) -> Error {
    let reason = format!("JetStream is not available: {error}");
    let hint = "start the server with JetStream, as in `nats-server -js`, and allow the user its \
                API";
    Error::unavailable(name, &reason, hint)
}

/// Creates the consumer if it does not exist, and checks that it is one that can be used.
async fn open_consumer(stream: &Stream, options: &SourceOptions) -> Result<PullConsumer> {
    let name = &options.connection.name;
    let durable = &options.durable;
    let filter = options.subject.clone().unwrap_or_default();
    let config = pull::Config {
        durable_name: Some(durable.clone()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: options.ack_wait,
        max_ack_pending: i64::try_from(options.pending_max).unwrap_or(i64::MAX),
        filter_subject: filter.clone(),
        deliver_policy: match options.start {
            Start::Latest => DeliverPolicy::New,
            Start::Position(start_sequence) => DeliverPolicy::ByStartSequence { start_sequence },
            _ => DeliverPolicy::All,
        },
        ..pull::Config::default()
    };
    let refused = |problem: &str| {
        let reason = format!("the consumer `{durable}` {problem}");
        let hint = "name another one by the option `durable`, or remove it with `nats consumer rm`";
        Error::unavailable(name, &reason, hint)
    };
    let consumer = stream.get_or_create_consumer(durable, config).await;
    let consumer = consumer.map_err(|error| match error.kind() {
        ConsumerErrorKind::InvalidConsumerType => refused("is not a pull consumer"),
        _ => refused(&format!("cannot be opened: {error}")),
    })?;
    let found = &consumer.cached_info().config;
    if found.ack_policy != AckPolicy::Explicit {
        return Err(refused("does not take acknowledgements of single messages"));
    }
    if options.subject.is_some() && found.filter_subject != filter {
        return Err(refused(&format!(
            "has the filter `{}`",
            found.filter_subject
        )));
    }
    Ok(consumer)
}

fn is_connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}
