//! Options of the URLs.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ConnectOptions;
use lookaside_stream::{MessageFraming, ResultMeta};

use crate::options::{HEADER, Start, UrlOptions};
use crate::{ConnectUrl, Error, Result};

/// The default of `ack_wait_ms`, which is also that of the server: how long messages of a killed
/// process wait for another one.
const ACK_WAIT_MS: u64 = 30_000;

/// The least `ack_wait_ms`: progress is sent when half of it has passed.
const ACK_WAIT_MS_MIN: u64 = 1000;

/// The default of `pending_max`: a table of a few megabytes.
const PENDING_MAX: usize = 65_536;

/// The default of `buffer_max`: many times what is under way in a round trip.
const BUFFER_MAX: usize = 8 << 20;

/// The least `buffer_max`: one block of the run.
const BUFFER_MAX_MIN: usize = 1 << 20;

/// What a connection needs.
pub(super) struct ConnectionOptions {
    pub(super) name: String,
    pub(super) servers: Vec<String>,
    user: Option<(String, Option<String>)>,
    /// The text of the file with credentials, which is a secret.
    credentials: Option<String>,
    ca: Option<PathBuf>,
}

/// The options of a source.
pub(super) struct SourceOptions {
    pub(super) connection: ConnectionOptions,
    pub(super) stream: String,
    pub(super) durable: String,
    pub(super) subject: Option<String>,
    /// Where a new consumer begins.
    pub(super) start: Start,
    pub(super) framing: MessageFraming,
    pub(super) ack_wait: Duration,
    pub(super) pending_max: usize,
}

/// The options of a sink.
pub(super) struct SinkOptions {
    pub(super) connection: ConnectionOptions,
    pub(super) subject: String,
    pub(super) meta: ResultMeta,
    pub(super) buffer_max: usize,
}

const SOURCE_OPTIONS: [&str; 8] = [
    "durable",
    "subject",
    "start",
    "framing",
    "ack_wait_ms",
    "pending_max",
    "creds",
    "ca",
];

const SINK_OPTIONS: [&str; 5] = ["key", "topic", "buffer_max", "creds", "ca"];

impl SourceOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let options = UrlOptions::new(url, &SOURCE_OPTIONS)?;
        let name = url.name();
        let [stream] = url.paths() else {
            let example = "nats://localhost:4222/CLICKS?durable=NAME";
            return Err(Error::no_path(&name, "stream", example));
        };
        let is_name = |name: &&str| {
            !name.is_empty() && !name.contains(['.', '*', '>', '/', '\\', ' ', '\t', '\r', '\n'])
        };
        if !is_name(&&**stream) {
            return Err(Error::refused(
                &name,
                "it names a subject, not a stream",
                None,
            ));
        }
        let Some(durable) = options.text("durable").filter(is_name) else {
            return Err(Error::missing_option(
                &name,
                "durable",
                "name the durable consumer that keeps the position, without dots and spaces, as in \
                 `?durable=lookaside`",
            ));
        };
        let what = "milliseconds";
        let ack_wait_ms = options.at_least("ack_wait_ms", ACK_WAIT_MS, ACK_WAIT_MS_MIN, what)?;
        Ok(Self {
            stream: stream.clone(),
            durable: durable.to_owned(),
            subject: options.text("subject").map(str::to_owned),
            start: options.start_or_position("a sequence number of the stream")?,
            framing: options.framing()?,
            ack_wait: Duration::from_millis(ack_wait_ms),
            pending_max: options.at_least("pending_max", PENDING_MAX, 1, "messages")?,
            connection: ConnectionOptions::new(url, &options)?,
        })
    }
}

impl SinkOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let options = UrlOptions::with_prefixes(url, &SINK_OPTIONS, &[HEADER])?;
        let name = url.name();
        let [subject] = url.paths() else {
            let example = "nats://localhost:4222/clicks.rich";
            return Err(Error::no_path(&name, "subject", example));
        };
        if !is_subject(subject) {
            let message = "it names no subject that can be published to";
            return Err(Error::refused(&name, message, None));
        }
        Ok(Self {
            subject: subject.clone(),
            meta: options.result_meta()?,
            buffer_max: options.at_least("buffer_max", BUFFER_MAX, BUFFER_MAX_MIN, "bytes")?,
            connection: ConnectionOptions::new(url, &options)?,
        })
    }
}

/// Whether messages can be published to a subject: it has no wildcards.
pub(super) fn is_subject(subject: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty() && token != "*" && token != ">" && !token.contains(char::is_whitespace)
    };
    subject.split('.').all(is_token)
}

impl ConnectionOptions {
    fn new(url: &ConnectUrl, options: &UrlOptions<'_>) -> Result<Self> {
        let credentials = match options.text("creds") {
            None => None,
            Some(path) => Some(fs::read_to_string(path).map_err(|error| {
                Error::refused(
                    options.name(),
                    &format!("credentials of `{path}`: {error}"),
                    None,
                )
            })?),
        };
        let user = url.user();
        Ok(Self {
            name: url.name(),
            servers: url.hosts().split(',').map(str::to_owned).collect(),
            user: user.map(|(user, password)| (user.to_owned(), password.map(str::to_owned))),
            credentials,
            ca: options.text("ca").map(PathBuf::from),
        })
    }

    pub(super) fn settings(&self) -> Result<ConnectOptions> {
        let mut settings = match &self.user {
            None => ConnectOptions::new(),
            Some((token, None)) => ConnectOptions::with_token(token.clone()),
            Some((user, Some(password))) => {
                ConnectOptions::with_user_and_password(user.clone(), password.clone())
            }
        };
        if let Some(credentials) = &self.credentials {
            settings = settings.credentials(credentials).map_err(|_| {
                let message = "the file of the option `creds` has no credentials of NATS";
                Error::refused(
                    &self.name,
                    message,
                    Some("make it with `nsc generate creds`"),
                )
            })?;
        }
        Ok(match &self.ca {
            None => settings,
            Some(ca) => settings.add_root_certificates(ca.clone()).require_tls(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let url = "nats://u:secret@a:1,b/T?durable=d&subject=t.*&start=latest&framing=lines\
                   &ack_wait_ms=5000&pending_max=7";
        let options = SourceOptions::new(&url.parse().unwrap()).unwrap();
        assert_eq!((&*options.stream, &*options.durable), ("T", "d"));
        assert_eq!(options.subject.as_deref(), Some("t.*"));
        assert_eq!((options.start, options.pending_max), (Start::Latest, 7));
        assert_eq!(options.ack_wait, Duration::from_secs(5));
        assert_eq!(options.framing, MessageFraming::Lines);
        assert_eq!(options.connection.servers, ["a:1", "b"]);
        let shown = format!("{:?}", options.connection.settings().unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for (url, expected) in [
            ("nats://a?durable=d", "names no stream"),
            ("nats://a/T,U?durable=d", "names no stream"),
            ("nats://a/t.u?durable=d", "names a subject, not a stream"),
            ("nats://secret@a/T", "needs the option `durable`"),
            ("nats://a/T?durable=a.b", "needs the option `durable`"),
            ("nats://a/T?durabel=d", "did you mean `durable`?"),
            (
                "nats://a/T?durable=d&start=now",
                "earliest, latest or a sequence",
            ),
            (
                "nats://a/T?durable=d&start=0",
                "earliest, latest or a sequence",
            ),
            ("nats://a/T?durable=d&ack_wait_ms=9", "at least 1000"),
            ("nats://a/T?durable=d&creds=/none", "credentials of `/none`"),
        ] {
            let error = SourceOptions::new(&url.parse().unwrap())
                .map(|_| ())
                .unwrap_err();
            let error = error.to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
        for (url, expected) in [
            ("nats://a", "names no subject"),
            ("nats://a/t.*", "no subject that can be published to"),
            ("nats://a/t..u", "no subject that can be published to"),
            ("nats://a/t?durable=d", "no option `durable`"),
        ] {
            let error = SinkOptions::new(&url.parse().unwrap())
                .map(|_| ())
                .unwrap_err();
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
    }
}
