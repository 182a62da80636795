//! Options of the URLs.

use std::time::Duration;

use lookaside_stream::ResultMeta;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::{HeaderName, HeaderValue};

use crate::options::UrlOptions;
use crate::{ConnectUrl, Error, Result};

/// The default of `batch_bytes`: many times what a request costs, and taken by most servers.
const BATCH_BYTES: usize = 1 << 20;

/// The default of `batch_ms`, a latency that few readers of these servers notice.
const BATCH_MS: u64 = 200;

/// The default of `batch_ms` for ClickHouse, which recommends about one insert per second.
const CLICKHOUSE_BATCH_MS: u64 = 1000;

/// The default of `buffer_max`: several batches.
const BUFFER_MAX: usize = 8 << 20;

/// The least `buffer_max`: one block of the run.
const BUFFER_MAX_MIN: usize = 1 << 20;

/// The default of `timeout_ms`: servers that are busy response within it.
const TIMEOUT_MS: u64 = 30_000;

/// What a path contains without being encoded, besides letters and digits.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b',')
    .remove(b':')
    .remove(b'@');

/// What a name or a value of a query contains without being encoded.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const COMMON: [&str; 7] = [
    "batch_bytes",
    "batch_ms",
    "buffer_max",
    "timeout_ms",
    "gzip",
    "ca",
    "key",
];

/// The options of a sink.
pub(super) struct SinkOptions {
    pub(super) name: String,
    pub(super) scheme: &'static str,
    /// The scheme, the host and the port of all requests.
    pub(super) origin: String,
    pub(super) has_tls: bool,
    pub(super) user: Option<(String, String)>,
    /// The path of the URL.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) query: Query,
    pub(super) meta: ResultMeta,
    /// Whether the key of a message identifies its document.
    pub(super) id_is_key: bool,
    pub(super) batch_bytes: usize,
    pub(super) batch_time: Duration,
    pub(super) buffer_max: usize,
    pub(super) timeout: Duration,
    pub(super) has_gzip: bool,
    pub(super) ca: Option<String>,
}

impl SinkOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let (scheme, own, query_prefix, default_batch_ms): (_, &[&str], _, _) = match url.scheme() {
            "clickhouse" => ("clickhouse", &["tls"], "setting.", CLICKHOUSE_BATCH_MS),
            "elasticsearch" => ("elasticsearch", &["tls", "id"], "query.", BATCH_MS),
            "https" => ("https", &[], "query.", BATCH_MS),
            _ => ("http", &[], "query.", BATCH_MS),
        };
        let known: Vec<_> = COMMON.iter().chain(own).copied().collect();
        let options = UrlOptions::with_prefixes(url, &known, &["header.", query_prefix])?;
        let name = url.name();
        let refused = |message: &str, hint| Error::refused(&name, message, Some(hint));
        if url.hosts().contains(',') {
            let hint = "name a single server, or a load balancer in front of several";
            return Err(refused("it names several hosts", hint));
        }
        let switch = |option| Ok::<_, Error>(options.choice(option, &["false", "true"])? == "true");
        let has_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => switch("tls")?,
        };
        let ca = options.text("ca").map(str::to_owned);
        if ca.is_some() && !has_tls {
            let hint = "write https://, or the option tls=true";
            return Err(refused("the option `ca` needs TLS", hint));
        }
        let user = match url.user() {
            None => None,
            Some((user, Some(password))) => Some((user.to_owned(), password.to_owned())),
            Some((_, None)) => {
                let hint = "write USER:PASSWORD@, with nothing after the colon for an empty one";
                return Err(refused("the user has no password", hint));
            }
        };
        let pairs = |prefix| {
            let pairs = options.with_prefix(prefix);
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            pairs.collect::<Vec<_>>()
        };
        let headers = pairs("header.");
        let is_header = |(name, value): &(String, String)| {
            HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
        };
        if let Some((header, _)) = headers.iter().find(|header| !is_header(header)) {
            let message = format!("`{header}` is not a header of HTTP, or its value is not");
            return Err(refused(&message, "write a name and one line of text"));
        }
        let is_line = |text: &String| HeaderValue::try_from(text).is_ok();
        if user
            .iter()
            .any(|(user, password)| !is_line(user) || !is_line(password))
        {
            let message = "the user or the password is not a line of text";
            return Err(refused(
                message,
                "correct the user and the password of the URL",
            ));
        }
        let id_is_key =
            scheme == "elasticsearch" && options.choice("id", &["position", "key"])? == "key";
        let buffer_max = options.at_least("buffer_max", BUFFER_MAX, BUFFER_MAX_MIN, "bytes")?;
        let batch_bytes =
            options.at_least("batch_bytes", BATCH_BYTES.min(buffer_max / 2), 1, "bytes")?;
        if batch_bytes > buffer_max / 2 {
            let hint = "raise buffer_max, or lower batch_bytes";
            return Err(refused("batch_bytes is more than half of buffer_max", hint));
        }
        let what = "milliseconds";
        let batch_ms = options.at_least("batch_ms", default_batch_ms, 0, what)?;
        let timeout_ms = options.at_least("timeout_ms", TIMEOUT_MS, 1, what)?;
        Ok(Self {
            origin: origin(scheme, has_tls, url.hosts()),
            scheme,
            has_tls,
            user,
            path: url.paths().join(","),
            headers,
            query: Query(pairs(query_prefix)),
            meta: ResultMeta {
                key: options.meta_value("key")?,
                ..ResultMeta::default()
            },
            id_is_key,
            batch_bytes,
            batch_time: Duration::from_millis(batch_ms),
            buffer_max,
            timeout: Duration::from_millis(timeout_ms),
            has_gzip: switch("gzip")?,
            ca,
            name,
        })
    }
}

/// The query of all requests.
#[derive(Clone)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// An encoded path with this query, after further names and values.
    pub(super) fn after(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut text = format!("/{}", utf8_percent_encode(path, PATH));
        let own = self.0.iter().map(|(name, value)| (&**name, &**value));
        for (index, (name, value)) in query.iter().copied().chain(own).enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            text.extend(utf8_percent_encode(name, QUERY));
            text.push('=');
            text.extend(utf8_percent_encode(value, QUERY));
        }
        text
    }

    /// What may be secret.
    pub(super) fn values(&self) -> impl Iterator<Item = &String> {
        self.0.iter().map(|(_, value)| value)
    }
}

/// The scheme, the host and the port, which have the defaults of the servers.
fn origin(scheme: &str, has_tls: bool, host: &str) -> String {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let port = match (scheme, has_tls) {
        _ if has_port => "",
        ("clickhouse", false) => ":8123",
        ("clickhouse", true) => ":8443",
        ("elasticsearch", _) => ":9200",
        _ => "",
    };
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{host}{port}")
}

#[cfg(test)]
mod tests {
    use lookaside_stream::MetaValue;

    use super::*;

    fn options(url: &str) -> Result<SinkOptions> {
        SinkOptions::new(&url.parse().unwrap())
    }

    #[test]
    fn options_are_read() {
        let url = "https://u:secret@a/in,1/x%20y?batch_bytes=1000&batch_ms=5&buffer_max=2000000\
                   &timeout_ms=7&gzip=true&header.X-Token=t%26&query.q=a+b&key=user";
        let options = options(url).unwrap();
        assert_eq!(options.origin, "https://a");
        let path = options.query.after(&options.path, &[("z", "1")]);
        assert_eq!(path, "/in,1/x%20y?z=1&q=a%20b");
        assert_eq!(options.user, Some(("u".to_owned(), "secret".to_owned())));
        assert_eq!(options.headers, [("X-Token".to_owned(), "t&".to_owned())]);
        assert_eq!((options.batch_bytes, options.buffer_max), (1000, 2_000_000));
        assert_eq!(options.batch_time, Duration::from_millis(5));
        assert_eq!(options.timeout, Duration::from_millis(7));
        assert_eq!(options.meta.key, Some(MetaValue::Field("user".to_owned())));
        assert!(options.has_gzip && options.has_tls);
    }

    #[test]
    fn ports_and_times_have_the_defaults_of_the_servers() {
        for (url, origin, batch_ms) in [
            ("http://a/x", "http://a", 200),
            ("clickhouse://a/d.t", "http://a:8123", 1000),
            ("clickhouse://a/d.t?tls=true", "https://a:8443", 1000),
            ("clickhouse://[::1]:9/d.t", "http://[::1]:9", 1000),
            (
                "elasticsearch://[::1]/i?tls=true",
                "https://[::1]:9200",
                200,
            ),
        ] {
            let options = options(url).unwrap();
            assert_eq!(options.origin, origin);
            assert_eq!(options.batch_time, Duration::from_millis(batch_ms));
        }
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for (url, expected) in [
            ("http://a,b/x", "several hosts"),
            ("http://secret@a/x", "no password"),
            ("http://a/x?ca=x", "needs TLS"),
            ("http://a/x?gzip=yes", "one of: false, true"),
            ("http://a/x?tls=true", "no option `tls`"),
            ("http://a/x?header.=secret", "no option `header.`"),
            ("http://a/x?header.A=secret%0a", "not a header"),
            ("http://a/x?header.A%20B=secret", "not a header"),
            ("http://a/x?batch_bytes=0", "at least 1"),
            ("http://a/x?batch_bytes=5000000", "half of buffer_max"),
            ("http://a/x?buffer_max=1", "at least 1048576"),
            ("http://a/x?batch=1", "there are: "),
            (
                "clickhouse://u:secret@a/d.t?query.a=b",
                "no option `query.a`",
            ),
            ("elasticsearch://a/i?id=offset", "one of: position, key"),
        ] {
            let error = options(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
