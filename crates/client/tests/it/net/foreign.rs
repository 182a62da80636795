//! URLs that lead to a server of another kind, and log-ins without a password.

use std::error::Error as _;
use std::io::{Read as _, Write as _};

use lookaside_client::{Config, Environment, Error, ErrorKind, Pool, PoolOptions, mysql, postgres};
use lookaside_testing::{Brand, Server};

use super::Site;
use crate::live::database;
use crate::live::tokio::block_on;

/// An error and all of its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// What a connection that waits, one of tokio and a pool say.
fn errors(url: &str) -> Vec<Error> {
    let config = Config::parse(url, &Environment::empty()).unwrap();
    let mut errors = match &config {
        Config::Postgres(config) => {
            let options = postgres::Options::default();
            vec![
                postgres::blocking::Connection::connect_with(config, options.clone()).err(),
                block_on(postgres::Client::connect_with(config, options)).err(),
            ]
        }
        Config::Mysql(config) => {
            let options = mysql::Options::default();
            vec![
                mysql::blocking::Connection::connect_with(config, options.clone()).err(),
                block_on(mysql::Client::connect_with(config, options)).err(),
            ]
        }
        other => panic!("{other} is of no kind that is tested"),
    };
    errors.push(block_on(async {
        let pool = Pool::new(config, PoolOptions::default());
        pool.query("select 1", &[]).await.err()
    }));
    errors.into_iter().map(|error| error.unwrap()).collect()
}

#[test]
fn a_postgres_url_on_a_port_of_mysql() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::shared(brand) else {
            continue;
        };
        for mode in ["disable", "prefer", "require"] {
            let port = server.port();
            let url = format!("postgres://amy:secret@127.0.0.1:{port}/shop?sslmode={mode}");
            for error in errors(&url) {
                assert!(chain(&error).contains("`mysql://`"), "{mode}: {error:?}");
                assert_eq!(error.kind(), ErrorKind::Protocol);
            }
        }
    }
}

/// The two wait for each other.
#[test]
fn a_mysql_url_on_a_port_of_postgres() {
    for version in ["18", "15"] {
        let Some(postgres) = database(version, true) else {
            continue;
        };
        let Config::Postgres(config) =
            Config::parse(&postgres.url(), &Environment::empty()).unwrap()
        else {
            unreachable!("the URL is PostgreSQL's");
        };
        let port = config.hosts[0].port;
        let url = format!("mysql://amy:secret@127.0.0.1:{port}/shop");
        for error in errors(&url) {
            assert!(chain(&error).contains("`postgres://`"), "{error:?}");
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
    }
}

#[test]
fn who_has_no_password_hears_so() {
    let site = Site::serve(|mut socket| {
        let mut received = [0; 1024];
        // AuthenticationCleartextPassword
        if matches!(socket.read(&mut received), Ok(1..)) {
            let _ = socket.write_all(b"R\0\0\0\x08\0\0\0\x03");
        }
        while matches!(socket.read(&mut received), Ok(1..)) {}
    });
    let url = format!(
        "postgres://amy@127.0.0.1:{}/shop?sslmode=disable",
        site.port
    );
    for error in errors(&url) {
        assert!(chain(&error).contains("password"), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(error.hint().unwrap().contains("PGPASSWORD"));
    }
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::shared(brand) else {
            continue;
        };
        let url = server.url("");
        let Config::Mysql(config) = Config::parse(&url, &Environment::empty()).unwrap() else {
            unreachable!("the URL is MySQL's");
        };
        let options = mysql::Options::default();
        let mut root = mysql::blocking::Connection::connect_with(&config, options).unwrap();
        let create = "create user if not exists secretive@localhost identified by 'secret'";
        root.query(create, &[]).unwrap();
        for error in errors(&url.replace("root@", "secretive@")) {
            let text = chain(&error);
            assert!(text.contains("no password was given"), "{text}");
        }
        for error in errors(&url.replace("root@", "secretive:wrong@")) {
            let text = chain(&error);
            assert!(!text.contains("no password was given"), "{text}");
        }
    }
}
