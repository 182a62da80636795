//! MySQL's definitions of columns, left out at the caller's word.

use std::time::Duration;

use lookaside_client::mysql::{Definitions, Options, blocking::Connection};
use lookaside_client::{Request, TransactionOptions};
use lookaside_value::Value;

use super::{Site, run, shown, sites};

const SQL: &str = "select * from t where k = ?";

fn connect(site: &Site, window: usize, check_after: Duration) -> Connection {
    site.connect_with(Options {
        window,
        pinned_check_after: Some(check_after),
        ..Options::default()
    })
}

fn pinned(connection: &mut Connection, sql: &str) -> String {
    let request = Request::new(sql, &[Value::Int(1)]).pinned_columns();
    shown(&connection.request(request).unwrap()[0])
}

/// The number of bytes sent to the session so far.
fn bytes_sent(connection: &mut Connection) -> u64 {
    let answer = run(connection, "show session status like 'Bytes_sent'");
    answer.rows.row(0)[1].to_text().parse().unwrap()
}

/// A table whose definitions are longer than its rows.
fn create_wide() -> String {
    let columns: Vec<_> = (0..100)
        .map(|index| format!("column_{index} int"))
        .collect();
    format!("create table wide(k int, {})", columns.join(", "))
}

#[test]
fn definitions_are_left_out() {
    for site in sites() {
        site.execute(&[&create_wide(), "insert into wide(k) values (1)"]);
        for window in [1, 16] {
            let mut connection = connect(&site, window, Duration::from_secs(3600));
            let sql = "select * from wide where k = ?";
            let first = pinned(&mut connection, sql);
            let before = bytes_sent(&mut connection);
            for _ in 0..100 {
                assert_eq!(pinned(&mut connection, sql), first);
            }
            let size = bytes_sent(&mut connection) - before;
            assert!(size < 100 * 1000, "{size}");
            // Others are described as ever.
            assert_eq!(shown(&connection.query("select 'x' as y", &[])), "x");
        }
    }
}

#[test]
fn what_can_be_noticed_is() {
    for site in sites() {
        for window in [1, 16] {
            for (ddl, expected) in [
                ("alter table t add c int default 4", "1,2,three,4"),
                ("alter table t drop b", "1,2"),
                ("alter table t modify a bigint", "1,2,three"),
                ("alter table t modify a varchar(20)", "1,2,three"),
            ] {
                site.execute(&[
                    "drop table if exists t",
                    "create table t(k int, a int, b varchar(20))",
                    "insert into t values (1, 2, 'three')",
                ]);
                let mut connection = connect(&site, window, Duration::from_secs(3600));
                for _ in 0..3 {
                    assert_eq!(pinned(&mut connection, SQL), "1,2,three");
                }
                site.execute(&[ddl]);
                for _ in 0..3 {
                    assert_eq!(pinned(&mut connection, SQL), expected, "{ddl}");
                }
            }
        }
    }
}

/// What cannot be noticed is right again with the next check.
#[test]
fn a_check_finds_the_rest() {
    for site in sites() {
        site.execute(&[
            "create table t(k int, a int, b int)",
            "insert into t values (1, 2, 3)",
        ]);
        let mut connection = connect(&site, 1, Duration::ZERO);
        assert_eq!(pinned(&mut connection, SQL), "1,2,3");
        site.execute(&["alter table t modify b int after k"]);
        let request = Request::new(SQL, &[Value::Int(1)]).pinned_columns();
        let answer = connection.request(request).unwrap().remove(0).unwrap();
        let names: Vec<_> = answer.rows.columns().iter().map(|name| &**name).collect();
        assert_eq!(names, ["k", "b", "a"]);
        assert_eq!(shown(&Ok(answer)), "1,3,2");
    }
}

/// Definitions that are read each time are right, and sent by MariaDB as well.
#[test]
fn definitions_can_be_read_each_time() {
    for site in sites() {
        site.execute(&[
            &create_wide(),
            "insert into wide(k) values (1)",
            "create table many(v int)",
            "insert into many values (1), (2), (3), (4), (5)",
        ]);
        for window in [1, 16] {
            let mut connection = site.connect_with(Options {
                window,
                definitions: Definitions::Read,
                ..Options::default()
            });
            let sql = "select * from wide where k = ?";
            let first = pinned(&mut connection, sql);
            let before = bytes_sent(&mut connection);
            for _ in 0..10 {
                assert_eq!(pinned(&mut connection, sql), first);
                assert_eq!(shown(&connection.query("select 'x' as y", &[])), "x");
            }
            let size = bytes_sent(&mut connection) - before;
            assert!(size > 10 * 100 * 30, "{size}");
            let mut transaction = connection.begin(TransactionOptions::default()).unwrap();
            let mut stream = transaction.stream("select v from many", &[], 2);
            let mut sizes = Vec::new();
            while let Some(rows) = stream.next_chunk().unwrap() {
                sizes.push(rows.len());
                let other = stream.transaction().query("select 7", &[]);
                assert_eq!(shown(&other), "7");
            }
            assert_eq!(sizes, [2, 2, 1]);
            drop(stream);
            transaction.commit().unwrap();
            site.execute(&["alter table wide modify k bigint"]);
            assert_eq!(pinned(&mut connection, sql), first);
            site.execute(&["alter table wide modify k int"]);
        }
    }
}
