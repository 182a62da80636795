//! The server that a benchmark queries: an embedded one, or the one of a URL.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Answer, Environment};
use lookaside_embedded::{Postgres, VersionRequirement};
use lookaside_load::measure::AnswerHash;
use lookaside_value::{RowSet, Value};

use super::Result;
use super::target::PostgresTarget;
use crate::progress::DownloadBar;

/// The schema for everything that a benchmark creates; it is dropped afterwards.
const SCHEMA: &str = "lookaside_bench";

/// A setting of the server and its value.
type Setting = (String, String);

fn read_setting(text: &str) -> std::result::Result<Setting, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, such as work_mem=64MB".to_owned()),
    }
}

/// The server, the rounds and the output format.
#[derive(Debug, Args)]
pub(super) struct ServedArguments {
    /// Measure the server at this URL instead of an embedded one; makes and drops the schema
    /// lookaside_bench there
    #[arg(long, value_name = "URL", conflicts_with_all = ["pg_version", "set", "relaxed_durability"])]
    target: Option<String>,

    /// Which PostgreSQL to embed: a major version such as 17, or exactly one such as 17.11
    #[arg(long, value_name = "VERSION")]
    pg_version: Option<VersionRequirement>,

    /// A setting of the embedded server; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = read_setting)]
    set: Vec<Setting>,

    /// Let the embedded server acknowledge writes before they are on the disk
    #[arg(long)]
    relaxed_durability: bool,

    /// Put the embedded server's data into this new folder instead of the fastest place
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    path: Option<PathBuf>,

    /// Rounds after the warm-up round; the median is the result to quote
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) rounds: u16,

    /// Print one line of JSON per case
    #[arg(long)]
    pub(super) json: bool,
}

/// A running server, and how to reach it.
pub(super) struct ServedDatabase {
    pub(super) target: PostgresTarget,
    /// Whether it is an embedded one.
    is_ours: bool,
    /// Stopped when the benchmark ends.
    _server: Option<Postgres>,
}

impl ServedDatabase {
    /// Starts the embedded server, or only reads the URL.
    pub(super) fn start(arguments: &ServedArguments) -> Result<Self> {
        if let Some(url) = &arguments.target {
            return Ok(Self {
                target: PostgresTarget::parse(url, &Environment::of_process())?,
                is_ours: false,
                _server: None,
            });
        }
        let mut builder = Postgres::builder().progress(Arc::new(DownloadBar::new()));
        builder = match &arguments.path {
            Some(folder) => builder.path(folder),
            None => builder.fresh_cluster(),
        };
        if let Some(version) = arguments.pg_version {
            builder = builder.version(version);
        }
        if arguments.relaxed_durability {
            builder = builder.relaxed_durability();
        }
        for (name, value) in &arguments.set {
            builder = builder.setting(name, value);
        }
        let server = builder.start()?;
        Ok(Self {
            target: ours(&server)?,
            is_ours: true,
            _server: Some(server),
        })
    }

    /// Connects, with an empty schema of ours first in the search path.
    pub(super) fn connect(&self) -> Result<Connection> {
        let mut connection = open(&self.target)?;
        let setup = format!("create schema {SCHEMA}; set search_path = {SCHEMA}");
        run_script(&mut connection, &setup).map_err(|error| {
            format!("{error}\nif an earlier run was cut short: drop schema {SCHEMA} cascade")
        })?;
        Ok(connection)
    }

    /// Ends a connection of [`Self::connect`] and drops what it created.
    pub(super) fn disconnect(mut connection: Connection) -> Result<()> {
        let script = format!("set client_min_messages = warning; drop schema {SCHEMA} cascade");
        run_script(&mut connection, &script)?;
        Ok(())
    }

    /// The server that the figures refer to.
    pub(super) fn engine(&self, connection: &Connection) -> String {
        let version = connection.server_version();
        if self.is_ours {
            format!("embedded PostgreSQL {version}")
        } else {
            format!("PostgreSQL {version} at {}", self.target)
        }
    }

    /// The durability settings that the server reports.
    pub(super) fn durability(&self, connection: &mut Connection) -> Result<String> {
        let sql = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings \
                   where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'wal_level')";
        let rows = connection.query(sql, &[])?.rows;
        Ok(rows.row(0)[0].to_text().to_string())
    }
}

/// The target of an embedded server.
pub(super) fn ours(server: &Postgres) -> Result<PostgresTarget> {
    PostgresTarget::parse(&server.url(), &Environment::empty())
}

/// Connects with our own driver, which all benchmarks use.
pub(super) fn open(target: &PostgresTarget) -> Result<Connection> {
    target.connect(Options::default())
}

/// Runs statements by the simple query protocol: one message, one round trip.
pub(super) fn run_script(
    connection: &mut Connection,
    sql: &str,
) -> lookaside_client::Result<Vec<Answer>> {
    connection.script(sql, usize::MAX)?.into_iter().collect()
}

/// Adds rows to a hash, as the server would write them.
pub(super) fn hash_rows<'a>(hash: &mut AnswerHash, rows: impl IntoIterator<Item = &'a RowSet>) {
    for row in rows.into_iter().flat_map(RowSet::iter) {
        let cells: Vec<_> = row.iter().map(Value::to_text).collect();
        hash.add(cells.join("\t").as_bytes());
    }
}
