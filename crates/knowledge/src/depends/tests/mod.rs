//! Tests against statements, and against servers: PostgreSQL 18, and Debian's 15 where it is
//! installed.

mod changes;
mod classes;
mod explained;
mod fingerprints;
mod keys;
mod statements;

use std::io::{self, Write as _};

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_value::Value;

use super::{Catalog, Dependency, Names, Shape, classify};

/// The publication of the tests.
const PUBLICATION: &str = "feed";

/// A database of each version. In CI none may be missing.
fn databases() -> Vec<(Postgres, Connection)> {
    let versions = ["18", "15"].into_iter();
    versions
        .filter_map(|version| {
            let version = version.parse().unwrap();
            if let Err(error) = Binaries::find(version, &()) {
                assert!(
                    std::env::var_os("CI").is_none(),
                    "CI must have one: {error}"
                );
                skip(&format!("no PostgreSQL to test with: {error}"));
                return None;
            }
            let database = Postgres::builder().version(version).start().unwrap();
            let connection = connect(&database);
            Some((database, connection))
        })
        .collect()
}

/// Prints what is skipped and why, bypassing the harness, which hides the output of passing tests.
fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "SKIP {why}");
}

fn connect(database: &Postgres) -> Connection {
    let config = Config::parse(&database.url(), &Environment::empty()).unwrap();
    let Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    Connection::connect_with(&config, Options::default()).unwrap()
}

fn run(connection: &mut Connection, script: &str) {
    connection
        .batch_execute(script)
        .unwrap_or_else(|error| panic!("{script}: {error}"));
}

fn dependency(connection: &mut Connection, sql: &str) -> Dependency {
    let (shape, catalog) = catalog(connection, sql);
    classify(&shape, &catalog)
}

fn catalog(connection: &mut Connection, sql: &str) -> (Shape, Catalog) {
    let shape = Shape::of(sql);
    let params = Names::of(&shape).catalog_params(PUBLICATION);
    let answer = connection.query(Catalog::sql(), &params).unwrap();
    let catalog = Catalog::from_rows(&answer.rows).unwrap();
    (shape, catalog.expect("the query returns one row"))
}

/// The seed of this run, which `LOOKASIDE_SEED` repeats.
fn seed() -> u64 {
    match std::env::var("LOOKASIDE_SEED") {
        Ok(seed) => seed.parse().expect("LOOKASIDE_SEED is a number"),
        Err(_) => fastrand::u64(..),
    }
}

/// A value of the first column of the first row.
fn value_of(connection: &mut Connection, sql: &str, params: &[Value]) -> Value {
    let answer = connection
        .query(sql, params)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let row = answer.rows.first().expect("there is a row");
    row[0].clone()
}
