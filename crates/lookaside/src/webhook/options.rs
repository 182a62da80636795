//! The options of a URL such as `http://0.0.0.0:8080/events?token=SECRET`.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use lookaside_connect::{ConnectUrl, UrlOptions};

use crate::failure::Failure;
use crate::keys::KeyHash;

/// The default of `body_max`: what most senders of batches stay below, and what one I/O thread
/// decodes in some hundredths of a second.
const BODY_MAX: usize = 8 << 20;

/// The default of `buffer_max`: eight of the largest bodies.
const BUFFER_MAX: u64 = 64 << 20;

/// The default of `timeout_ms`: what most senders of webhooks wait for at least.
const TIMEOUT_MS: u64 = 30_000;

/// The most that `timeout_ms` may be, a day: no client waits longer, and the clock does not overflow.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

const NAMES: [&str; 7] = [
    "body_max",
    "buffer_max",
    "framing",
    "headers",
    "key_header",
    "timeout_ms",
    "token",
];

/// An example of a URL, for messages.
const EXAMPLE: &str = "http://0.0.0.0:8080/events";

/// What those need who want to read a document with a `GET` request.
pub(super) const READ_BY_CURL: &str =
    "to read a document, pipe it in with `curl -sS URL |`, and name the input `-`";

/// The URL of the source, checked.
#[derive(Clone, Debug)]
pub(crate) struct WebhookOptions {
    /// The URL without options, for messages.
    pub(super) name: String,
    /// The host and the port to listen on.
    host: String,
    /// The path that events are sent to, decoded, with its slash.
    pub(super) path: String,
    /// The hash of the token that requests need.
    pub(super) token: Option<KeyHash>,
    pub(super) framing: BodyFraming,
    /// The most bytes of a body, also after decompression.
    pub(super) body_max: usize,
    /// The most bytes of the requests that are under way, at least `body_max`.
    pub(super) buffer_max: u64,
    /// How long a request waits for the delivery of its events.
    pub(super) timeout: Duration,
    /// The header whose value is the key of the events, in lower case.
    pub(super) key_header: Option<String>,
    /// The headers that models can read, in lower case.
    pub(super) headers: Vec<String>,
}

/// How a body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// Each line that is not empty is an event; of JSON also the elements of an array.
    Lines,
    /// The body is one event.
    Message,
}

impl WebhookOptions {
    /// Whether a URL is one of HTTP or HTTPS, which as an input is a source of this kind.
    pub(crate) fn is_of(url: &ConnectUrl) -> bool {
        matches!(url.scheme(), "http" | "https")
    }

    /// Checks a URL of HTTP or HTTPS.
    ///
    /// # Errors
    /// When the scheme is HTTPS, the address has no port, or an option is unknown or wrong.
    pub(crate) fn new(url: &ConnectUrl) -> Result<Self, Failure> {
        let name = url.name();
        let refused = |message: &str, help: &str| {
            Err(Failure::usage(format!("input `{name}`: {message}")).with_help(help))
        };
        if url.scheme() == "https" {
            return refused(
                "https:// is not a source; requests are received without TLS",
                &format!(
                    "let a proxy in front of it do TLS, and name the input \
                     http://127.0.0.1:8080/events; {READ_BY_CURL}"
                ),
            );
        }
        if url.user().is_some() {
            return refused(
                "http:// as a source has no user and no password",
                &format!("requests need a token with the option `token`; {READ_BY_CURL}"),
            );
        }
        if url.hosts().contains(',') || !has_port(url.hosts()) {
            return refused(
                "it does not have one address with a port to listen on",
                &format!("write it as in {EXAMPLE}; {READ_BY_CURL}"),
            );
        }
        if url.paths().len() > 1 {
            return refused("it has several paths", "write a comma in the path as %2C");
        }
        let failed = |error| Failure::of_connector(&error);
        let options = UrlOptions::new(url, &NAMES).map_err(failed)?;
        let body_max = options.at_least("body_max", BODY_MAX, 1, "bytes");
        let body_max = body_max.map_err(failed)?;
        let default = BUFFER_MAX.max(body_max as u64);
        let buffer_max = options.at_least("buffer_max", default, body_max as u64, "bytes");
        let timeout_ms = options.at_least("timeout_ms", TIMEOUT_MS, 1, "milliseconds");
        let timeout_ms = timeout_ms.map_err(failed)?;
        if timeout_ms > TIMEOUT_MS_MAX {
            let message = format!("timeout_ms={timeout_ms} is more than a day");
            let help = format!("write at most {TIMEOUT_MS_MAX}");
            return refused(&message, &help);
        }
        let framing = options.choice("framing", &["lines", "message"]);
        let token = match options.text("token") {
            Some("") => return refused("the token is empty", "write it as in ?token=SECRET"),
            token => token.map(|token| KeyHash::of(token.as_bytes())),
        };
        let headers = options.text("headers").map(|headers| headers.split(','));
        let headers = headers.into_iter().flatten();
        let headers: Vec<_> = headers.map(str::to_ascii_lowercase).collect();
        let key_header = options.text("key_header").map(str::to_ascii_lowercase);
        for header in headers.iter().chain(&key_header) {
            if !is_header_name(header) {
                let message = format!("`{header}` is not the name of a header");
                return refused(
                    &message,
                    "write names as in ?headers=x-request-id,user-agent",
                );
            }
            if header == "authorization" && token.is_some() {
                return refused(
                    "the header `authorization` has the token, which would be in the metadata",
                    "name another header",
                );
            }
        }
        Ok(Self {
            host: url.hosts().to_owned(),
            path: format!("/{}", url.paths().first().map_or("", String::as_str)),
            token,
            framing: match framing.map_err(failed)? {
                "message" => BodyFraming::Message,
                _ => BodyFraming::Lines,
            },
            body_max,
            buffer_max: buffer_max.map_err(failed)?,
            timeout: Duration::from_millis(timeout_ms),
            key_header,
            headers,
            name,
        })
    }

    /// The URL without options, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The address to listen on; the first one, if the host is a name with several.
    ///
    /// # Errors
    /// When the name is not known.
    pub(super) fn address(&self) -> Result<SocketAddr, Failure> {
        let cannot = || {
            Failure::new(format!("input `{}`: the address is not known", self.name)).with_help(
                format!("write an address of this machine, as in {EXAMPLE}; {READ_BY_CURL}"),
            )
        };
        let mut found = self
            .host
            .to_socket_addrs()
            .map_err(|error| cannot().because(&error))?;
        found.next().ok_or_else(cannot)
    }
}

/// Whether a host ends with a port.
fn has_port(host: &str) -> bool {
    let port = host.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether a text is a token of RFC 9110, as names of headers are.
fn is_header_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<WebhookOptions, Failure> {
        WebhookOptions::new(&text.parse().unwrap())
    }

    #[test]
    fn options_have_defaults() {
        let found = options("http://127.0.0.1:0/hooks/a%20b").unwrap();
        assert_eq!(found.path, "/hooks/a b");
        assert_eq!((found.body_max, found.buffer_max), (8 << 20, 64 << 20));
        assert_eq!(found.timeout, Duration::from_secs(30));
        assert_eq!(found.framing, BodyFraming::Lines);
        assert_eq!(options("http://127.0.0.1:1").unwrap().path, "/");
        // The limit of all bodies follows that of one.
        let found = options("http://[::1]:1/?body_max=100000000").unwrap();
        assert_eq!(found.buffer_max, 100_000_000);
        let found = options("http://h:1/?headers=X-Tenant,a&key_header=X-Key").unwrap();
        assert_eq!(found.headers, ["x-tenant", "a"]);
        assert_eq!(found.key_header.as_deref(), Some("x-key"));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_token() {
        for (text, expected) in [
            ("https://127.0.0.1:1/e?token=hidden", "without TLS"),
            ("http://u:hidden@127.0.0.1:1/e", "no user"),
            ("http://127.0.0.1/e?token=hidden", "port"),
            ("http://a:1,b:1/e?token=hidden", "port"),
            ("http://a:1/e,f?token=hidden", "several paths"),
            ("http://a:1/e?tokn=hidden", "did you mean `token`"),
            ("http://a:1/e?token=", "is empty"),
            ("http://a:1/e?body_max=0", "at least 1"),
            ("http://a:1/e?body_max=9&buffer_max=8", "at least 9"),
            ("http://a:1/e?timeout_ms=x", "milliseconds"),
            ("http://a:1/e?timeout_ms=18446744073709551615", "than a day"),
            ("http://a:1/e?framing=x", "lines, message"),
            ("http://a:1/e?headers=a%20b", "not the name of a header"),
            (
                "http://a:1/e?headers=Authorization&token=hidden",
                "`authorization`",
            ),
        ] {
            let failure = options(text).unwrap_err();
            let shown = format!("{} {:?}", failure.message(), failure.help());
            assert!(shown.contains(expected), "{text}: {shown}");
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }
}
