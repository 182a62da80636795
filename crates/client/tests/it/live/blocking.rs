//! The api that waits.

use std::time::{Duration, Instant};

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{ErrorKind, Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::{config, connect, database, databases, shown};

const TAG_COUNT: i64 = 10_000;

#[test]
fn ten_thousand_answers_reach_their_questions() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        for syncs in [Syncs::Each, Syncs::Shared] {
            let mut params = ParamBatch::new(2);
            // Some thousand bytes each, so that neither side can send all before it reads.
            for tag in 0..TAG_COUNT {
                params.push([Value::Int(tag), Value::from("x".repeat(1_000))]);
            }
            let sql = "select $1::int8, repeat($2, 3)";
            let answers = connection.query_many(sql, params, syncs).unwrap();
            assert_eq!(answers.len(), 10_000);
            for (tag, answer) in (0..TAG_COUNT).zip(answers) {
                let rows = answer.unwrap().rows;
                assert_eq!(rows.row(0)[0], Value::Int(tag));
                assert_eq!(rows.row(0)[1].as_str().unwrap().len(), 3_000);
            }
        }
    }
}

#[test]
fn errors_in_a_flight_are_alone() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        for syncs in [Syncs::Each, Syncs::Shared] {
            let mut params = ParamBatch::new(1);
            for divisor in [1, 0, 2, 0, 0, 4] {
                params.push([Value::Int(divisor)]);
            }
            let answers = connection.query_many("select 12 / $1::int", params, syncs);
            let shown: Vec<_> = answers.unwrap().iter().map(shown).collect();
            assert_eq!(shown, ["12", "22012", "6", "22012", "22012", "3"]);
        }
    }
}

#[test]
fn rows_before_an_error_are_nobodys() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        for syncs in [Syncs::Each, Syncs::Shared] {
            let mut params = ParamBatch::new(1);
            for zero in [3, 9, 2, 9] {
                params.push([Value::Int(zero)]);
            }
            let sql = "select 12 / ($1::int - n) from generate_series(1, 3) n";
            let answers = connection.query_many(sql, params, syncs).unwrap();
            let shown: Vec<_> = answers.iter().map(shown).collect();
            assert_eq!(shown, ["22012", "1 1 2", "22012", "1 1 2"], "{syncs:?}");
        }
    }
}

#[test]
fn writes_are_counted_and_kept_apart() {
    for postgres in databases() {
        postgres
            .execute("create table t(k int primary key)")
            .unwrap();
        let mut connection = connect(&postgres);
        let mut params = ParamBatch::new(1);
        for key in [1, 1, 2] {
            params.push([Value::Int(key)]);
        }
        let sql = "insert into t values ($1)";
        let answers = connection.query_many(sql, params, Syncs::Each).unwrap();
        assert_eq!(answers[0].as_ref().unwrap().row_count, Some(1));
        assert_eq!(shown(&answers[1]), "23505");
        let all = connection.query("select k from t order by k", &[]);
        assert_eq!(shown(&all), "1 2");
    }
}

#[test]
fn a_deadline_ends_what_the_server_does() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let started = Instant::now();
        let sleep = Request::new("select pg_sleep(600)", &[]);
        let sleep = sleep.deadline(started + Duration::from_millis(50));
        let answers = connection.request(sleep).unwrap();
        let error = answers[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadline);
        // Behind the sleep, this one would have to wait.
        assert_eq!(shown(&connection.query("select 7", &[])), "7");
        assert!(started.elapsed() < Duration::from_secs(120));
    }
}

/// To describe a statement, the server looks at its tables.
#[test]
fn a_deadline_ends_the_wait_for_a_lock() {
    for postgres in databases() {
        postgres.execute("create table t(k int)").unwrap();
        let mut owner = connect(&postgres);
        owner.query("begin", &[]).unwrap();
        owner.query("lock table t", &[]).unwrap();
        let mut connection = connect(&postgres);
        let started = Instant::now();
        let request = Request::new("select k from t", &[]);
        let request = request.deadline(started + Duration::from_millis(50));
        let answers = connection.request(request).unwrap();
        let error = answers[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadline);
        assert!(error.is_retryable());
        // The server is free although the lock is held.
        assert_eq!(shown(&connection.query("select 7", &[])), "7");
        owner.query("rollback", &[]).unwrap();
        assert_eq!(shown(&connection.query("select k from t", &[])), "");
    }
}

#[test]
fn a_killed_session_is_a_lost_connection() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let answer = connection.query("select pg_terminate_backend(pg_backend_pid())", &[]);
        let error = answer.unwrap_err();
        assert!(error.is_connection_lost());
        assert!(!error.is_retryable());
        assert_eq!(error.sqlstate().unwrap().to_string(), "57P01");
        assert!(connection.is_closed());
        let error = connection.query("select 1", &[]).unwrap_err();
        assert!(error.is_connection_lost());
        assert!(error.is_retryable());
    }
}

#[test]
fn passwords_are_proven_over_tcp() {
    let Some(postgres) = database("18", true) else {
        return;
    };
    let url = postgres.tcp_url().unwrap();
    let url_kept =
        "&keepalives_idle=30&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=9000";
    let url_kept = format!("{url}{url_kept}");
    let mut connection = Connection::connect_with(&config(&url_kept), Options::default()).unwrap();
    assert_eq!(shown(&connection.query("select 7", &[])), "7");

    let wrong = url.replace(&format!(":{}@", postgres.password().unwrap()), ":wrong@");
    let error = Connection::connect_with(&config(&wrong), Options::default())
        .err()
        .unwrap();
    assert_eq!(error.sqlstate().unwrap().to_string(), "28P01");
    assert!(!error.is_retryable());
    let error = Connection::connect_with(
        &config(&url.replace("sslmode=disable", "sslmode=require")),
        Options::default(),
    );
    assert_eq!(error.err().unwrap().kind(), ErrorKind::Tls);

    postgres.close().unwrap();
    let error = connection.query("select 7", &[]).unwrap_err();
    assert!(error.is_connection_lost());
    let error = Connection::connect_with(&config(&url), Options::default())
        .err()
        .unwrap();
    assert!(error.is_retryable());
}

#[test]
fn rows_are_read_as_types() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Host {
        id: u32,
        ip: std::net::IpAddr,
        price: f64,
        name: Option<String>,
    }
    let sql = "select 7 as id, '192.0.2.1'::inet as ip, 1.5::numeric as price, null::text as name";
    for postgres in databases() {
        let answer = connect(&postgres).query(sql, &[]).unwrap();
        let host = Host {
            id: 7,
            ip: "192.0.2.1".parse().unwrap(),
            price: 1.5,
            name: None,
        };
        assert_eq!(answer.deserialize::<Host>().unwrap(), [host]);
        let read = answer.map(|row| Ok((row.get("id")?, row.get::<Option<&str>>(3)?)));
        assert_eq!(read.unwrap(), [(7_u8, None)]);
        let error = answer.map(|row| row.get::<u32>("ip")).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "row 0, column `ip`: this ip is not a valid u32");
    }
}

/// Neither NULLs nor rows without columns have bytes of their own, and both take memory.
#[test]
fn rows_of_nothing_are_counted_as_well() {
    for postgres in databases() {
        let options = Options {
            result_size_max: 1000,
            ..Options::default()
        };
        let mut connection = Connection::connect_with(&config(&postgres.url()), options).unwrap();
        for columns in ["null", "", "null::int4, ''"] {
            let sql = format!("select {columns} from generate_series(1, $1::int8)");
            let answer = connection.query(sql.as_str(), &[Value::Int(10)]).unwrap();
            assert_eq!(answer.rows.len(), 10);
            let error = connection.query(sql.as_str(), &[Value::Int(500)]);
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit, "{columns}");
            let script = connection.script(sql.replace("$1", "500"), usize::MAX);
            let error = script.unwrap().pop().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{columns}");
        }
        let copy = "copy (select from generate_series(1, 500)) to stdout";
        let mut answers = connection.request(Request::copy_out(copy)).unwrap();
        let error = answers.pop().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
