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
