//! The arena's workloads, checked as strictly as the arena does, and more.

mod client;
mod crud;
mod database;
mod death;
mod flights;
mod plain;
#[path = "../../../examples/arena/server/mod.rs"]
mod server;
mod workloads;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lookaside_embedded::Postgres;
use lookaside_http::{Address, Server};

use client::Client;
use server::{Data, Settings, Timeouts, seed, start};

/// Enough for each profile, and quickly generated.
const ITEM_COUNT: usize = 3_000;

/// A URL where nothing listens.
const NOBODY: &str = "postgres://nobody@127.0.0.1:1/nothing";

/// A server, with or without a database.
struct Arena {
    server: Server,
    /// Dropped after the server.
    postgres: Option<Postgres>,
}

impl Arena {
    fn new() -> Self {
        let postgres = Postgres::builder().start().unwrap();
        seed(&postgres.url(), ITEM_COUNT).unwrap();
        let server = serve(&postgres.url(), Path::new("/nonexistent"));
        Self {
            server,
            postgres: Some(postgres),
        }
    }

    fn without_database() -> Self {
        Self {
            server: serve(NOBODY, Path::new("/nonexistent")),
            postgres: None,
        }
    }

    fn address(&self) -> SocketAddr {
        address(&self.server, 0)
    }

    fn client(&self) -> Client {
        Client::connect(self.address())
    }

    fn execute(&self, sql: &str) {
        self.postgres.as_ref().unwrap().execute(sql).unwrap();
    }
}

fn serve(database_url: &str, data: &Path) -> Server {
    let settings = Settings {
        address: [127, 0, 0, 1].into(),
        port: 0,
        tls_port: 0,
        // Items are shared by threads.
        threads: 2,
        database_url: database_url.to_owned(),
        database_connection_count: 20,
        // The timeouts of the program are too short for a busy machine.
        database_timeouts: Timeouts {
            connect: Duration::from_secs(120),
            query: Duration::from_secs(120),
        },
        data: Data::find(data, Path::new("/nonexistent")).unwrap(),
    };
    start(&settings).unwrap()
}

fn address(server: &Server, index: usize) -> SocketAddr {
    match server.addresses()[index] {
        Address::Tcp(address) => address,
        ref other => panic!("{other} is not a TCP address"),
    }
}
