//! MySQL and MariaDB: their values, and our connections to them. A private MariaDB, and a MySQL
//! where there is one.

mod bulk;
mod cancel;
mod charset;
mod ddl;
mod death;
mod differential;
mod documented;
mod hidden_transactions;
mod interrupt;
mod limits;
mod login;
mod one_flight;
mod params;
mod pinned;
mod pipeline;
mod poll;
mod pool;
mod pool_losses;
mod queryable;
mod raw;
mod results;
mod scripted;
mod scripts;
mod streams;
mod tls;
mod tokio;
mod transactions;
mod values;

use std::sync::atomic::{AtomicU32, Ordering};

use lookaside_client::mysql::{Options, blocking::Connection};
use lookaside_client::{Answer, Config, Environment, MysqlConfig, Result};
use lookaside_testing::{Brand, Server};

/// A server that all tests share, and a separate database for one test.
pub(crate) struct Site {
    pub(crate) server: &'static Server,
    pub(crate) database: String,
}

/// One on each server that can be had. In CI there must be a MariaDB.
pub(crate) fn sites() -> Vec<Site> {
    let brands = [Brand::MariaDb, Brand::MySql];
    let servers = brands.into_iter().filter_map(Server::shared);
    servers.map(Site::new).collect()
}

impl Site {
    fn new(server: &'static Server) -> Self {
        /// Databases are distinguished by a number; the server is this process's own.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Nothing else is published with the number.
        let database = format!("d{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut connection = connect_to(&server.url(""), Options::default()).unwrap();
        run(&mut connection, &format!("create database {database}"));
        Self { server, database }
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.server.brand() == Brand::MariaDb
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(&self.database)
    }

    pub(crate) fn connect(&self) -> Connection {
        self.connect_with(Options::default())
    }

    /// A connection with so many queries on their way at once.
    pub(crate) fn connect_wide(&self, window: usize) -> Connection {
        self.connect_with(Options {
            window,
            ..Options::default()
        })
    }

    pub(crate) fn connect_with(&self, options: Options) -> Connection {
        connect_to(&self.url(), options).unwrap()
    }

    /// Runs statements, one after the other.
    pub(crate) fn execute(&self, statements: &[&str]) {
        let mut connection = self.connect();
        for sql in statements {
            run(&mut connection, sql);
        }
    }
}

pub(crate) fn config(url: &str) -> MysqlConfig {
    match Config::parse(url, &Environment::empty()).unwrap() {
        Config::Mysql(config) => config,
        other => panic!("{other} is not MySQL"),
    }
}

pub(crate) fn connect_to(url: &str, options: Options) -> Result<Connection> {
    Connection::connect_with(&config(url), options)
}

#[track_caller]
pub(crate) fn run(connection: &mut Connection, sql: &str) -> Answer {
    let answer = connection.query(sql, &[]);
    answer.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

/// All rows of an answer, or the error's number.
pub(crate) fn shown(answer: &Result<Answer>) -> String {
    match answer {
        Ok(answer) => crate::live::shown(&Ok(answer.clone())),
        Err(error) => match error.mysql() {
            Some(refused) => refused.code().to_string(),
            None => format!("{:?}", error.kind()),
        },
    }
}
