//! `[server]`: listeners, API keys and limits.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lookaside_http::Tls;
use lookaside_knowledge::{Config, Contract};

use super::DRAIN_TIMEOUT;
use super::rate::Rate;
use super::reader::Section;
use super::timeouts::{self, Timeouts};
use crate::failure::Failure;
use crate::keys::KeyHash;

/// The section's name.
pub(crate) const SERVER: &str = "server";

/// A larger thread count is taken for a typing error.
const THREAD_COUNT_MAX: u64 = 1024;

/// A batch of ten thousand parameter sets is about half a megabyte.
const BODY_SIZE_MAX: u64 = 8 << 20;

/// A body is one contiguous buffer.
const BODY_SIZE_MAX_MAX: u64 = 1 << 30;

/// Size of the encoded answers that all threads cache together: tens of thousands of a few hundred
/// bytes.
const ANSWERS_SIZE_MAX: u64 = 64 << 20;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Intervals are counted in nanoseconds; a higher rate would not limit anything anyway.
pub(crate) const PER_SECOND_MAX: u64 = 1_000_000_000;

const KEY_NAME_SIZE_MAX: usize = 64;

const LISTEN_WANTED: &str = "\"ADDRESS:PORT\" such as \"127.0.0.1:8300\", a port of that address \
                             such as \"8300\", \"unix:PATH\", or a list of those";

const KEYS: [&str; 15] = [
    "listen",
    "threads",
    "keys",
    "tls",
    "cors",
    "hosts",
    "query_rows_max",
    "body_size_max",
    "answers_size_max",
    "access_log",
    "error_detail",
    "watch",
    "drain_timeout_ms",
    "stream_count_max",
    "client_freshness",
];

/// Each stream has its own thread and session.
const STREAM_COUNT_LIMIT: u64 = 10_000;

/// The `[server]` section.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerConfig {
    /// `None` if the file does not set it.
    pub(crate) listen: Option<Vec<ListenAddress>>,
    /// Its position: `knowdb.toml:12`.
    pub(crate) listen_place: String,
    /// I/O threads; 0 means one per core.
    pub(crate) threads: usize,
    pub(crate) keys: Vec<KeyConfig>,
    pub(crate) tls: Option<TlsConfig>,
    /// Origins whose pages may read answers (CORS).
    pub(crate) cors: Vec<String>,
    /// Host names that requests without keys may use, in addition to those of the loopback
    /// interface.
    pub(crate) hosts: Vec<String>,
    /// `None` disables `POST /v1/query`.
    pub(crate) query_rows_max: Option<usize>,
    pub(crate) body_size_max: usize,
    pub(crate) answers_size_max: u64,
    /// `-` is standard error.
    pub(crate) access_log: Option<String>,
    /// The position of `access_log` in the file.
    pub(crate) access_log_place: String,
    /// Whether problem bodies contain the error messages of databases.
    pub(crate) error_detail: bool,
    pub(crate) watch: bool,
    /// From the first signal to the end of the process.
    pub(crate) drain_timeout: Duration,
    pub(crate) timeouts: Timeouts,
    /// The limit of concurrent event streams of the whole server; `None` derives it from the number
    /// of cores.
    pub(crate) stream_count_max: Option<u64>,
    /// How fresh an answer a client may demand.
    pub(crate) client_freshness: ClientFreshness,
}

/// How fresh an answer a client may demand by headers of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFreshness {
    /// Such headers have no effect.
    Off,
    /// As if the client demanded no less than this; zero if it may demand anything.
    AtLeast(Duration),
}

impl ClientFreshness {
    /// The contract that counts if a client demands one.
    pub(crate) fn bounded(self, demanded: Contract) -> Contract {
        let Self::AtLeast(least) = self else {
            return Contract::ANY;
        };
        Contract {
            within: demanded.within.map(|time| time.max(least)),
            ..demanded
        }
    }
}

/// Short enough for what a person does next, and no more than twenty queries a second for a key.
impl Default for ClientFreshness {
    fn default() -> Self {
        Self::AtLeast(Duration::from_millis(50))
    }
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// An API key and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyConfig {
    pub(crate) name: String,
    pub(crate) hash: KeyHash,
    /// `None` does not limit requests.
    pub(crate) rate: Option<Rate>,
    /// Whether the key may reload and run ad-hoc queries.
    pub(crate) admin: bool,
}

/// Certificate and key files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Their position in the file: `knowdb.toml:12`.
    pub(crate) place: String,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: None,
            listen_place: String::new(),
            threads: 0,
            keys: Vec::new(),
            tls: None,
            cors: Vec::new(),
            hosts: Vec::new(),
            query_rows_max: None,
            body_size_max: BODY_SIZE_MAX as usize,
            answers_size_max: ANSWERS_SIZE_MAX,
            access_log: None,
            access_log_place: String::new(),
            error_detail: false,
            watch: false,
            drain_timeout: DRAIN_TIMEOUT,
            timeouts: Timeouts::default(),
            stream_count_max: None,
            client_freshness: ClientFreshness::default(),
        }
    }
}

impl ListenAddress {
    /// `127.0.0.1:8300`, `[::1]:8300`, `8300` or `unix:PATH`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "write ADDRESS:PORT such as 127.0.0.1:8300, a port alone for \
                              127.0.0.1, or unix:PATH";
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(WANTED),
                path => Ok(Self::Unix(path.into())),
            };
        }
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self::Tcp(([127, 0, 0, 1], port).into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| WANTED)
    }

    /// Whether other machines can connect to it.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerConfig {
    /// Returns an error if other machines can reach one of `addresses` and no keys are configured.
    pub(crate) fn guard(&self, addresses: &[ListenAddress]) -> Result<(), Failure> {
        let open = addresses.iter().find(|address| address.is_open());
        let Some(open) = open.filter(|_| self.keys.is_empty()) else {
            return Ok(());
        };
        let message =
            format!("{open} can be reached from other machines, and no keys are configured");
        // An address given by a flag has no position in the file.
        let is_of_file = self.listen.as_ref().is_some_and(|all| all.contains(open));
        let message = match is_of_file {
            true => format!("{}: server.listen: {message}", self.listen_place),
            false => message,
        };
        Err(Failure::new(message).with_help(
            "generate one with `lookaside key new` and add the lines that it prints to \
             knowdb.toml; or listen on 127.0.0.1 behind a proxy that restricts access",
        ))
    }

    /// Returns an error for a Unix socket whose folder does not exist.
    pub(crate) fn guard_sockets(&self, addresses: &[ListenAddress]) -> Result<(), Failure> {
        for address in addresses {
            let ListenAddress::Unix(path) = address else {
                continue;
            };
            let Some(folder) = missing_folder(path) else {
                continue;
            };
            let message = format!("cannot listen on {address}: the folder {folder} does not exist");
            let is_of_file = self
                .listen
                .as_ref()
                .is_some_and(|all| all.contains(address));
            let message = match is_of_file {
                true => format!("{}: server.listen: {message}", self.listen_place),
                false => message,
            };
            return Err(Failure::new(message).with_help("create the folder, or name another one"));
        }
        Ok(())
    }

    /// Returns an error for an access log whose folder does not exist.
    pub(crate) fn guard_access_log(&self) -> Result<(), Failure> {
        let name = self.access_log.as_deref().filter(|name| *name != "-");
        let missing = name.and_then(|name| missing_folder(Path::new(name)));
        let (Some(name), Some(folder)) = (name, missing) else {
            return Ok(());
        };
        let message = format!(
            "{}: server.access_log: cannot write {name}: the folder {folder} does not exist",
            self.access_log_place
        );
        Err(Failure::new(message).with_help("create the folder, or name another one"))
    }

    /// Loads the certificate and its key.
    pub(crate) fn load_tls(&self) -> Result<Option<Tls>, Failure> {
        let load = |files: &TlsConfig| {
            Tls::from_files(&files.cert, &files.key).map_err(|error| {
                let message = format!("{}: server.tls: {error}", files.place);
                Failure::new(message).with_sources(&error)
            })
        };
        self.tls.as_ref().map(load).transpose()
    }

    /// The names of the changed keys that take effect only at a restart.
    pub(crate) fn changes_at_a_restart(&self, next: &Self) -> Vec<&'static str> {
        let files = |server: &Self| {
            let tls = server.tls.as_ref();
            tls.map(|files| (files.cert.clone(), files.key.clone()))
        };
        [
            ("listen", self.listen != next.listen),
            ("threads", self.threads != next.threads),
            ("tls", files(self) != files(next)),
            ("body_size_max", self.body_size_max != next.body_size_max),
            (
                "answers_size_max",
                self.answers_size_max != next.answers_size_max,
            ),
            ("access_log", self.access_log != next.access_log),
            ("watch", self.watch != next.watch),
            ("drain_timeout_ms", self.drain_timeout != next.drain_timeout),
            (
                "stream_count_max",
                self.stream_count_max != next.stream_count_max,
            ),
        ]
        .into_iter()
        .filter_map(|(key, is_changed)| is_changed.then_some(key))
        .chain(self.timeouts.changes(&next.timeouts))
        .collect()
    }
}

/// Checks the name of an API key; the error describes valid names.
pub(crate) fn key_name(name: &str) -> Result<(), &'static str> {
    let is_name =
        !name.is_empty() && name.len() <= KEY_NAME_SIZE_MAX && !name.chars().any(char::is_control);
    is_name
        .then_some(())
        .ok_or("must be a name for logs of 1 to 64 bytes, without control characters")
}

/// Reads the section; a file without it gives the defaults.
pub(crate) fn read_server(config: &Config) -> Result<ServerConfig, Failure> {
    let default = ServerConfig::default();
    let Some(section) = Section::top(config, SERVER) else {
        return Ok(default);
    };
    section.only(&[&KEYS[..], &timeouts::KEYS].concat())?;
    let listen = match section.strings_like("listen", LISTEN_WANTED)? {
        None => None,
        Some(texts) if texts.is_empty() => {
            return Err(section.bad("listen", "is empty; omit it for the default"));
        }
        Some(texts) => Some(
            texts
                .into_iter()
                .map(|text| read_place(config, &section, text))
                .collect::<Result<_, _>>()?,
        ),
    };
    let body_size_max = section.bytes("body_size_max", 1024, BODY_SIZE_MAX_MAX)?;
    let answers_size_max = section.bytes("answers_size_max", 0, 1 << 40)?;
    let drain_timeout = section.millis("drain_timeout_ms", 1, HOUR_MS)?;
    let query_rows_max = section.number("query_rows_max", 1, 10_000_000)?;
    Ok(ServerConfig {
        listen,
        listen_place: section.place("listen"),
        threads: section.number("threads", 1, THREAD_COUNT_MAX)?.unwrap_or(0) as usize,
        keys: read_keys(&section)?,
        tls: read_tls(config, &section)?,
        cors: read_origins(&section)?,
        hosts: read_hosts(&section)?,
        query_rows_max: query_rows_max.map(|rows| rows as usize),
        body_size_max: body_size_max.map_or(default.body_size_max, |size| size as usize),
        answers_size_max: answers_size_max.unwrap_or(default.answers_size_max),
        access_log: section.string("access_log")?.map(|text| match text {
            "-" => text.to_owned(),
            path => config.folder().join(path).display().to_string(),
        }),
        access_log_place: section.place("access_log"),
        error_detail: section.bool("error_detail")?.unwrap_or(false),
        watch: section.bool("watch")?.unwrap_or(false),
        drain_timeout: drain_timeout.unwrap_or(default.drain_timeout),
        timeouts: Timeouts::read(&section)?,
        client_freshness: read_client_freshness(&section)?,
        stream_count_max: section.number("stream_count_max", 1, STREAM_COUNT_LIMIT)?,
    })
}

fn owned(texts: Option<Vec<&str>>) -> Vec<String> {
    let texts = texts.unwrap_or_default();
    texts.into_iter().map(str::to_owned).collect()
}

fn read_place(
    config: &Config,
    section: &Section<'_>,
    text: &str,
) -> Result<ListenAddress, Failure> {
    let place = ListenAddress::parse(text)
        .map_err(|wanted| section.bad("listen", &format!("contains {text:?}; {wanted}")))?;
    Ok(match place {
        ListenAddress::Unix(path) => ListenAddress::Unix(config.folder().join(path)),
        tcp => tcp,
    })
}

fn read_client_freshness(section: &Section<'_>) -> Result<ClientFreshness, Failure> {
    let key = "client_freshness";
    let Some(text) = section.string(key)? else {
        return Ok(ClientFreshness::default());
    };
    match text.parse::<Contract>() {
        _ if text == "off" => Ok(ClientFreshness::Off),
        Ok(Contract {
            within: Some(least),
            ..
        }) => Ok(ClientFreshness::AtLeast(least)),
        // Not "any", although that is a contract: it would not say whether clients may demand one.
        _ => {
            let wanted =
                "must be \"off\", \"now\", or a time such as \"50ms\", \"2s\", \"1m\" or \"1h\"";
            Err(section.bad(key, &format!("is {text:?}, but {wanted}")))
        }
    }
}

fn read_keys(section: &Section<'_>) -> Result<Vec<KeyConfig>, Failure> {
    let mut keys: Vec<KeyConfig> = Vec::new();
    for key in section.sections("keys")? {
        key.only(&["name", "sha256", "per_second", "burst", "admin"])?;
        let make = "the line that `lookaside key new` prints";
        let name = key.needed_string("name", make)?;
        key_name(name).map_err(|wanted| key.bad("name", wanted))?;
        let hash = key.needed_string("sha256", make)?;
        let hash = KeyHash::parse(hash).ok_or_else(|| {
            let problem = "is not a SHA-256 in hexadecimal; `lookaside key new` makes a key and prints \
                           the line to put here";
            key.bad("sha256", problem)
        })?;
        if keys.iter().any(|other| other.name == name) {
            return Err(key.bad("name", &format!("{name:?} occurs twice")));
        }
        let per_second = key.number("per_second", 1, PER_SECOND_MAX)?;
        let burst = key.number("burst", 1, PER_SECOND_MAX)?;
        if burst.is_some() && per_second.is_none() {
            return Err(key.bad("burst", "requires per_second"));
        }
        keys.push(KeyConfig {
            name: name.to_owned(),
            hash,
            rate: per_second.map(|rate| Rate::new(rate, burst.unwrap_or(rate))),
            admin: key.bool("admin")?.unwrap_or(false),
        });
    }
    Ok(keys)
}

fn read_tls(config: &Config, section: &Section<'_>) -> Result<Option<TlsConfig>, Failure> {
    let Some(tls) = section.section("tls")? else {
        return Ok(None);
    };
    tls.only(&["cert", "key"])?;
    let file = |key: &str| -> Result<PathBuf, Failure> {
        let example = format!("{key} = \"{key}.pem\"");
        Ok(config.folder().join(tls.needed_string(key, &example)?))
    };
    Ok(Some(TlsConfig {
        cert: file("cert")?,
        key: file("key")?,
        place: section.place("tls"),
    }))
}

/// The parent folder of a file, if it does not exist.
fn missing_folder(file: &Path) -> Option<impl std::fmt::Display> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.filter(|folder| !folder.is_dir()).map(Path::display)
}

/// Host names, with or without a port.
fn read_hosts(section: &Section<'_>) -> Result<Vec<String>, Failure> {
    let hosts = owned(section.strings("hosts")?);
    for host in &hosts {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            let problem = format!(
                "holds {host:?}, which is not a host name; write lookups.example or \
                 lookups.example:8300, without scheme and path"
            );
            return Err(section.bad("hosts", &problem));
        }
    }
    Ok(hosts)
}

/// Origins are compared as text, so they must be spelled as browsers send them.
fn read_origins(section: &Section<'_>) -> Result<Vec<String>, Failure> {
    let origins = owned(section.strings("cors")?);
    for origin in &origins {
        let host = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"));
        let is_plain = host.is_some_and(|host| {
            let breaks =
                |c: char| c.is_ascii_uppercase() || c.is_whitespace() || "/?#@*".contains(c);
            !host.is_empty() && !host.contains(breaks)
        });
        if !is_plain {
            let problem = format!(
                "contains {origin:?}, which is not an origin; write https://app.example.com, in lower \
                 case and without a path"
            );
            return Err(section.bad("cors", &problem));
        }
    }
    Ok(origins)
}
