//! Providers on real servers.

mod direct;
mod embedded;
mod failures;
mod feed;
mod flights;
mod log_end;
mod mysql;
mod pooler;
mod same_answers;
mod statements;

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use lookaside_client::mysql as mysql_client;
use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_knowledge::Knowledge;
use lookaside_testing::Server;
use tempfile::TempDir;

/// Prints what is skipped and why, bypassing the harness, which hides the output of passing tests.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "SKIP {why}");
}

/// An empty database on a PostgreSQL 18 server; a separate server if the test stops it. In CI it
/// must be available.
pub(crate) fn postgres(is_alone: bool) -> Option<Postgres> {
    let version = "18".parse().unwrap();
    if let Err(error) = Binaries::find(version, &()) {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        skip(&format!("no PostgreSQL 18 to test with: {error}"));
        return None;
    }
    let builder = Postgres::builder().version(version);
    let builder = if is_alone {
        builder.fresh_cluster()
    } else {
        builder
    };
    Some(builder.start().unwrap())
}

/// A connection to a new database `knowledge` of a MariaDB or MySQL server, and its URL.
pub(crate) fn mysql_database(server: &Server) -> (mysql_client::blocking::Connection, String) {
    let connect = |database: &str| {
        let config = Config::parse(&server.url(database), &Environment::empty()).unwrap();
        let Config::Mysql(config) = config else {
            panic!("{config} is not MySQL");
        };
        mysql_client::blocking::Connection::connect_with(&config, mysql_client::Options::default())
            .unwrap()
    };
    let name = format!("d{}", fastrand::u32(..));
    let mut connection = connect("");
    connection
        .query(format!("create database {name}"), &[])
        .unwrap();
    (connect(&name), server.url(&name))
}

/// A project with one provider, `pg` or `my`; `more` is part of its section, `tables` follows it.
pub(crate) fn project(url: &str, more: &str, tables: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_project(folder.path(), url, more, tables);
    folder
}

pub(crate) fn write_project(folder: &Path, url: &str, more: &str, tables: &str) {
    let (name, kind) = match url.starts_with("mysql:") {
        true => ("my", "mysql"),
        false => ("pg", "postgres"),
    };
    let text = format!(
        "version = 2\n[[provider.sqldb]]\nname = '{name}'\nkind = '{kind}'\n\
         connection_uri = '{url}'\n{more}\n{tables}"
    );
    fs::write(folder.join("knowdb.toml"), text).unwrap();
}

/// Adds a table to the folder, `local_t(id, name)`, with one row.
pub(crate) fn add_local_table(folder: &Path) -> &'static str {
    fs::create_dir(folder.join("local_t")).unwrap();
    fs::write(folder.join("local_t/data.csv"), "id,name\n1,here\n").unwrap();
    "[[tables]]\nname = 'local_t'"
}

/// Ten thousand rows, `t(id, name)`.
pub(crate) const TEN_THOUSAND: &str = "create table t as \
    select id, 'n' || id as name from generate_series(1, 10000) as id; \
    alter table t add primary key (id);";

pub(crate) fn open(folder: &TempDir) -> Knowledge {
    Knowledge::open(folder.path()).unwrap()
}

/// Locks a table against all other connections for as long as the connection is held.
pub(crate) fn lock_table(postgres: &Postgres, table: &str) -> Connection {
    let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
    let Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    let mut connection = Connection::connect_with(&config, Options::default()).unwrap();
    for sql in ["begin".to_owned(), format!("lock table {table}")] {
        connection.query(sql.as_str(), &[]).unwrap();
    }
    connection
}
