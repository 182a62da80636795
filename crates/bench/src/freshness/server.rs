//! The PostgreSQL server that is measured, with the tables of the benchmark, and engines in front of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lookaside_client::postgres::blocking::Connection;
use lookaside_embedded::Postgres;
use lookaside_knowledge::{FeedStatus, Knowledge, Session, Statement};
use lookaside_value::{Answers, BatchQuery, Lookup, ParamBatch, Text, Value};
use serde::Serialize;
use tempfile::TempDir;

use super::Result;
use crate::progress::DownloadBar;

/// The schema of all that is created, and the publication.
pub(super) const SCHEMA: &str = "lookaside_bench_freshness";

/// The name of the provider.
pub(super) const PROVIDER: &str = "bench";

/// The lookup of all cases.
pub(super) const LOOKUP: &str =
    "select version from lookaside_bench_freshness.registers where id = :id";

/// The same for a plain connection.
pub(super) const PLAIN: &str =
    "select version from lookaside_bench_freshness.registers where id = $1";

/// `unrelated` is published, and no lookup reads it.
const CREATE: &str = "\
create schema lookaside_bench_freshness;
create table lookaside_bench_freshness.registers (
    id bigint primary key, version bigint not null, note text not null
);
create table lookaside_bench_freshness.unrelated (
    id bigint primary key, version bigint not null, note text not null
);
create publication lookaside_bench_freshness
    for table lookaside_bench_freshness.registers, lookaside_bench_freshness.unrelated;";

const DROP: &str = "\
drop publication if exists lookaside_bench_freshness;
drop schema if exists lookaside_bench_freshness cascade";

/// How long a change feed may take until it is live: a transaction of another program delays it.
const FEED_TIMEOUT: Duration = Duration::from_secs(30);

/// How often to look.
const FEED_POLL: Duration = Duration::from_millis(2);

/// Keys of one flight when caches are filled.
const WARM_BATCH: usize = 1000;

/// How the server is found or started.
#[derive(Clone, Debug)]
pub(super) struct ServerOptions<'a> {
    pub(super) url: Option<&'a str>,
    /// Of an embedded server.
    pub(super) fsync: bool,
    /// Where an embedded server with `fsync` has its data; a temporary folder by default.
    pub(super) path: Option<&'a Path>,
}

/// What a report says about the server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ServerNote {
    version: String,
    is_embedded: bool,
    fsync: String,
    synchronous_commit: String,
    /// Whether the data is in memory, as of a temporary server.
    data: &'static str,
}

impl ServerNote {
    pub(super) fn text(&self) -> String {
        let place = if self.is_embedded {
            "embedded"
        } else {
            "at a URL"
        };
        format!(
            "PostgreSQL {}, {place}; fsync {}, synchronous_commit {}, data {}",
            self.version, self.fsync, self.synchronous_commit, self.data
        )
    }
}

/// A server with the tables.
pub(super) struct FeedServer {
    pub(super) url: String,
    pub(super) note: ServerNote,
    /// Stopped before its folder is removed.
    embedded: Option<Postgres>,
    _folder: Option<TempDir>,
}

/// What an engine in front of the server is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineOptions {
    pub(super) has_feed: bool,
    pub(super) ttl: Duration,
    /// How many keys the caches have to hold.
    pub(super) key_count: u64,
}

/// An engine, and its only lookup.
pub(super) struct Engine {
    pub(super) knowledge: Knowledge,
    pub(super) statement: Statement,
}

impl FeedServer {
    pub(super) fn start(options: &ServerOptions<'_>) -> Result<Self> {
        let Some(url) = options.url else {
            return Self::start_embedded(options);
        };
        let server = Self::new(url.to_owned(), "unknown", None, None)?;
        Ok(server)
    }

    fn start_embedded(options: &ServerOptions<'_>) -> Result<Self> {
        let onoff = if options.fsync { "on" } else { "off" };
        // Commits with synchronous_commit = off are visible before they are in the stream.
        let mut builder = Postgres::builder()
            .logical_replication()
            .setting("fsync", onoff)
            .setting("synchronous_commit", "on")
            .setting("max_wal_size", "4GB")
            .setting("autovacuum_naptime", "10min")
            .progress(Arc::new(DownloadBar::new()))
            .tcp();
        let mut folder = None;
        let data;
        match (options.fsync, options.path) {
            // A temporary server has its data in memory, which would make fsync cost nothing.
            (true, path) => {
                let made = match path {
                    Some(path) => tempfile::tempdir_in(path)?,
                    None => tempfile::tempdir()?,
                };
                builder = builder.path(made.path().join("pg"));
                folder = Some(made);
                data = "in a folder";
            }
            (false, _) => {
                builder = builder.fresh_cluster();
                data = "where temporary servers are";
            }
        }
        let embedded = builder.start()?;
        let url = embedded.tcp_url().ok_or("it listens on TCP")?;
        Self::new(url, data, Some(embedded), folder)
    }

    fn new(
        url: String,
        data: &'static str,
        embedded: Option<Postgres>,
        folder: Option<TempDir>,
    ) -> Result<Self> {
        let mut connection = Connection::connect(&url)?;
        let mut setting = |name: &str| -> Result<String> {
            let row = connection.query_one(format!("show {name}"), &[])?;
            Ok(row.as_ref().get::<&str>(0)?.to_owned())
        };
        let note = ServerNote {
            version: setting("server_version")?,
            is_embedded: embedded.is_some(),
            fsync: setting("fsync")?,
            synchronous_commit: setting("synchronous_commit")?,
            data,
        };
        if setting("wal_level")? != "logical" {
            return Err("the server needs wal_level = logical".into());
        }
        connection.batch_execute(CREATE)?;
        Ok(Self {
            url,
            note,
            embedded,
            _folder: folder,
        })
    }

    pub(super) fn connect(&self) -> Result<Connection> {
        Ok(Connection::connect(&self.url)?)
    }

    /// Fills a table with the keys 1 to `key_count`, in version 0.
    pub(super) fn fill(&self, table: &str, key_count: u64) -> Result<()> {
        let mut connection = self.connect()?;
        connection.batch_execute(format!("truncate {SCHEMA}.{table}"))?;
        let sql = format!(
            "insert into {SCHEMA}.{table} select id, 0, 'a note about ' || id \
             from generate_series(1::bigint, $1) id"
        );
        connection.execute(sql, &[Value::Int(key_count.cast_signed())])?;
        connection.batch_execute(format!("vacuum analyze {SCHEMA}.{table}"))?;
        Ok(())
    }

    /// An engine with a live feed over one of two filled tables, and no lookup in the other one, `unrelated`.
    pub(super) fn engine_beside_unrelated(&self, key_count: u64) -> Result<Engine> {
        self.fill("registers", key_count)?;
        self.fill("unrelated", key_count)?;
        self.engine(EngineOptions {
            has_feed: true,
            ttl: Duration::from_secs(1800),
            key_count,
        })
    }

    /// An engine whose feed, if it has one, is live.
    pub(super) fn engine(&self, options: EngineOptions) -> Result<Engine> {
        // Read once: there are no reloads here.
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("knowdb.toml"), self.knowdb(options))?;
        let knowledge = Knowledge::open(folder.path())?;
        let statement = knowledge.prepare(LOOKUP)?;
        knowledge.query_first(&statement, &[Value::Int(1)])?;
        let engine = Engine {
            knowledge,
            statement,
        };
        if options.has_feed {
            engine.wait_for_feed()?;
        }
        Ok(engine)
    }

    /// The configuration of a project in front of this server.
    pub(super) fn knowdb(&self, options: EngineOptions) -> String {
        let feed = if options.has_feed { "auto" } else { "off" };
        let url = toml::Value::from(self.url.as_str());
        // One thread reads, and the transactions of one connection can be counted exactly. The sessions
        // share a quarter of the bytes.
        let (capacity, bytes) = (options.key_count * 2 + 1024, 1_u64 << 30);
        format!(
            "version = 2\n\
             [cache]\ncapacity = {capacity}\ncapacity_bytes = {bytes}\nttl_ms = {ttl}\n\
             [[provider.sqldb]]\nname = \"{PROVIDER}\"\nkind = \"postgres\"\nconnection_uri = {url}\n\
             pool_size = 1\nfeed = \"{feed}\"\nfeed_publication = \"{SCHEMA}\"\n\
             [lookups.register]\nsql = \"{LOOKUP}\"\nprovider = \"{PROVIDER}\"\nparams.id = \"int\"\n",
            ttl = options.ttl.as_millis(),
        )
    }
}

impl Drop for FeedServer {
    /// If the server is gone by now, or refuses, the tables are left behind.
    fn drop(&mut self) {
        if self.embedded.is_none()
            && let Ok(mut connection) = self.connect()
        {
            let _ = connection.batch_execute(DROP);
        }
    }
}

impl Engine {
    /// A session that has cached the keys 1 to `key_count`.
    pub(super) fn warm_session(&self, key_count: u64) -> Result<Session> {
        let mut session = self.knowledge.session();
        let statement = Lookup::prepare(&mut session, LOOKUP, &[Text::from("id")])?;
        let keys: Vec<i64> = (1..=key_count.cast_signed()).collect();
        let (mut params, mut answers) = (ParamBatch::new(1), Answers::new());
        for keys in keys.chunks(WARM_BATCH) {
            params.reset(1);
            keys.iter().for_each(|key| params.push([Value::Int(*key)]));
            session.answer(BatchQuery::first(statement), &params, &mut answers);
            for index in 0..answers.len() {
                (answers.row(index).map_err(Clone::clone)?).ok_or("a row is missing")?;
            }
        }
        Ok(session)
    }

    /// The state of the feed.
    pub(super) fn feed(&self) -> Result<FeedStatus> {
        let provider = self.knowledge.providers().into_iter().next();
        let feed = provider.and_then(|it| it.feed);
        feed.ok_or_else(|| "the engine has no change feed".into())
    }

    fn wait_for_feed(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            let feed = self.feed()?;
            if feed.statement_count > 0 && feed.lag.is_some() {
                return Ok(());
            }
            if begin.elapsed() > FEED_TIMEOUT {
                let reason = feed.reason.unwrap_or_default();
                return Err(format!("the change feed is {}: {reason}", feed.state).into());
            }
            thread::sleep(FEED_POLL);
        }
    }
}

/// The version in an answer.
pub(super) fn version(row: Option<&[Value]>) -> Result<i64> {
    match row {
        Some([Value::Int(version)]) => Ok(*version),
        other => Err(format!("the answer is not a version: {other:?}").into()),
    }
}
