//! Our connections to real servers: PostgreSQL 18, and Debian's 15 where it is installed.

pub(crate) mod api;
mod blocking;
mod copy;
mod copy_streams;
mod ddl;
mod describe;
mod feed;
mod listener;
mod notices;
mod poll;
pub(crate) mod pool;
mod pooler;
mod queryable;
mod raw_rows;
pub(crate) mod restart;
mod scripts;
mod standby;
pub(crate) mod streams;
pub(crate) mod tls;
pub(crate) mod tokio;
mod transactions;
mod values;

use std::env;

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{Answer, Config, Environment, PostgresConfig, Result};
use lookaside_embedded::{Binaries, Postgres};

/// Databases to test with. In CI there must be one of each version.
pub(crate) fn databases() -> Vec<Postgres> {
    ["18", "15"]
        .into_iter()
        .filter_map(|version| database(version, false))
        .collect()
}

/// A database of that version, perhaps on a server of its own that listens on TCP as well.
pub(crate) fn database(version: &str, is_alone: bool) -> Option<Postgres> {
    if let Err(error) = Binaries::find(version.parse().unwrap(), &()) {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        crate::skip(&format!("no PostgreSQL {version} to test with: {error}"));
        return None;
    }
    let builder = Postgres::builder().version(version.parse().unwrap());
    let builder = if is_alone {
        builder.fresh_cluster().tcp()
    } else {
        builder
    };
    Some(builder.start().unwrap())
}

pub(crate) fn config(url: &str) -> PostgresConfig {
    match Config::parse(url, &Environment::empty()).unwrap() {
        Config::Postgres(config) => config,
        other => panic!("{other} is not PostgreSQL"),
    }
}

pub(crate) fn connect(postgres: &Postgres) -> Connection {
    Connection::connect_with(&config(&postgres.url()), Options::default()).unwrap()
}

/// All rows of an answer, or the error's state.
pub(crate) fn shown(answer: &Result<Answer>) -> String {
    match answer {
        Ok(answer) => {
            let row = |row: &[lookaside_value::Value]| {
                let cells: Vec<_> = row
                    .iter()
                    .map(|value| value.to_text().to_string())
                    .collect();
                cells.join(",")
            };
            let rows: Vec<_> = answer.rows.iter().map(row).collect();
            rows.join(" ")
        }
        Err(error) => crate::driver::state(error),
    }
}
