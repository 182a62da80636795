//! The database server that a benchmark queries: at a URL, or an embedded PostgreSQL.

use std::fs;
use std::sync::Arc;

use clap::Args;
use lookaside_client::{Config, Environment, Pool, PoolOptions};
use lookaside_embedded::Postgres;
use lookaside_knowledge::Knowledge;
use lookaside_value::Value;
use tokio::runtime::Runtime;

use super::Result;
use crate::progress::DownloadBar;

/// The table of all benchmarks.
pub(super) const TABLE: &str = "lookaside_bench_kv";

/// One row by its key, in the form of the facade.
pub(super) const FACADE_SQL: &str = "select value from lookaside_bench_kv where id = :id";

/// Rows of one `insert`.
const INSERT_ROW_COUNT: u64 = 5000;

/// Options for the server that is queried.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArguments {
    /// The server to query, as postgres://… or mysql://… [default: an embedded PostgreSQL, over TCP]
    ///
    /// The benchmark creates a table lookaside_bench_kv there, and drops it at its end.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Keep the table, so that the next run does not have to fill it.
    #[arg(long, requires = "url")]
    keep: bool,
}

/// A server with the table.
pub(super) struct BenchTarget {
    pub(super) config: Config,
    /// The URL, including the password.
    url: String,
    /// The name of the server, for the report.
    pub(super) server: String,
    /// Whether the table is kept.
    keeps: bool,
    /// Stopped when the benchmark ends.
    embedded: Option<Postgres>,
}

impl BenchTarget {
    /// Connects to the server, and fills the table with the rows 1 to `row_count`, unless it has
    /// that many.
    pub(super) fn open(arguments: &TargetArguments, row_count: u64) -> Result<Self> {
        let (url, embedded) = match &arguments.url {
            Some(url) => (url.clone(), None),
            None => {
                let progress = Arc::new(DownloadBar::new());
                let database = Postgres::builder().progress(progress).tcp().start()?;
                (
                    database.tcp_url().ok_or("it listens on TCP")?,
                    Some(database),
                )
            }
        };
        let mut target = Self {
            config: Config::parse(&url, &Environment::of_process())?,
            url,
            server: String::new(),
            keeps: arguments.keep,
            embedded,
        };
        let runtime = current_thread()?;
        runtime.block_on(target.fill(row_count))?;
        Ok(target)
    }

    async fn fill(&mut self, row_count: u64) -> Result<()> {
        let pool = Pool::new(self.config.clone(), PoolOptions::default());
        let version = pool.query("select version()", &[]).await?;
        let version = version.rows.row(0)[0].to_text().to_string();
        self.server = match version.split_once(" on ") {
            Some((server, _)) => server.to_owned(),
            None if version.contains("MariaDB") => version,
            None => format!("MySQL {version}"),
        };
        let create = format!(
            "create table if not exists {TABLE} (id bigint primary key, value varchar(64) not null)"
        );
        pool.query(create, &[]).await?;
        let count = pool
            .query(format!("select count(*) from {TABLE}"), &[])
            .await?;
        if count.rows.row(0)[0].as_int() != Some(row_count.cast_signed()) {
            pool.query(format!("truncate table {TABLE}"), &[]).await?;
            for first in (1..=row_count).step_by(INSERT_ROW_COUNT as usize) {
                let last = row_count.min(first + INSERT_ROW_COUNT - 1);
                let rows: Vec<String> = (first..=last)
                    .map(|id| format!("({id},'value_{id}')"))
                    .collect();
                let insert = format!("insert into {TABLE} values {}", rows.join(","));
                pool.query(insert, &[]).await?;
            }
            if self.is_postgres() {
                pool.query(format!("vacuum analyze {TABLE}"), &[]).await?;
            }
        }
        pool.close().await;
        Ok(())
    }

    pub(super) fn is_postgres(&self) -> bool {
        matches!(self.config, Config::Postgres(_))
    }

    /// The engine with this server as its only provider.
    pub(super) fn knowledge(&self, pool_size: u16, caches: Caches) -> Result<Knowledge> {
        // Read once: there are no reloads here.
        let folder = tempfile::tempdir()?;
        let kind = if self.is_postgres() {
            "postgres"
        } else {
            "mysql"
        };
        let url = toml::Value::from(self.url.as_str());
        let enabled = caches == Caches::On;
        let text = format!(
            "version = 2\n[cache]\nenabled = {enabled}\ncapacity = 1000000\nttl_ms = 3600000\n\
             [provider.sqldb]\nkind = {kind:?}\nconnection_uri = {url}\npool_size = {pool_size}\n"
        );
        fs::write(folder.path().join("knowdb.toml"), text)?;
        Ok(Knowledge::open(folder.path())?)
    }
}

impl Drop for BenchTarget {
    /// If the server is gone by now, or refuses, the table is kept, and the next run uses it.
    fn drop(&mut self) {
        if self.keeps || self.embedded.is_some() {
            return;
        }
        let Ok(runtime) = current_thread() else {
            return;
        };
        let pool = Pool::new(self.config.clone(), PoolOptions::default());
        runtime.block_on(async {
            let _ = pool
                .query(format!("drop table if exists {TABLE}"), &[])
                .await;
            pool.close().await;
        });
    }
}

/// Whether an engine caches answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caches {
    Off,
    On,
}

/// A runtime on the caller's thread.
pub(super) fn current_thread() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime)
}

/// Integers as parameters.
pub(super) fn int_params(keys: &[i64]) -> Vec<Value> {
    keys.iter().map(|&key| Value::Int(key)).collect()
}
