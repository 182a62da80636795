//! Options of the URLs.

use std::time::Duration;

use lookaside_client::{Config, PostgresConfig};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::options::UrlOptions;
use crate::{ConnectUrl, Error, Result};

/// The default of `batch_rows`: enough that the round trips of a batch do not count.
const BATCH_ROWS: usize = 5000;

/// The default of `batch_ms`.
const BATCH_MS: u64 = 50;

/// The default of `buffer_max`: several batches of rows of a kilobyte.
const BUFFER_MAX: usize = 16 << 20;

/// The least `buffer_max`: one block of the run.
const BUFFER_MAX_MIN: usize = 1 << 20;

/// How long an idle or silent connection is probed until it counts as lost, unless the URL says
/// otherwise: the systems' defaults are more than two hours.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;

/// The options of a sink.
pub(crate) struct SinkOptions {
    pub(crate) name: String,
    pub(crate) config: PostgresConfig,
    /// The table as SQL names it.
    pub(super) table: String,
    pub(super) conflict: Conflict,
    /// The columns that identify a row, instead of the primary key.
    pub(super) conflict_columns: Option<Vec<String>>,
    pub(super) extra: Extra,
    pub(crate) batch_rows: usize,
    pub(crate) batch_time: Duration,
    pub(crate) buffer_max: usize,
    /// Whether transactions also store the positions of the source.
    pub(crate) is_exactly_once: bool,
    /// The name of a followed file in the table of positions.
    pub(crate) source: Option<String>,
}

/// What happens to a row whose key the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// It is refused, as a constraint demands.
    Refuse,
    /// The columns that the result names are updated.
    Update,
    /// It is left out.
    Ignore,
}

/// What happens to members of a result that are not columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Refuse,
    Ignore,
}

const SINK_OPTIONS: [&str; 9] = [
    "table",
    "conflict",
    "conflict_columns",
    "extra",
    "delivery",
    "batch_rows",
    "batch_ms",
    "buffer_max",
    "source",
];

/// The settings of connections that a URL may have, as with `libpq`.
const CONNECTION_SETTINGS: [&str; 18] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "passfile",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
];

impl SinkOptions {
    pub(crate) fn new(url: &ConnectUrl) -> Result<Self> {
        let known = [&SINK_OPTIONS[..], &CONNECTION_SETTINGS].concat();
        let options = UrlOptions::new(url, &known)?;
        let name = options.name().to_owned();
        if url.paths().len() != 1 {
            let example = "postgres://localhost:5432/shop?table=clicks";
            return Err(Error::no_path(&name, "database", example));
        }
        let Some(table) = options.text("table").filter(|table| !table.is_empty()) else {
            let hint = "name the table, as in `?table=clicks` or `?table=public.clicks`";
            return Err(Error::missing_option(&name, "table", hint));
        };
        let conflict = match options.choice("conflict", &["refuse", "update", "ignore"])? {
            "update" => Conflict::Update,
            "ignore" => Conflict::Ignore,
            _ => Conflict::Refuse,
        };
        let conflict_columns = options.text("conflict_columns").map(|columns| {
            let columns = columns.split(',').filter(|column| !column.is_empty());
            columns.map(str::to_owned).collect::<Vec<_>>()
        });
        if conflict_columns.is_some() && conflict == Conflict::Refuse {
            let hint = "add `conflict=update` or `conflict=ignore`";
            return Err(Error::missing_option(&name, "conflict", hint));
        }
        let delivery = options.choice("delivery", &["at-least-once", "exactly-once"])?;
        let is_exactly_once = delivery == "exactly-once";
        let source = options.text("source").filter(|source| !source.is_empty());
        if source.is_some() && !is_exactly_once {
            let hint = "add `delivery=exactly-once`, or omit `source`";
            return Err(Error::missing_option(&name, "delivery", hint));
        }
        Ok(Self {
            is_exactly_once,
            source: source.map(str::to_owned),
            config: config(url)?,
            table: table.to_owned(),
            conflict,
            conflict_columns,
            extra: match options.choice("extra", &["refuse", "ignore"])? {
                "ignore" => Extra::Ignore,
                _ => Extra::Refuse,
            },
            batch_rows: options.at_least("batch_rows", BATCH_ROWS, 1, "rows")?,
            batch_time: Duration::from_millis(options.at_least(
                "batch_ms",
                BATCH_MS,
                0,
                "milliseconds",
            )?),
            buffer_max: options.at_least("buffer_max", BUFFER_MAX, BUFFER_MAX_MIN, "bytes")?,
            name,
        })
    }
}

/// How to connect; what the URL does not have comes from the environment, as with `libpq`.
fn config(url: &ConnectUrl) -> Result<PostgresConfig> {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut text = "postgres://".to_owned();
    if let Some((user, password)) = url.user() {
        text.push_str(&encode(user));
        if let Some(password) = password {
            text.push(':');
            text.push_str(&encode(password));
        }
        text.push('@');
    }
    text.push_str(url.hosts());
    text.push('/');
    text.push_str(&encode(&url.paths()[0]));
    let settings = url.options().iter();
    let settings = settings.filter(|(option, _)| CONNECTION_SETTINGS.contains(&&**option));
    for (index, (option, value)) in settings.enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(option);
        text.push('=');
        text.push_str(&encode(value));
    }
    let mut config = match text.parse::<Config>() {
        Ok(Config::Postgres(config)) => config,
        Ok(_) => unreachable!("the scheme is that of PostgreSQL"),
        Err(error) => return Err(Error::refused(&url.name(), &error.to_string(), None)),
    };
    let keepalives = &mut config.keepalives;
    keepalives.idle.get_or_insert(KEEPALIVE_IDLE);
    keepalives.interval.get_or_insert(KEEPALIVE_INTERVAL);
    keepalives.count.get_or_insert(KEEPALIVE_COUNT);
    config
        .application_name
        .get_or_insert("lookaside".to_owned());
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(url: &str) -> Result<SinkOptions> {
        SinkOptions::new(&url.parse().unwrap())
    }

    #[test]
    fn options_and_settings_are_told_apart() {
        let url = "postgresql://a%40b:p%2Fw@h:5433/shop%20x?table=s.%22T%22&conflict=update\
                   &conflict_columns=a,b&extra=ignore&batch_rows=7&batch_ms=8&buffer_max=2097152\
                   &sslmode=disable&keepalives_idle=5";
        let options = sink(url).unwrap();
        let config = &options.config;
        assert_eq!((&*config.user, &*config.database), ("a@b", "shop x"));
        assert_eq!(config.hosts[0].port, 5433);
        assert_eq!(config.password.as_ref().unwrap().expose(), "p/w");
        assert_eq!(config.keepalives.idle, Some(Duration::from_secs(5)));
        assert_eq!(config.keepalives.count, Some(KEEPALIVE_COUNT));
        assert_eq!(options.table, "s.\"T\"");
        assert_eq!(options.conflict, Conflict::Update);
        let columns = options.conflict_columns.as_deref().unwrap();
        assert_eq!(columns, ["a", "b"]);
        assert_eq!(options.extra, Extra::Ignore);
        assert_eq!((options.batch_rows, options.buffer_max), (7, 2 << 20));
        assert_eq!(options.batch_time, Duration::from_millis(8));
    }

    #[test]
    fn what_is_wrong_is_named_without_secrets() {
        for (url, expected) in [
            ("postgres://u:secret@h?table=t", "names no database"),
            ("postgres://u:secret@h/d", "needs the option `table`"),
            ("postgres://u:secret@h/d?tabel=t", "did you mean `table`?"),
            (
                "postgres://u:secret@h/d?table=t&conflict=x",
                "one of: refuse, update, ignore",
            ),
            (
                "postgres://u:secret@h/d?table=t&conflict_columns=a",
                "needs the option `conflict`",
            ),
            (
                "postgres://u:secret@h/d?table=t&extra=x",
                "one of: refuse, ignore",
            ),
            ("postgres://u:secret@h/d?table=t&batch_rows=0", "at least 1"),
            (
                "postgres://u:secret@h/d?table=t&buffer_max=9",
                "at least 1048576",
            ),
            ("postgres://u:secret@h/d?table=t&sslmode=x", "sslmode"),
            ("postgres://u:secret@h:x/d?table=t", "port"),
        ] {
            let error = sink(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
