//! The sections `[provider.sqldb]`: databases that are queried besides the tables of the folder.

use std::fmt;
use std::time::Duration;

use lookaside_client::{Config as Connection, Environment, PoolOptions};

use super::QUERY_TIMEOUT;
use super::feed::{FEED_KEYS, FeedConfig, read_feed};
use super::reader::Section;
use crate::Result;

/// The name of a provider without a name, and an alias of the default provider.
pub(crate) const DEFAULT_NAME: &str = "default";

/// The name of the folder's own tables.
pub(crate) const LOCAL_NAME: &str = "local";

/// The most connections of one provider; servers are usually configured for a few hundred in total.
const POOL_SIZE_MAX: u64 = 1024;

/// The most queries in flight on one connection; far more than one write can send.
const PIPELINE_DEPTH_MAX: u64 = 1024;

/// The size limit of an application name in bytes; PostgreSQL truncates longer ones.
const APPLICATION_NAME_SIZE_MAX: usize = 63;

/// One `[provider.sqldb]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderConfig {
    /// The name that qualifies its tables.
    pub name: String,
    /// The kind of the server, and its address.
    pub server: ProviderServer,
    /// The most connections.
    pub pool_size: usize,
    /// The number of idle connections that stay open.
    pub min_connections: usize,
    /// How long a query waits for a connection.
    pub acquire_timeout: Duration,
    /// How long an idle connection stays open; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// The maximal age of a connection; `None` for no limit.
    pub max_lifetime: Option<Duration>,
    /// How long a query may take, including the wait for a connection; `None` for no limit.
    pub query_timeout: Option<Duration>,
    /// How many queries may be in flight on a connection before another one is used or opened.
    pub pipeline_depth: usize,
    /// How long an answer may be overdue on a connection, beyond a round trip, before queries use
    /// another connection.
    pub stall: Duration,
    /// Whether the server is reached through a pooler such as PgBouncer in transaction mode.
    pub pooler: bool,
    /// The maximal age of a stale answer that is returned when the server fails; `None` for no
    /// stale answers.
    pub stale_if_error: Option<Duration>,
    /// The change feed that invalidates answers; `None` if their age alone counts.
    pub feed: Option<FeedConfig>,
    /// The settings of each session.
    pub postgres_session: PostgresSession,
    /// The line of the section in [`Config::file`](super::Config::file).
    pub line: usize,
}

/// The kind of a provider's server, and its address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProviderServer {
    /// A PostgreSQL or MySQL server.
    Remote(Box<Connection>),
    /// An embedded PostgreSQL of this process, which holds the folder's tables.
    Embedded {
        /// The requested version, if any.
        version: Option<String>,
        /// The extensions that its tables and queries need.
        extensions: Vec<String>,
    },
}

/// The settings of each PostgreSQL session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresSession {
    /// Whether prepared statements are planned once or each time; `None` leaves it to the server.
    pub plan_cache_mode: Option<&'static str>,
    /// Whether long queries are JIT-compiled.
    pub jit: Option<bool>,
    /// Shown in `pg_stat_activity`.
    pub application_name: Option<String>,
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderKind {
    /// A PostgreSQL server.
    Postgres,
    /// A MySQL or MariaDB server.
    Mysql,
    /// An embedded PostgreSQL of this process.
    Embedded,
}

impl ProviderConfig {
    /// The kind of its server.
    pub fn kind(&self) -> ProviderKind {
        match &self.server {
            ProviderServer::Remote(connection) => match **connection {
                Connection::Mysql(_) => ProviderKind::Mysql,
                _ => ProviderKind::Postgres,
            },
            ProviderServer::Embedded { .. } => ProviderKind::Embedded,
        }
    }
}

impl ProviderKind {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Embedded => "embedded",
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ProviderServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Does not show the password and the settings.
            Self::Remote(connection) => write!(f, "Remote({connection})"),
            Self::Embedded { version, .. } => write!(f, "Embedded({version:?})"),
        }
    }
}

impl PostgresSession {
    /// The SQL statements that apply the settings.
    pub(crate) fn statements(&self) -> Vec<String> {
        let mut statements = Vec::new();
        if let Some(mode) = self.plan_cache_mode {
            statements.push(format!("set plan_cache_mode = {mode}"));
        }
        if let Some(jit) = self.jit {
            let jit = if jit { "on" } else { "off" };
            statements.push(format!("set jit = {jit}"));
        }
        if let Some(name) = &self.application_name {
            // In an `E'…'` string, only quotes and backslashes need escaping.
            let name = name.replace('\\', "\\\\").replace('\'', "''");
            statements.push(format!("set application_name = E'{name}'"));
        }
        statements
    }
}

/// Reads all providers, the default one first.
pub(super) fn read_providers(root: &Section<'_>) -> Result<Vec<ProviderConfig>> {
    if !root.has("provider") {
        return Ok(Vec::new());
    }
    let provider = root.section("provider")?.expect("it is there");
    if provider.has("redis") {
        return Err(provider.bad(
            "redis",
            "is not supported; remove it, and look the values up in a table or a SQL database",
        ));
    }
    // The form before 0.14.1 has the same meaning.
    if provider.has("kind") || provider.has("connection_uri") {
        return Ok(vec![read_provider(&provider)?]);
    }
    provider.only(&["sqldb"])?;
    let sections = match provider.is_list("sqldb") {
        true => provider.sections("sqldb")?,
        false => provider.section("sqldb")?.into_iter().collect(),
    };
    if sections.is_empty() {
        let problem = "has no database; write [provider.sqldb] with kind and connection_uri";
        return Err(root.bad("provider", problem));
    }
    let mut providers: Vec<ProviderConfig> = Vec::new();
    for section in sections {
        let provider = read_provider(&section)?;
        if let Some(first) = providers.iter().find(|first| first.name == provider.name) {
            let problem = format!(
                "{:?} is already the name of the provider in line {}; use another name",
                provider.name, first.line
            );
            return Err(section.bad("name", &problem));
        }
        providers.push(provider);
    }
    let default = providers.iter().position(|it| it.name == DEFAULT_NAME);
    providers[..=default.unwrap_or(0)].rotate_right(1);
    Ok(providers)
}

fn read_provider(section: &Section<'_>) -> Result<ProviderConfig> {
    let keys = [
        "name",
        "kind",
        "connection_uri",
        "version",
        "extensions",
        "pool_size",
        "min_connections",
        "acquire_timeout_ms",
        "idle_timeout_ms",
        "max_lifetime_ms",
        "query_timeout_ms",
        "stale_if_error_ms",
        "pipeline_depth",
        "stall_ms",
        "pooler",
        "postgres_session",
    ];
    section.only(&[&keys[..], &FEED_KEYS].concat())?;
    let kinds = [
        ("postgres", ProviderKind::Postgres),
        ("mysql", ProviderKind::Mysql),
        ("embedded", ProviderKind::Embedded),
    ];
    let kind = section.word("kind", &kinds)?.ok_or_else(|| {
        let problem = "is missing; write \"postgres\", \"mysql\" or \"embedded\"";
        section.bad("kind", problem)
    })?;
    let pool_size = match section.u64("pool_size")? {
        Some(0) => return Err(section.bad("pool_size", "must be at least 1")),
        Some(size) if size > POOL_SIZE_MAX => {
            let problem = format!("is {size}; the maximum is {POOL_SIZE_MAX}");
            return Err(section.bad("pool_size", &problem));
        }
        size => usize::try_from(size.unwrap_or(8)).expect("it is small"),
    };
    let min_connections = section.u64("min_connections")?.unwrap_or(0);
    let defaults = PoolOptions::default();
    let millis = |key| -> Result<Option<Duration>> {
        let millis = section.u64(key)?.filter(|millis| *millis > 0);
        Ok(millis.map(Duration::from_millis))
    };
    let unset = |key, default| match section.has(key) {
        true => None,
        false => Some(default),
    };
    Ok(ProviderConfig {
        name: read_name(section)?,
        server: read_server(section, kind)?,
        pool_size,
        min_connections: usize::try_from(min_connections)
            .unwrap_or(usize::MAX)
            .min(pool_size),
        acquire_timeout: millis("acquire_timeout_ms")?.unwrap_or(Duration::from_secs(10)),
        idle_timeout: millis("idle_timeout_ms")?
            .or_else(|| unset("idle_timeout_ms", Duration::from_secs(60))),
        max_lifetime: millis("max_lifetime_ms")?,
        query_timeout: millis("query_timeout_ms")?
            .or_else(|| unset("query_timeout_ms", QUERY_TIMEOUT)),
        stale_if_error: millis("stale_if_error_ms")?,
        feed: read_feed(section, kind == ProviderKind::Postgres)?,
        pipeline_depth: read_pipeline_depth(section)?,
        stall: section
            .u64("stall_ms")?
            .map_or(defaults.stall, Duration::from_millis),
        pooler: read_pooler(section, kind)?,
        postgres_session: read_session(section, kind)?,
        line: section.line(),
    })
}

fn read_pipeline_depth(section: &Section<'_>) -> Result<usize> {
    match section.u64("pipeline_depth")? {
        Some(0) => Err(section.bad("pipeline_depth", "must be at least 1")),
        Some(depth) if depth > PIPELINE_DEPTH_MAX => {
            let problem = format!("is {depth}; the maximum is {PIPELINE_DEPTH_MAX}");
            Err(section.bad("pipeline_depth", &problem))
        }
        Some(depth) => Ok(usize::try_from(depth).expect("it is small")),
        None => Ok(PoolOptions::default().pipeline_depth),
    }
}

fn read_name(section: &Section<'_>) -> Result<String> {
    let Some(name) = section.str("name")? else {
        return Ok(DEFAULT_NAME.to_owned());
    };
    // It qualifies tables without quotes.
    let is_bare = |name: &str| {
        let mut bytes = name.bytes();
        let first = bytes.next();
        first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if !is_bare(name) {
        let problem = format!("{name:?} cannot qualify a table; use letters, digits and _");
        return Err(section.bad("name", &problem));
    }
    if [LOCAL_NAME, "main", "temp"].contains(&name) {
        let problem =
            format!("{name:?} is reserved for the folder's own tables; choose another name");
        return Err(section.bad("name", &problem));
    }
    Ok(name.to_owned())
}

fn read_server(section: &Section<'_>, kind: ProviderKind) -> Result<ProviderServer> {
    let refuse = |keys: &[&str], problem: &str| match keys.iter().find(|key| section.has(key)) {
        Some(key) => Err(section.bad(key, problem)),
        None => Ok(()),
    };
    let uri = section.str("connection_uri")?;
    if kind == ProviderKind::Embedded {
        let problem =
            "does not apply to kind = \"embedded\", which starts its own server; remove it";
        refuse(&["connection_uri"], problem)?;
        let extensions = section.strs("extensions")?;
        return Ok(ProviderServer::Embedded {
            version: section.str("version")?.map(str::to_owned),
            extensions: extensions.into_iter().map(str::to_owned).collect(),
        });
    }
    let problem = "belongs to kind = \"embedded\"; remove it";
    refuse(&["version", "extensions"], problem)?;
    let example = match kind {
        ProviderKind::Mysql => "mysql://USER@HOST/DATABASE",
        _ => "postgres://USER@HOST/DATABASE",
    };
    let Some(uri) = uri else {
        let problem = format!("is missing; write \"{example}\"");
        return Err(section.bad("connection_uri", &problem));
    };
    // Its errors never quote a password.
    let connection = Connection::parse(uri, &Environment::of_process())
        .map_err(|error| section.bad("connection_uri", &format!("cannot be used: {error}")))?;
    let found = match &connection {
        Connection::Mysql(_) => ProviderKind::Mysql,
        _ => ProviderKind::Postgres,
    };
    if found != kind {
        let problem = format!(
            "is the URL of a {found} server, but kind is {:?}",
            kind.name()
        );
        return Err(section.bad("connection_uri", &problem));
    }
    Ok(ProviderServer::Remote(Box::new(connection)))
}

/// Whether the sessions on the server are shared with other clients, which may change their
/// settings.
fn read_pooler(section: &Section<'_>, kind: ProviderKind) -> Result<bool> {
    if section.has("pooler") && kind != ProviderKind::Postgres {
        let problem = "is for kind = \"postgres\"; remove it";
        return Err(section.bad("pooler", problem));
    }
    let is_pooled = section.bool("pooler")?.unwrap_or(false);
    if is_pooled && section.has("postgres_session") {
        let problem = "cannot be set with pooler = true, because each transaction may run in \
                       another session; set it at the pooler, or for the user by `alter role`";
        return Err(section.bad("postgres_session", problem));
    }
    Ok(is_pooled)
}

fn read_session(section: &Section<'_>, kind: ProviderKind) -> Result<PostgresSession> {
    let Some(session) = section.section("postgres_session")? else {
        return Ok(PostgresSession::default());
    };
    if kind == ProviderKind::Mysql {
        let problem = "is for PostgreSQL, and kind is \"mysql\"; remove it";
        return Err(section.bad("postgres_session", problem));
    }
    session.only(&["plan_cache_mode", "jit", "application_name"])?;
    let modes = ["auto", "force_generic_plan", "force_custom_plan"].map(|mode| (mode, mode));
    let application_name = session.str("application_name")?;
    if let Some(name) = application_name {
        let is_long = name.len() > APPLICATION_NAME_SIZE_MAX;
        if is_long || name.chars().any(char::is_control) {
            let problem = format!(
                "must be at most {APPLICATION_NAME_SIZE_MAX} bytes without control characters"
            );
            return Err(session.bad("application_name", &problem));
        }
    }
    Ok(PostgresSession {
        plan_cache_mode: session.word("plan_cache_mode", &modes)?,
        jit: session.bool("jit")?,
        application_name: application_name.map(str::to_owned),
    })
}
