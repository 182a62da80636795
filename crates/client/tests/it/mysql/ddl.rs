//! The schema changes under prepared statements: never a wrong value.

use lookaside_client::Syncs;
use lookaside_client::mysql::blocking::Connection;
use lookaside_value::{ParamBatch, Value};

use super::{Site, run, shown, sites};

const SQL: &str = "select * from t where k = ?";

/// The answer before and after what another session does to the table `t(k int, a int, b text)`,
/// with the row `1, 2, three`; and so in a flight of ten.
#[track_caller]
fn check(ddl: &[&str], expected: &str) {
    for site in sites() {
        site.execute(&[
            "create table t(k int, a int, b varchar(20))",
            "insert into t values (1, 2, 'three')",
        ]);
        let mut connections = [site.connect(), site.connect(), site.connect_wide(32)];
        for connection in &mut connections {
            let before = connection.query(SQL, &[Value::Int(1)]);
            assert_eq!(shown(&before), "1,2,three");
        }
        site.execute(ddl);
        let [single, narrow, wide] = &mut connections;
        for _ in 0..2 {
            let after = single.query(SQL, &[Value::Int(1)]);
            assert_eq!(shown(&after), expected, "{ddl:?} {:?}", site.server.brand());
        }
        for connection in [narrow, wide] {
            flight(connection, expected);
        }
    }
}

fn flight(connection: &mut Connection, expected: &str) {
    let mut params = ParamBatch::new(1);
    for _ in 0..10 {
        params.push([Value::Int(1)]);
    }
    for answer in connection.query_many(SQL, params, Syncs::Each).unwrap() {
        assert_eq!(shown(&answer), expected);
    }
}

#[test]
fn a_column_changes_its_type() {
    check(&["alter table t modify a bigint"], "1,2,three");
    check(&["alter table t modify a tinyint unsigned"], "1,2,three");
    check(&["alter table t modify a varchar(20)"], "1,2,three");
    check(&["alter table t modify a decimal(10,2)"], "1,2.00,three");
    check(
        &["alter table t modify b varbinary(20)"],
        "1,2,0x7468726565",
    );
    check(&["alter table t modify k varchar(20)"], "1,2,three");
}

#[test]
fn columns_change_places() {
    check(&["alter table t modify b varchar(20) after k"], "1,three,2");
    check(
        &[
            "alter table t add c int",
            "update t set c = 9",
            "alter table t drop a, rename column c to a",
        ],
        "1,three,9",
    );
    // Of the same type, so that nothing but the values tells.
    check(
        &["alter table t add c int default 7 after k, modify a int after k"],
        "1,2,7,three",
    );
}

#[test]
fn columns_come_and_go() {
    check(&["alter table t add c int default 4"], "1,2,three,4");
    check(&["alter table t drop b"], "1,2");
}

#[test]
fn a_table_goes_and_comes() {
    check(&["drop table t"], "1146");
    check(
        &[
            "drop table t",
            "create table t(a varchar(9), k int)",
            "insert into t values ('new', 1)",
        ],
        "new,1",
    );
    check(
        &["drop table t", "create view t as select 'v' as v, 1 as k"],
        "v,1",
    );
}

#[test]
fn names_lead_elsewhere() {
    for site in sites() {
        let other = format!("{}_other", site.database);
        site.execute(&[
            "create table t(k int, v int)",
            "insert into t values (1, 7)",
            &format!("create database {other}"),
            &format!("create table {other}.t(k varchar(9), v varchar(9))"),
            &format!("insert into {other}.t values ('1', 'seven')"),
        ]);
        let sql = "select v from t where k = ?";
        let one = [Value::Int(1)];
        for mut connection in [site.connect(), site.connect_wide(8)] {
            for (database, expected) in [
                (&site.database, "7"),
                (&other, "seven"),
                (&site.database, "7"),
            ] {
                run(&mut connection, &format!("use {database}"));
                assert_eq!(shown(&connection.query(sql, &one)), expected);
            }
            // What a text means depends on the mode that it was prepared in.
            let sql = "select \"v\" from t where k = ?";
            assert_eq!(shown(&connection.query(sql, &one)), "v");
            run(&mut connection, "set sql_mode = 'ANSI_QUOTES'");
            assert_eq!(shown(&connection.query(sql, &one)), "7");
        }
        site.execute(&[&format!("drop database {other}")]);
    }
}

/// So it is with parameters of other types, and in a transaction.
#[test]
fn a_change_between_transactions() {
    for site in sites() {
        site.execute(&["create table t(k int)", "insert into t values (1)"]);
        let mut connection = site.connect();
        run(&mut connection, "select * from t");
        site.execute(&["alter table t add v int default 5"]);
        run(&mut connection, "begin");
        assert_eq!(shown(&connection.query("select * from t", &[])), "1,5");
        run(&mut connection, "rollback");
    }
}

#[test]
fn descriptions_follow() {
    for site in sites() {
        described(&site);
    }
}

fn described(site: &Site) {
    site.execute(&["create table t(k int unsigned, b varbinary(9), j json)"]);
    let mut connection = site.connect();
    let sql = "select *, now(6) as n from t where k = ?";
    let description = connection.describe(sql).unwrap();
    let names: Vec<_> = description.columns.iter().map(|name| &**name).collect();
    assert_eq!(names, ["k", "b", "j", "n"]);
    let types: Vec<_> = description
        .column_types
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(types, ["int unsigned", "varbinary", "json", "datetime"]);
    assert_eq!(description.parameter_types.len(), 1);
    assert!(connection.describe("do 1").unwrap().columns.is_empty());
    assert!(connection.describe("selec 1").is_err());
}
