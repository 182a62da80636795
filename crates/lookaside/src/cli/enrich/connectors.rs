//! Inputs and outputs of a run that are topics of a broker or tables, named by URLs.

use std::net::SocketAddr;
use std::path::Path;

use lookaside_connect::{ConnectUrl, LagReader, OpenedSource};
use lookaside_stream::{Mark, MessageFraming, OnNull, OutputFormat, Sink, Source};

use crate::failure::Failure;
use crate::webhook::{self, Webhook, WebhookEnd, WebhookOptions};

/// An open input.
pub(super) struct Input {
    pub(super) source: Source,
    pub(super) framing: MessageFraming,
    pub(super) on_null: OnNull,
    pub(super) lag: Option<LagReader>,
    /// The address that it listens on.
    pub(super) address: Option<SocketAddr>,
    pub(super) webhook_end: Option<WebhookEnd>,
}

impl Input {
    fn new(url: &ConnectUrl, opened: OpenedSource) -> Self {
        Self {
            source: Source::new().with_messages(&url.name(), opened.source),
            framing: opened.framing,
            on_null: opened.on_null,
            lag: opened.lag,
            address: None,
            webhook_end: None,
        }
    }

    pub(super) fn of_webhook(name: &str, opened: Webhook) -> Self {
        let source = Source::new().with_messages(name, opened.source);
        Self {
            address: Some(opened.address),
            webhook_end: Some(opened.end),
            ..Self::from(source)
        }
    }
}

impl From<Source> for Input {
    fn from(source: Source) -> Self {
        Self {
            address: source.local_addr(),
            source,
            framing: MessageFraming::default(),
            on_null: OnNull::default(),
            lag: None,
            webhook_end: None,
        }
    }
}

/// The URL in a text, if it is one of a connector.
pub(super) fn url(text: &str) -> Result<Option<ConnectUrl>, Failure> {
    if !ConnectUrl::is_one(text) {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| Failure::of_connector(&error))
}

/// Checks a source that a URL names; returns one line on what was found.
pub(super) fn check_source(url: &ConnectUrl) -> Result<String, Failure> {
    match WebhookOptions::is_of(url) {
        true => webhook::check(&WebhookOptions::new(url)?),
        false => {
            lookaside_connect::check_source(url).map_err(|error| Failure::of_connector(&error))
        }
    }
}

/// Checks a sink that a URL names; returns one line on what was found.
pub(super) fn check_sink(url: &ConnectUrl) -> Result<String, Failure> {
    lookaside_connect::check_sink(url).map_err(|error| Failure::of_connector(&error))
}

pub(super) fn open_source(url: &ConnectUrl) -> Result<Input, Failure> {
    let opened =
        lookaside_connect::open_source(url).map_err(|error| Failure::of_connector(&error))?;
    Ok(Input::new(url, opened))
}

/// Opens the input and the output of a run that are both connectors.
pub(super) fn open_pair(input: &ConnectUrl, output: &ConnectUrl) -> Result<(Input, Sink), Failure> {
    let opened = lookaside_connect::open_pair(input, output);
    let (source, sink) = opened.map_err(|error| Failure::of_connector(&error))?;
    let sink = Sink::messages(&output.name(), sink.sink, sink.meta);
    Ok((Input::new(input, source), sink))
}

pub(super) fn open_sink(url: &ConnectUrl) -> Result<Sink, Failure> {
    let opened =
        lookaside_connect::open_sink(url).map_err(|error| Failure::of_connector(&error))?;
    Ok(Sink::messages(&url.name(), opened.sink, opened.meta))
}

/// Opens the output of a run that follows a file; with the position where the file is continued, if
/// the output stores it.
pub(super) fn open_sink_of_followed(
    url: &ConnectUrl,
    followed: &Path,
) -> Result<(Sink, Option<Mark>), Failure> {
    let opened = lookaside_connect::open_sink_of_followed(url, followed);
    let (opened, mark) = opened.map_err(|error| Failure::of_connector(&error))?;
    let sink = Sink::messages(&url.name(), opened.sink, opened.meta);
    Ok((sink, mark))
}

/// Whether the URL of an output demands exactly-once delivery.
pub(super) fn is_exactly_once(output: &str) -> Result<bool, Failure> {
    let demands = |url: ConnectUrl| {
        let mut options = url.options().iter();
        options.any(|(name, value)| name == "delivery" && value == "exactly-once")
    };
    Ok(url(output)?.is_some_and(demands))
}

/// A text without the secrets that a URL may contain, for messages.
pub(super) fn shown(text: &str) -> String {
    match text.parse::<ConnectUrl>() {
        Ok(url) if ConnectUrl::is_one(text) => url.name(),
        Err(_) if ConnectUrl::is_one(text) => "the URL".to_owned(),
        _ => text.to_owned(),
    }
}

/// Refuses a run that would read what it writes.
pub(super) fn refuse_same_topic(input: &ConnectUrl, output: &ConnectUrl) -> Result<(), Failure> {
    let is_same = input.scheme() == output.scheme() && input.hosts() == output.hosts();
    match input
        .paths()
        .iter()
        .find(|topic| is_same && output.paths().contains(topic))
    {
        Some(topic) => {
            let message = format!("output {} is also the input {topic}", output.name());
            Err(Failure::usage(message).with_help("write to another topic"))
        }
        None => Ok(()),
    }
}

/// Refuses results that cannot be rows of a table.
pub(super) fn check_table(output: &str, format: &OutputFormat) -> Result<(), Failure> {
    if is_table(output)? && format.name() != "json" {
        let message = format!(
            "output {} takes rows from JSON, not from the format {}",
            shown(output),
            format.name()
        );
        return Err(Failure::usage(message).with_help("omit the format of the output"));
    }
    Ok(())
}

/// Refuses a table for rejects, which are the input as it is.
pub(super) fn refuse_table(reject: &str) -> Result<(), Failure> {
    if is_table(reject)? {
        let message = format!("{} is a table, and rejects are not rows", shown(reject));
        return Err(Failure::usage(message).with_help("write rejects to a file or a topic"));
    }
    Ok(())
}

fn is_table(text: &str) -> Result<bool, Failure> {
    Ok(url(text)?.is_some_and(|url| url.is_table()))
}
