//! Why all answers behind a change feed were invalidated.

use std::error::Error as _;
use std::fmt;

use lookaside_client::ErrorKind as ClientKind;

/// Why all answers of a provider were invalidated, as a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeedResetReason {
    /// A connection of the feed was lost, or could not be opened.
    ConnectionLost,
    /// The server, or its settings, do not permit the feed.
    Refused,
    /// The server did not answer a statement of the feed in time, or not as expected.
    ServerFailed,
    /// The stream of changes is not what the protocol says.
    StreamInvalid,
    /// The definition of something that statements depend on was changed.
    DefinitionChanged,
    /// Too many changes waited until the server showed them.
    QueueFull,
    /// The slot held back more of the server's log than the configuration permits.
    WalLimit,
}

impl FeedResetReason {
    pub(super) const ALL: [Self; 7] = [
        Self::ConnectionLost,
        Self::Refused,
        Self::ServerFailed,
        Self::StreamInvalid,
        Self::DefinitionChanged,
        Self::QueueFull,
        Self::WalLimit,
    ];

    /// The name in metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectionLost => "connection_lost",
            Self::Refused => "refused",
            Self::ServerFailed => "server_failed",
            Self::StreamInvalid => "stream_invalid",
            Self::DefinitionChanged => "definition_changed",
            Self::QueueFull => "queue_full",
            Self::WalLimit => "wal_limit",
        }
    }
}

impl fmt::Display for FeedResetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a stream of changes cannot be followed, or not any longer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) reason: FeedResetReason,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn refused(text: impl Into<String>) -> Self {
        Self::new(FeedResetReason::Refused, text)
    }

    pub(super) fn server(text: impl Into<String>) -> Self {
        Self::new(FeedResetReason::ServerFailed, text)
    }

    pub(super) fn invalid_stream(what: &str) -> Self {
        let text = format!("the stream is invalid: {what}");
        Self::new(FeedResetReason::StreamInvalid, text)
    }

    pub(super) fn interrupted() -> Self {
        let text = "the stream was interrupted";
        Self::new(FeedResetReason::ConnectionLost, text)
    }

    /// What is published was changed while the slot was created, so the stream may lack a table.
    pub(super) fn changed_at_start() -> Self {
        let text = "a definition was changed while the stream began";
        Self::new(FeedResetReason::DefinitionChanged, text)
    }

    /// A stream has the changes of what was published when it began.
    pub(super) fn publication_changed() -> Self {
        let text = "the publication was changed";
        Self::new(FeedResetReason::DefinitionChanged, text)
    }

    pub(super) fn queue_full() -> Self {
        let text = "too many changes wait until the server shows them";
        Self::new(FeedResetReason::QueueFull, text)
    }

    /// The slot was given up. A new one is created, which holds nothing back at first.
    pub(super) fn wal_limit(size: u64, size_max: u64) -> Self {
        let text = format!(
            "the replication slot held back {size} bytes of the server's log, more than \
             feed_wal_max = {size_max}; end transactions that have been writing for long, or \
             increase feed_wal_max"
        );
        Self::new(FeedResetReason::WalLimit, text)
    }

    /// The same, naming the key of the configuration whose value failed.
    pub(super) fn with_key(self, key: &str) -> Self {
        let text = format!("{key}: {}", self.text);
        Self { text, ..self }
    }

    fn new(reason: FeedResetReason, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
        }
    }
}

impl From<lookaside_client::Error> for Failure {
    fn from(error: lookaside_client::Error) -> Self {
        // Class 57P: an operator ends the session or the server, or it is starting.
        let state = error.sqlstate();
        let has_ended = state.is_some_and(|state| state.as_bytes().starts_with(b"57P"));
        let reason = match error.kind() {
            _ if has_ended || error.is_connection_lost() => FeedResetReason::ConnectionLost,
            ClientKind::Connection | ClientKind::Closed | ClientKind::Deadline => {
                FeedResetReason::ConnectionLost
            }
            ClientKind::Protocol | ClientKind::Limit => FeedResetReason::StreamInvalid,
            ClientKind::Canceled => FeedResetReason::ServerFailed,
            _ => FeedResetReason::Refused,
        };
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let next_text = next.to_string();
            // Some repeat their cause.
            if !text.contains(&next_text) {
                text = format!("{text}: {next_text}");
            }
            cause = next.source();
        }
        Self::new(reason, text)
    }
}
