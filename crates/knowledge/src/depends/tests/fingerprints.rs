//! The fingerprint of the catalog changes with definitions, and only with them.

use lookaside_client::postgres::blocking::Connection;

use super::super::{Names, Shape, definitions_fingerprint_sql, publication_fingerprint_sql};
use super::{PUBLICATION, connect, databases, run, value_of};

const SCHEMA: &str = "
create type mood as enum ('sad', 'happy');
create domain email as text;
create table t (id int primary key, a int not null, b text, feeling mood, mail email);
create table u (id int primary key);
create unique index t_a on t (a);
insert into t select n, n, repeat('x', 100), 'sad' from generate_series(1, 2000) n;
create publication feed for table t, u;
create schema other;
";

/// Each changes what a class may rest on.
const CHANGES: &[&str] = &[
    "alter table t add column c int",
    "alter table t drop column c",
    "alter table t rename column b to c",
    "alter table t alter column c type varchar(200)",
    "alter table t alter column c type text using c || 'x'",
    "alter table t alter column c set not null",
    "alter table t rename to v",
    "alter table v rename to t",
    "alter table t replica identity full",
    "alter table t replica identity using index t_a",
    "alter table t replica identity default",
    "vacuum full t",
    "cluster t using t_pkey",
    "truncate t",
    "alter publication feed drop table t",
    "alter publication feed add table t",
    "alter publication feed set (publish = 'insert')",
    "alter publication feed set table t (id, a), u",
    "alter publication feed set table t where (id > 1), u",
    "alter publication feed set tables in schema public",
    "alter publication feed set tables in schema other",
    "alter publication feed set table u",
    "drop publication feed",
    "create publication feed for all tables",
    "create function lower(int) returns int language sql as 'select 1'",
    "create or replace function lower(int) returns int language sql as 'select 2'",
    "drop function lower(int)",
    "create operator # (leftarg = text, rightarg = text, function = pg_catalog.texteq)",
    "drop operator # (text, text)",
    "alter table t enable row level security",
    "alter table t disable row level security",
    "alter table t set unlogged",
    "alter table t set logged",
    "alter type mood rename value 'sad' to 'unhappy'",
    "alter type mood add value 'calm'",
    "create table child () inherits (t)",
    "drop table child",
    "drop index t_a",
    "alter table t drop constraint t_pkey",
    "alter table t add primary key (id)",
    "create schema early",
    "create table early.t (id int primary key)",
    "set search_path = early, public",
    "set search_path = public",
    "begin; drop table t; create table t (id int primary key); commit",
    "drop table t cascade",
];

/// None of these changes a definition.
const OTHERS: &[&str] = &[
    "insert into t values (5000, 5000, 'x', 'happy')",
    "update t set b = b || 'y', feeling = 'happy'",
    "update t set id = id + 10000 where id < 100",
    "delete from t where id % 3 = 0",
    "analyze t",
    "vacuum t",
    "vacuum (analyze, freeze) t",
    "vacuum",
    "vacuum (freeze) pg_class, pg_attribute, pg_type, pg_index, pg_proc, pg_publication",
    "analyze",
    "reindex table u",
    "create table w (id int primary key)",
    "create index on w (id)",
    "drop table w",
    "create function w() returns int language sql as 'select 1'",
    "select id, lower(b) from t",
    "checkpoint",
];

#[test]
fn each_change_of_a_definition_changes_it() {
    for (_database, mut connection) in databases() {
        run(&mut connection, SCHEMA);
        let mut names = Names::of(&Shape::of("select lower(b) from t where id = $1"));
        names.add(&Shape::of(
            "select id from u where id = $1 and b # c = '\\'",
        ));
        // A name with quotes and a backslash only has to be looked for.
        names.add(&Shape::of(r#"select a from "it's \ ""odd""" where a = $1"#));
        let sql = format!("select {}", names.fingerprint_sql(PUBLICATION));
        let mut before = value_of(&mut connection, &sql, &[]);
        for script in OTHERS {
            run(&mut connection, script);
            let after = value_of(&mut connection, &sql, &[]);
            assert_eq!(after, before, "{script}");
        }
        for script in CHANGES {
            run(&mut connection, script);
            let after = value_of(&mut connection, &sql, &[]);
            let is_unrelated = matches!(*script, "create schema early")
                || script.starts_with("create table early");
            match is_unrelated {
                true => assert_eq!(after, before, "{script}"),
                false => assert_ne!(after, before, "{script}"),
            }
            before = after;
        }
    }
}

/// A virtual column is computed when it is read, so its expression is part of the answers.
#[test]
fn expressions_of_columns_are_part_of_it() {
    for (_database, mut connection) in databases() {
        let version = value_of(&mut connection, "show server_version_num", &[]);
        if version.as_str() < Some("180000") {
            continue;
        }
        run(
            &mut connection,
            "create table t (id int primary key, a int generated always as (id + 1) virtual)",
        );
        let names = Names::of(&Shape::of("select a from t where id = $1"));
        let sql = format!("select {}", names.fingerprint_sql(PUBLICATION));
        let before = value_of(&mut connection, &sql, &[]);
        run(
            &mut connection,
            "alter table t alter column a set expression as (id + 2)",
        );
        assert_ne!(value_of(&mut connection, &sql, &[]), before);
    }
}

/// Many probes a second ask for it, also while DDL is under way.
#[test]
fn it_waits_for_no_lock() {
    for (database, mut connection) in databases() {
        run(&mut connection, SCHEMA);
        let names = Names::of(&Shape::of("select lower(b) from t where id = $1"));
        let sql = format!("select {}", names.fingerprint_sql(PUBLICATION));
        let before = value_of(&mut connection, &sql, &[]);
        let mut other = connect(&database);
        run(&mut other, "begin; alter table t add column z int");
        run(&mut connection, "set statement_timeout = '5s'");
        assert_eq!(value_of(&mut connection, &sql, &[]), before);
        run(&mut other, "commit");
        assert_ne!(value_of(&mut connection, &sql, &[]), before);
    }
}

#[test]
fn what_is_published_has_a_fingerprint_of_its_own() {
    for (database, mut connection) in databases() {
        run(&mut connection, SCHEMA);
        run(&mut connection, "create table apart (id int primary key)");
        let [publication, definitions] = [
            publication_fingerprint_sql(PUBLICATION),
            definitions_fingerprint_sql(PUBLICATION),
        ]
        .map(|subquery| format!("select {subquery}"));
        let values = |connection: &mut Connection| {
            [&publication, &definitions].map(|sql| value_of(connection, sql, &[]))
        };
        let mut before = values(&mut connection);
        for script in [
            "delete from t where id = 1",
            "alter table apart add column a int",
            "vacuum analyze t",
        ] {
            run(&mut connection, script);
            assert_eq!(values(&mut connection), before, "{script}");
        }
        let alter = format!("alter publication {PUBLICATION}");
        for (script, changed) in [
            (format!("{alter} add table apart"), [true, true]),
            (
                "alter table apart add column b int".to_owned(),
                [false, true],
            ),
            (
                "alter table apart replica identity full".to_owned(),
                [false, true],
            ),
            (
                "create unique index apart_b on apart (b)".to_owned(),
                [false, true],
            ),
            (format!("{alter} drop table apart"), [true, true]),
            (
                format!("{alter} set (publish = 'insert, update, delete')"),
                [true, false],
            ),
        ] {
            run(&mut connection, &script);
            let after = values(&mut connection);
            let differ = [0, 1].map(|at| after[at] != before[at]);
            assert_eq!(differ, changed, "{script}");
            before = after;
        }
        let mut other = connect(&database);
        run(&mut other, "begin; alter table t add column z int");
        run(&mut connection, "set statement_timeout = '5s'");
        assert_eq!(values(&mut connection), before);
    }
}
