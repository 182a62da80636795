//! Everything on a real server.
#![allow(
    clippy::print_stderr,
    reason = "seeds and what a test had to leave out are said; children speak through it"
)]

mod archive;
mod binaries;
mod child;
mod clean;
mod clients;
mod concurrency;
mod damage;
mod death;
mod environment;
mod instance;
mod memory;
mod owner_role;
mod persistent;
mod prepared;
mod process_limit;
mod root;
mod schema;
mod settings;
mod site;
mod snapshot;
mod temporary;
mod upkeep;

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use lookaside_embedded::{Binaries, Builder, Error, Postgres, VersionRequirement};
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// The major version that these tests are about. They say it themselves, so that they do the same
/// on every machine.
const VERSION: &str = "18";

/// How long something that happens by itself may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Wishes of every test.
fn builder() -> Builder {
    Postgres::builder().version(VERSION.parse().unwrap())
}

/// Whether there is a server to test with. In CI there must be.
fn has_server() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| match Binaries::find(VERSION.parse().unwrap(), &()) {
        Ok(_) => true,
        Err(error) => {
            assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
            skip(&format!("no PostgreSQL {VERSION} to test with: {error}"));
            false
        }
    })
}

/// Says what is left out and why, past the harness, which shows nothing of a test that passes.
fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "SKIP {why}");
}

/// A version whose server and pg_dump can be had. In CI there must be one.
fn version_with_pg_dump() -> Option<VersionRequirement> {
    // Where Debian puts them; asking for others could fetch a server.
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let version = installed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|version| {
            Binaries::find(*version, &()).is_ok_and(|found| found.tool("pg_dump").is_some())
        });
    if version.is_none() {
        assert!(env::var_os("CI").is_none(), "CI must have a pg_dump");
        skip("no server with a pg_dump is installed");
    }
    version
}

/// The first column of what a client gets from a database.
#[track_caller]
fn ask(url: &str, sql: &str) -> Vec<String> {
    try_ask(url, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn try_ask(url: &str, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let messages = client.simple_query(sql).await;
        drop(client);
        let _ = connection.await;
        Ok(messages?
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                _ => None,
            })
            .collect())
    })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// An error with all that led to it.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The seed of a random test: printed, and given again by `LOOKASIDE_TEST_SEED`.
fn rng(test: &str) -> fastrand::Rng {
    let seed = env::var("LOOKASIDE_TEST_SEED").map_or_else(
        |_| fastrand::u64(..),
        |seed| seed.parse().expect("LOOKASIDE_TEST_SEED is a number"),
    );
    eprintln!("{test}: LOOKASIDE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
