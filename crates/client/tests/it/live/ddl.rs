//! The schema changes under prepared statements: never a wrong value.

use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Request, Syncs};
use lookaside_value::{ParamBatch, Value};

use super::{connect, databases, shown};

const SQL: &str = "select * from t where k = $1";

/// The answer before and after what another session does to the table `t(k int, a int, b text)`,
/// with the row `1, 2, three`; and so in a flight of ten.
#[track_caller]
fn check(ddl: &str, key: &Value, expected: &str) {
    for postgres in databases() {
        let table = "create table t(k int, a int, b text); insert into t values (1, 2, 'three')";
        postgres.execute(table).unwrap();
        let mut connections = [connect(&postgres), connect(&postgres), connect(&postgres)];
        for connection in &mut connections {
            let before = connection.query(SQL, &[Value::Int(1)]);
            assert_eq!(shown(&before), "1,2,three");
        }
        postgres.execute(ddl).unwrap();
        let [single, each, shared] = &mut connections;
        assert_eq!(
            shown(&single.query(SQL, std::slice::from_ref(key))),
            expected,
            "{ddl}"
        );
        for (connection, syncs) in [(each, Syncs::Each), (shared, Syncs::Shared)] {
            flight(connection, syncs, key, expected);
        }
    }
}

fn flight(connection: &mut Connection, syncs: Syncs, key: &Value, expected: &str) {
    let mut params = ParamBatch::new(1);
    for _ in 0..10 {
        params.push([key.clone()]);
    }
    for answer in connection.query_many(SQL, params, syncs).unwrap() {
        assert_eq!(shown(&answer), expected, "{syncs:?}");
    }
}

#[test]
fn a_column_changes_its_type() {
    let one = Value::Int(1);
    check("alter table t alter a type bigint", &one, "1,2,three");
    check("alter table t alter a type text", &one, "1,2,three");
    check(
        "alter table t alter b type bytea using 'x'",
        &one,
        "1,2,0x78",
    );
}

#[test]
fn columns_change_places() {
    check(
        "alter table t rename a to c; alter table t rename b to a; alter table t rename c to b",
        &Value::Int(1),
        "1,2,three",
    );
    check(
        "alter table t drop a; alter table t add a int default 9",
        &Value::Int(1),
        "1,three,9",
    );
}

#[test]
fn a_column_is_added() {
    check(
        "alter table t add c int default 4",
        &Value::Int(1),
        "1,2,three,4",
    );
}

#[test]
fn a_parameter_changes_its_type() {
    let ddl = "alter table t alter k type text using 'key' || k";
    check(ddl, &Value::from("key1"), "key1,2,three");
    // The text of a number is one for an integer as well, and is sent before the change is known.
    check(
        "alter table t alter k type text",
        &Value::from("1"),
        "1,2,three",
    );
    check(
        "alter table t alter k type text",
        &Value::Int(1),
        "1,2,three",
    );
}

#[test]
fn a_table_goes_and_comes() {
    let one = Value::Int(1);
    check("drop table t", &one, "42P01");
    check(
        "drop table t; create table t(a text, k int); insert into t values ('new', 1)",
        &one,
        "new,1",
    );
}

#[test]
fn a_type_goes_and_comes() {
    for postgres in databases() {
        let table = "create type mood as enum ('good'); create table m(k mood); \
                     insert into m values ('good')";
        postgres.execute(table).unwrap();
        let mut connection = connect(&postgres);
        let sql = "select * from m where k = $1";
        let good = [Value::from("good")];
        assert_eq!(shown(&connection.query(sql, &good)), "good");
        postgres
            .execute(&format!("drop table m; drop type mood; {table}"))
            .unwrap();
        assert_eq!(shown(&connection.query(sql, &good)), "good");
    }
}

#[test]
fn the_search_path_leads_elsewhere() {
    for postgres in databases() {
        let tables = "create schema other; create table t(k int, v int); \
                      create table other.t(k text, v text); \
                      insert into t values (1, 7); insert into other.t values ('1', 'seven')";
        postgres.execute(tables).unwrap();
        let mut connection = connect(&postgres);
        let sql = "select v from t where k = $1";
        let one = [Value::Int(1)];
        assert_eq!(shown(&connection.query(sql, &one)), "7");
        for set in [
            "set search_path to other",
            "select set_config('search_path', 'public', false)",
            "set search_path to other",
            "reset search_path",
        ] {
            connection.query(set, &[]).unwrap();
            let expected = if set.ends_with("other") { "seven" } else { "7" };
            assert_eq!(shown(&connection.query(sql, &one)), expected, "{set}");
        }
        connection.query("begin", &[]).unwrap();
        connection.query("set search_path to other", &[]).unwrap();
        assert_eq!(shown(&connection.query(sql, &one)), "seven");
        connection.query("rollback", &[]).unwrap();
        assert_eq!(shown(&connection.query(sql, &one)), "7");
        connection.query("discard all", &[]).unwrap();
        assert_eq!(shown(&connection.query(sql, &one)), "7");
    }
}

#[test]
fn in_a_transaction_the_caller_decides() {
    for postgres in databases() {
        postgres
            .execute("create table t(k int); insert into t values (1)")
            .unwrap();
        let mut connection = connect(&postgres);
        let sql = "select * from t";
        connection.query(sql, &[]).unwrap();
        connection.query("begin", &[]).unwrap();
        postgres.execute("alter table t add v int").unwrap();
        assert_eq!(shown(&connection.query(sql, &[])), "0A000");
        assert_eq!(shown(&connection.query(sql, &[])), "25P02");
        connection.query("rollback", &[]).unwrap();
        let answers = connection.request(Request::new(sql, &[])).unwrap();
        assert_eq!(shown(&answers[0]), "1,");
    }
}

/// The server plans a call of a function for the columns that it had then, and notices only while
/// it runs that there are others (42804).
#[test]
fn the_table_that_a_function_gives_changes() {
    for postgres in databases() {
        postgres
            .execute(
                "create table t(k int, a int); insert into t values (1, 2); \
                 create function f() returns setof t language plpgsql as \
                 $$ begin return query select * from t; end $$",
            )
            .unwrap();
        let mut connection = connect(&postgres);
        let sql = "select * from f()";
        assert_eq!(shown(&connection.query(sql, &[])), "1,2");
        postgres
            .execute("alter table t alter a type text using 'two'")
            .unwrap();
        for _ in 0..2 {
            assert_eq!(shown(&connection.query(sql, &[])), "1,two");
        }
        // What is wrong for good is said once more and not for ever.
        postgres
            .execute(
                "create function g() returns table (k int) language plpgsql as \
                 $$ begin return query select 'text'::text; end $$",
            )
            .unwrap();
        for _ in 0..2 {
            assert_eq!(shown(&connection.query("select * from g()", &[])), "42804");
        }
    }
}
