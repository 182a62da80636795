//! Many queries on their way at once.

use std::sync::Arc;

use lookaside_client::mysql::blocking::Connection;
use lookaside_client::{Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::{run, shown, sites};

fn many(connection: &mut Connection, sql: &str, values: Vec<Value>) -> Vec<String> {
    let mut params = ParamBatch::new(1);
    for value in values {
        params.push([value]);
    }
    let answers = connection.query_many(sql, params, Syncs::Each).unwrap();
    answers.iter().map(shown).collect()
}

#[test]
fn answers_come_to_their_questions() {
    for site in sites() {
        for window in [1, 2, 32, 1000] {
            let mut connection = site.connect_wide(window);
            let values = (0..500).map(Value::Int).collect();
            let answers = many(&mut connection, "select ? * 2", values);
            let expected: Vec<_> = (0..500).map(|value| (value * 2).to_string()).collect();
            assert_eq!(answers, expected, "{window}");
        }
    }
}

#[test]
fn an_error_in_the_middle_stops_nobody() {
    for site in sites() {
        site.execute(&[
            "create table u(k int primary key)",
            "insert into u values (3)",
        ]);
        let mut connection = site.connect_wide(32);
        let values = (1..=5).map(Value::Int).collect();
        let answers = many(&mut connection, "insert into u values (?)", values);
        assert_eq!(answers, ["", "", "1062", "", ""]);
        let answer = run(&mut connection, "select count(*) from u");
        assert_eq!(shown(&Ok(answer)), "5");
        let error = connection.query("selec 1", &[]).unwrap_err();
        assert_eq!(error.sqlstate().unwrap().as_bytes(), b"42000");
        assert_eq!(error.mysql().unwrap().code(), 1064);
        assert!(!error.is_retryable() && !error.is_connection_lost());
    }
}

#[test]
fn what_cannot_be_prepared_runs_all_the_same() {
    for site in sites() {
        let mut connection = site.connect_wide(8);
        run(
            &mut connection,
            "create procedure p() begin select 1 as a; select 2 as b; end",
        );
        // The first result with rows is the answer.
        assert_eq!(shown(&connection.query("call p()", &[])), "1");
        assert_eq!(shown(&connection.query("select 3", &[])), "3");
        for sql in [
            "lock tables performance_schema.x read",
            "use nowhere",
            "xa recover",
        ] {
            let first = shown(&connection.query(sql, &[]));
            assert_eq!(shown(&connection.query(sql, &[])), first, "{sql}");
        }
        run(&mut connection, "create table q(k int)");
        run(
            &mut connection,
            "create trigger r before insert on q for each row set new.k = 1",
        );
        run(&mut connection, "insert into q values (2)");
        assert_eq!(shown(&connection.query("select * from q", &[])), "1");
    }
}

#[test]
fn files_of_ours_are_not_given() {
    for site in sites() {
        site.execute(&["create table f(x text)"]);
        let mut connection = site.connect();
        let sql = "load data local infile '/etc/passwd' into table f";
        let answer = connection.query(sql, &[]);
        assert!(answer.is_err());
        let answer = run(&mut connection, "select count(*) from f");
        assert_eq!(shown(&Ok(answer)), "0");
    }
}

#[test]
fn large_values_and_results() {
    for site in sites() {
        let mut connection = site.connect_wide(4);
        run(&mut connection, "create table big(k int, x longblob)");
        // Around the size at which a packet is split, and beyond.
        for size in [0xff_fffe - 40, 0xff_ffff, 0x100_0000, 40 << 20] {
            let bytes: Arc<[u8]> = (0..size).map(|index| (index % 251) as u8).collect();
            let value = Value::Bytes(bytes);
            run(&mut connection, "truncate big");
            let inserted = connection.query(
                "insert into big values (1, ?)",
                std::slice::from_ref(&value),
            );
            assert!(inserted.is_ok(), "{size}: {inserted:?}");
            let answer = run(&mut connection, "select x from big");
            assert!(answer.rows.row(0)[0] == value, "{size}");
        }
        let answer = connection.query(
            "select repeat('x', 1000000) from (select 1 union all select 2) a",
            &[],
        );
        let rows = answer.unwrap().rows;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows.row(1)[0].to_text().len(), 1_000_000);
    }
}

#[test]
fn transactions_see_their_own_queries() {
    for site in sites() {
        site.execute(&["create table a(k int)"]);
        let mut connection = site.connect_wide(16);
        for end in ["rollback", "commit"] {
            run(&mut connection, "begin");
            let values = (0..10).map(Value::Int).collect();
            many(&mut connection, "insert into a values (?)", values);
            run(&mut connection, end);
        }
        let answers = connection
            .request(Request::new("select count(*) from a", &[]))
            .unwrap();
        assert_eq!(shown(&answers[0]), "10");
    }
}
