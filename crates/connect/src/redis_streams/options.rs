//! Options of the URLs.

use std::fs;
use std::time::Duration;

use lookaside_stream::{MessageFraming, ResultMeta};
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, TlsCertificates,
};

use crate::options::{HEADER, Start, UrlOptions};
use crate::{ConnectUrl, Error, Result};

/// The default of `claim_idle_ms`: no consumer that is alive stays silent for a minute, and a
/// minute's delay after a crash is bearable.
const CLAIM_IDLE_MS: u64 = 60_000;

/// The least `claim_idle_ms`: entries under way are renewed four times in it.
const CLAIM_IDLE_MS_MIN: u64 = 1000;

/// The default of `pending_max`: a table of a few megabytes, renewed by some dozen commands.
const PENDING_MAX: usize = 65_536;

/// The default of `buffer_max`: many times what is under way in a round trip.
const BUFFER_MAX: usize = 8 << 20;

/// The least `buffer_max`: one block of the run.
const BUFFER_MAX_MIN: usize = 1 << 20;

/// The default of `field`.
const PAYLOAD_FIELD: &str = "payload";

/// The field with the key.
pub(super) const KEY_FIELD: &str = "key";

const DEFAULT_PORT: u16 = 6379;

/// The options of a source.
pub(super) struct SourceOptions {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) streams: Vec<String>,
    pub(super) group: String,
    pub(super) consumer: String,
    /// Where a new group begins.
    pub(super) start: String,
    pub(super) payload_field: String,
    pub(super) framing: MessageFraming,
    pub(super) claim_idle: Duration,
    pub(super) pending_max: usize,
}

/// The options of a sink.
pub(super) struct SinkOptions {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) stream: String,
    pub(super) payload_field: String,
    pub(super) meta: ResultMeta,
    pub(super) maxlen: Option<u64>,
    pub(super) buffer_max: usize,
}

const SOURCE_OPTIONS: [&str; 9] = [
    "group",
    "consumer",
    "start",
    "field",
    "framing",
    "claim_idle_ms",
    "pending_max",
    "db",
    "ca",
];

const SINK_OPTIONS: [&str; 7] = ["key", "topic", "field", "maxlen", "buffer_max", "db", "ca"];

impl SourceOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let options = UrlOptions::new(url, &SOURCE_OPTIONS)?;
        let name = url.name();
        if url.paths().is_empty() {
            let example = "redis://localhost:6379/clicks?group=NAME";
            return Err(Error::no_path(&name, "stream", example));
        }
        let given = |option| options.text(option).filter(|text| !text.is_empty());
        let Some(group) = given("group") else {
            return Err(Error::missing_option(
                &name,
                "group",
                "name the consumer group that shares the entries, as in `?group=lookaside`",
            ));
        };
        let Some(consumer) = given("consumer").map(str::to_owned).or_else(host_name) else {
            return Err(Error::missing_option(
                &name,
                "consumer",
                "name this consumer, so that its next run continues with its entries; each process \
                 of the group needs another name",
            ));
        };
        let what = "milliseconds";
        let idle_ms = options.at_least("claim_idle_ms", CLAIM_IDLE_MS, CLAIM_IDLE_MS_MIN, what)?;
        Ok(Self {
            client: client(url, &options)?,
            streams: url.paths().to_vec(),
            group: group.to_owned(),
            consumer,
            start: match options.start_or_time()? {
                Start::Latest => "$".to_owned(),
                // The identifier of an entry begins with its time.
                Start::Time(time) => before(time),
                _ => "0".to_owned(),
            },
            payload_field: payload_field(&options)?,
            framing: options.framing()?,
            claim_idle: Duration::from_millis(idle_ms),
            pending_max: options.at_least("pending_max", PENDING_MAX, 1, "entries")?,
            name,
        })
    }
}

impl SinkOptions {
    pub(super) fn new(url: &ConnectUrl) -> Result<Self> {
        let options = UrlOptions::with_prefixes(url, &SINK_OPTIONS, &[HEADER])?;
        let name = url.name();
        let [stream] = url.paths() else {
            let example = "redis://localhost:6379/clicks-rich";
            return Err(Error::no_path(&name, "stream", example));
        };
        let maxlen = options.at_least("maxlen", 0, 0, "entries")?;
        Ok(Self {
            client: client(url, &options)?,
            stream: stream.clone(),
            payload_field: payload_field(&options)?,
            meta: options.result_meta()?,
            maxlen: (maxlen > 0).then_some(maxlen),
            buffer_max: options.at_least("buffer_max", BUFFER_MAX, BUFFER_MAX_MIN, "bytes")?,
            name,
        })
    }
}

fn payload_field(options: &UrlOptions<'_>) -> Result<String> {
    let field = options.text("field").unwrap_or(PAYLOAD_FIELD);
    match field.is_empty() || field == KEY_FIELD {
        true => {
            let wanted = "the name of a field other than `key`";
            Err(Error::bad_option(options.name(), "field", field, wanted))
        }
        false => Ok(field.to_owned()),
    }
}

/// The name of this machine, which in a container is often that of the container.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A client that is not connected yet.
fn client(url: &ConnectUrl, options: &UrlOptions<'_>) -> Result<Client> {
    let name = options.name();
    let refused = |message: &str, hint| Error::refused(name, message, hint);
    if url.hosts().contains(',') {
        let hint = "name a single server; Redis Cluster and Sentinel are not supported";
        return Err(refused("it names several hosts", Some(hint)));
    }
    let Some((host, port)) = host_and_port(url.hosts()) else {
        return Err(refused("the port is not a number", None));
    };
    let ca = options.text("ca");
    let address = match url.scheme() {
        "rediss" => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        },
        _ if ca.is_some() => {
            return Err(refused(
                "the option `ca` needs TLS",
                Some("write rediss://"),
            ));
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    let db = options.parse("db", 0_u32, "the number of a database")?;
    let mut settings = RedisConnectionInfo::default().set_db(db.into());
    match url.user() {
        None => {}
        Some((_, None)) => {
            let hint = "write USER:PASSWORD@ or, without a user, :PASSWORD@";
            return Err(refused("the user has no password", Some(hint)));
        }
        Some((user, Some(password))) => {
            if !user.is_empty() {
                settings = settings.set_username(user);
            }
            settings = settings.set_password(password);
        }
    }
    let info = address.into_connection_info();
    let info = info.map(|info| info.set_redis_settings(settings));
    let client = info.and_then(|info| match ca {
        None => Client::open(info),
        Some(path) => {
            let certificates = TlsCertificates {
                client_tls: None,
                root_cert: Some(fs::read(path)?),
            };
            Client::build_with_tls(info, certificates)
        }
    });
    client.map_err(|error| match ca {
        Some(path) => refused(&format!("certificates of `{path}`: {error}"), None),
        None => refused(&error.to_string(), None),
    })
}

fn host_and_port(hosts: &str) -> Option<(String, u16)> {
    // An IPv6 address is in brackets.
    let (host, port) = match hosts.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (hosts, DEFAULT_PORT),
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Some((bare.unwrap_or(host).to_owned(), port))
}

/// The greatest identifier before those of a time in milliseconds.
fn before(time: i64) -> String {
    match time {
        0 => "0".to_owned(),
        time => format!("{}-{}", time - 1, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use lookaside_stream::MetaValue;

    use super::*;

    fn source(url: &str) -> Result<SourceOptions> {
        SourceOptions::new(&url.parse().unwrap())
    }

    fn sink(url: &str) -> Result<SinkOptions> {
        SinkOptions::new(&url.parse().unwrap())
    }

    #[test]
    fn options_are_read() {
        let url = "redis://u:secret@a:1/t,u?group=g&consumer=c&start=latest&framing=lines\
                   &field=body&claim_idle_ms=5000&pending_max=7&db=3";
        let options = source(url).unwrap();
        assert_eq!(options.streams, ["t", "u"]);
        assert_eq!((&*options.group, &*options.consumer), ("g", "c"));
        assert_eq!((&*options.start, &*options.payload_field), ("$", "body"));
        assert_eq!(options.framing, MessageFraming::Lines);
        assert_eq!(options.claim_idle, Duration::from_secs(5));
        assert_eq!(options.pending_max, 7);
        let info = options.client.get_connection_info();
        assert_eq!(info.addr(), &ConnectionAddr::Tcp("a".to_owned(), 1));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(info.redis_settings().password(), Some("secret"));
        let options = source("redis://a/t?group=g").unwrap();
        assert!(!options.consumer.is_empty());
        let options = source("redis://a/t?group=g&start=1970-01-01T00:00:02Z").unwrap();
        assert_eq!(options.start, "1999-18446744073709551615");
        let url = "rediss://[::1]/t?maxlen=9&key=user&topic='u'&header.a='c'";
        let options = sink(url).unwrap();
        assert_eq!(options.maxlen, Some(9));
        let expected = ResultMeta {
            key: Some(MetaValue::Field("user".to_owned())),
            topic: Some(MetaValue::Constant("u".to_owned())),
            timestamp: None,
            headers: vec![("a".to_owned(), MetaValue::Constant("c".to_owned()))],
        };
        assert_eq!(options.meta, expected);
        let address = options.client.get_connection_info().addr().to_string();
        assert_eq!(address, "::1:6379");
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for (url, expected) in [
            ("redis://a?group=g", "names no stream"),
            ("redis://a/t", "needs the option `group`"),
            ("redis://a/t?groop=g", "did you mean `group`?"),
            (
                "redis://a/t?group=g&start=now",
                "earliest, latest or a time",
            ),
            ("redis://a/t?group=g&start=7", "earliest, latest or a time"),
            ("redis://a/t?group=g&claim_idle_ms=9", "at least 1000"),
            ("redis://a/t?group=g&pending_max=0", "at least 1"),
            ("redis://a/t?group=g&field=key", "other than `key`"),
            (
                "redis://a/t?group=g&start=2026-11-28T10:00:00+01:00",
                "a + is written %2B",
            ),
            ("redis://a,b/t?group=g", "several hosts"),
            ("redis://a:x/t?group=g", "not a number"),
            ("redis://secret@a/t?group=g", "no password"),
            ("redis://a/t?group=g&ca=x", "needs TLS"),
            (
                "redis://:secret@a/t?group=g&db=x",
                "not the number of a database",
            ),
            (
                "redis://:secret@a/t?group=g&db=-1",
                "not the number of a database",
            ),
            ("rediss://a/t?group=g&ca=/none", "certificates of `/none`"),
        ] {
            let error = source(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
        for (url, expected) in [
            ("redis://a", "names no stream"),
            ("redis://a/t,u", "names no stream"),
            ("redis://a/t?maxlen=many", "option `maxlen`"),
            ("redis://a/t?buffer_max=1", "at least 1048576"),
            ("redis://a/t?group=g", "no option `group`"),
            ("redis://a/t?key='a", "a text in single quotes"),
            ("redis://a/t?key='", "a text in single quotes"),
            ("redis://a/t?header.a=", "a text in single quotes"),
            ("redis://a/t?topic=''", "not empty"),
            ("redis://a/t?header.=x", "`header.` is followed by a name"),
        ] {
            let error = sink(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }
}
