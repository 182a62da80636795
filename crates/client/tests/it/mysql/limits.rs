//! What can grow has an end.

use lookaside_client::ErrorKind;
use lookaside_client::mysql::Options;
use lookaside_testing::{Brand, Server};
use lookaside_value::{ParamBatch, Value};

use super::{connect_to, run, shown, sites};

/// How many statements a server holds, for all of its connections.
fn statement_count(connection: &mut lookaside_client::mysql::blocking::Connection) -> i64 {
    let answer = run(connection, "show global status like 'Prepared_stmt_count'");
    answer.rows.row(0)[1].to_text().parse().unwrap()
}

#[test]
fn statements_are_forgotten_on_the_server_too() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::start(brand, &["--max-prepared-stmt-count=40"]) else {
            continue;
        };
        let mut watcher = connect_to(&server.url(""), Options::default()).unwrap();
        let before = statement_count(&mut watcher);
        for count_max in [0, 3, 20] {
            let options = Options {
                statement_count_max: count_max,
                ..Options::default()
            };
            let mut connection = connect_to(&server.url(""), options).unwrap();
            for round in 0..2 {
                for index in 0..100 {
                    let answer = connection.query(format!("select {index}"), &[]);
                    assert_eq!(shown(&answer), index.to_string(), "{round}");
                }
            }
            let count = statement_count(&mut watcher) - before;
            // The last one is forgotten with the next command; on MariaDB, so are two that do nothing.
            assert!(count <= count_max as i64 + 4, "{count} of {count_max}");
        }
        // Where the server is the limit, its own statements are given up for others.
        let mut greedy = connect_to(&server.url(""), Options::default()).unwrap();
        for index in 0..100 {
            let answer = greedy.query(format!("select {index}"), &[]);
            assert_eq!(shown(&answer), index.to_string());
        }
    }
}

#[test]
fn a_result_that_is_too_large() {
    for site in sites() {
        let options = Options {
            result_size_max: 1000,
            window: 4,
            ..Options::default()
        };
        let mut connection = site.connect_with(options);
        let mut params = ParamBatch::new(1);
        for size in [10, 2000, 20] {
            params.push([Value::Int(size)]);
        }
        let sql = "select repeat('x', ?)";
        let answers = connection
            .query_many(sql, params, lookaside_client::Syncs::Each)
            .unwrap();
        assert_eq!(answers[0].as_ref().unwrap().rows.len(), 1);
        assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(answers[2].as_ref().unwrap().rows.len(), 1);
    }
}

#[test]
fn rows_of_nothing_are_counted_as_well() {
    for site in sites() {
        let options = Options {
            result_size_max: 1000,
            ..Options::default()
        };
        let mut connection = site.connect_with(options);
        let sql = "select null from information_schema.columns limit";
        let answer = connection.query(format!("{sql} 10"), &[]);
        assert_eq!(answer.unwrap().rows.len(), 10);
        let error = connection.query(format!("{sql} 500"), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}

/// A statement has two bytes for the number of its parameters.
#[test]
fn more_parameters_than_there_can_be() {
    let values = vec![Value::Int(1); 65_536];
    for site in sites() {
        let mut connection = site.connect();
        let error = connection.query("select ?", &values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("65,535"), "{error}");
        let sum = format!("select 0{}", " + ?".repeat(values.len() - 1));
        let answer = connection.query(sum, &values[1..]);
        // MySQL builds a tree of an expression, and has a limit for its depth.
        assert!(["65535", "1436"].contains(&&*shown(&answer)), "{answer:?}");
    }
}

/// An error and all of its causes.
fn chain(error: &lookaside_client::Error) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        said.push_str(": ");
        said.push_str(&error.to_string());
        cause = error.source();
    }
    said
}

/// Requests, rows and values whose sizes are near those of one packet and of two.
#[test]
fn values_as_large_as_a_packet() {
    const PACKET_SIZE: usize = 0xff_ffff;
    for site in sites() {
        let mut connection = site.connect_with(Options::default());
        for size in [-115, -18, -17, -6, 0, 1].map(|near| PACKET_SIZE.wrapping_add_signed(near)) {
            let text = "x".repeat(size);
            let answer = connection.query("select ?", &[Value::from(text.as_str())]);
            let answer = answer.unwrap_or_else(|error| panic!("{size}: {error:?}"));
            assert!(answer.rows.row(0)[0].as_str() == Some(&*text), "{size}");
            // As text both ways, with nothing that is prepared.
            let answer = connection.query(format!("set @v = '{text}'"), &[]);
            answer.unwrap_or_else(|error| panic!("set {size}: {error:?}"));
            let answer = connection.query("select @v", &[]);
            let answer = answer.unwrap_or_else(|error| panic!("get {size}: {error:?}"));
            assert!(answer.rows.row(0)[0].as_str() == Some(&*text), "{size}");
            // As a part of the statement, which is prepared.
            let answer = connection.query(format!("select length('{text}') as n"), &[]);
            let answer = answer.unwrap_or_else(|error| panic!("prepared {size}: {error:?}"));
            assert_eq!(answer.rows.row(0)[0], Value::Int(size as i64));
            let answer = connection.query(format!("select length('{text}')"), &[]);
            let answer = answer.unwrap_or_else(|error| panic!("named {size}: {error:?}"));
            assert_eq!(answer.rows.row(0)[0], Value::Int(size as i64));
        }
    }
}

/// The most that a server takes may be about as large as a packet of the protocol, or four times
/// that.
#[test]
fn values_as_large_as_a_server_takes() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        for (limit, window) in [("16M", 1), ("64M", 32)] {
            let argument = format!("--max-allowed-packet={limit}");
            let Some(server) = Server::start(brand, &[&argument]) else {
                continue;
            };
            let options = Options {
                window,
                ..Options::default()
            };
            let mut connection = connect_to(&server.url(""), options.clone()).unwrap();
            run(&mut connection, "create database test");
            run(&mut connection, "create table test.t (v longtext)");
            run(&mut connection, "create user tcp@'%' identified by 'pw'");
            run(&mut connection, "grant all on test.* to tcp@'%'");
            let tcp = format!("mysql://tcp:pw@127.0.0.1:{}/test?ssl-mode=", server.port());
            // MySQL makes a certificate for itself; MariaDB would have to be given one.
            let mode = match brand {
                Brand::MySql => "REQUIRED",
                Brand::MariaDb => "DISABLED",
            };
            let tcp = format!("{tcp}{mode}");
            for url in [server.url("test"), tcp] {
                let what = format!("{brand:?} {limit} {url}");
                for size in [16_777_000, 16_777_100, 16_777_199, 16_777_220] {
                    let is_tight = limit == "16M" && size > 16_777_150;
                    send_large_values(&url, &options, size, is_tight, &what);
                }
            }
        }
    }
}

/// Sends a text of `size` bytes in each way and reads it again. Where `is_tight`, the server may
/// refuse it for its size, and in no other words.
fn send_large_values(url: &str, options: &Options, size: usize, is_tight: bool, what: &str) {
    let text = Value::from("x".repeat(size));
    for sql in ["select length(?)", "select ?", "insert into t values (?)"] {
        let mut connection = connect_to(url, options.clone()).unwrap();
        let answer = match connection.query(sql, std::slice::from_ref(&text)) {
            Ok(answer) => answer,
            Err(error) => {
                let is_named = chain(&error).contains("max_allowed_packet");
                assert!(is_named && is_tight, "{what} {size} {sql}: {error:?}");
                continue;
            }
        };
        match sql {
            "select ?" => assert!(answer.rows.row(0)[0] == text, "{what} {size}"),
            "select length(?)" => {
                assert_eq!(answer.rows.row(0)[0], Value::Int(size as i64), "{what}");
            }
            _ => {
                let sql = "select v from t where length(v) = ?";
                let found = connection.query(sql, &[Value::Int(size as i64)]).unwrap();
                assert!(found.rows.row(0)[0] == text, "{what} {size}");
            }
        }
    }
}

/// A server closes the connection over it, and what it says to that is mostly lost.
#[test]
fn a_request_that_the_server_finds_too_large() {
    for brand in [Brand::MariaDb, Brand::MySql] {
        let Some(server) = Server::start(brand, &["--max-allowed-packet=2M"]) else {
            continue;
        };
        for size in [3 << 20, 17 << 20] {
            let text = Value::from("x".repeat(size));
            for is_prepared in [true, false] {
                let mut connection = connect_to(&server.url(""), Options::default()).unwrap();
                let answer = match is_prepared {
                    true => connection.query("select length(?)", std::slice::from_ref(&text)),
                    false => {
                        let text = text.as_str().unwrap();
                        connection.query(format!("set @v = '{text}'"), &[])
                    }
                };
                let error = answer.unwrap_err();
                let said = chain(&error);
                assert!(said.contains("max_allowed_packet"), "{size}: {error:?}");
            }
        }
    }
}
