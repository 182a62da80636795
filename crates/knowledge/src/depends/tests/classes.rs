//! The classes that text and catalog give together.

use lookaside_client::postgres::blocking::Connection;
use lookaside_value::Value;

use super::super::Dependency;
use super::{databases, dependency, run, skip, value_of};

pub(super) const SCHEMA: &str = r#"
create table t (id int primary key, code text, name varchar(9), big bigint, small smallint,
    ok bool, ref uuid, price float8, amount numeric, day date, at timestamptz default now(),
    data jsonb, tags text[], raw bytea, fixed char(3), net inet,
    twice int generated always as (id * 2) stored, length int);
create table "Mixed ""x" ("Id" int primary key);
create table odd (a int primary key, kind regclass);
create table u (a int, b text, primary key (a, b));
create table whole (a text, b int unique not null);
alter table whole replica identity full;
create table by_index (a text unique not null, b int primary key);
alter table by_index replica identity using index by_index_a_key;
create table bare (a int);
create table nothing (a int primary key);
alter table nothing replica identity nothing;
create unlogged table volatile (a int primary key);
create table secured (a int primary key);
alter table secured enable row level security;
create table parent (a int primary key);
create table child (b int) inherits (parent);
create table parted (a int primary key) partition by list (a);
create table part_one partition of parted for values in (1);
create table unpublished (a int primary key);
create view v as select * from t;
create materialized view m as select id from t;
create type mood as enum ('sad', 'happy');
create domain email as text check (value like '%@%');
create type pair as (x int, y int);
create table typed (a int primary key, feeling mood, mail email, both_of pair);
create collation loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table collated (a text collate loose primary key);
create function custom(int) returns int language sql immutable as 'select $1';
create function lower(t) returns text language sql volatile as 'select random()::text';
create function hidden(u) returns text language sql volatile as 'select random()::text';
create type own as (x int);
create function own_at(own, own) returns bool language sql as 'select random() < 0.5';
create operator && (leftarg = own, rightarg = own, function = own_at);
create function texts_at(text, text) returns bool language sql immutable as 'select true';
create operator # (leftarg = text, rightarg = text, function = texts_at);
create operator ^@ (leftarg = text, rightarg = int, function = pg_catalog.repeat);
create table owning (a int primary key, it own);
create schema other;
create table other.t (id text primary key);
create publication feed for table t, "Mixed ""x", u, whole, by_index, nothing, secured, parent,
    parted, typed, odd, collated, owning, other.t, bare;
"#;

fn class_of(connection: &mut Connection, sql: &str) -> String {
    match dependency(connection, sql) {
        Dependency::Key(key) => {
            let columns = key.columns.iter();
            let columns: Vec<String> = columns
                .map(|it| format!("{}={}", it.name, it.parameter + 1))
                .collect();
            let is_unique = if key.is_unique { " unique" } else { "" };
            format!("K {}{is_unique}", columns.join(" "))
        }
        Dependency::Table { relations, reason } => format!("T{} {reason}", relations.len()),
        Dependency::None { reason } => format!("N {reason}"),
    }
}

/// Checks lines of the form `statement → class`.
fn check_all(connection: &mut Connection, lines: &str) {
    let mut wrong = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (sql, expected) = line.split_once("  →  ").expect("the line has an arrow");
        let seen = class_of(connection, sql.trim());
        let is_right = match expected.strip_suffix('…') {
            Some(expected) => seen.starts_with(expected),
            None => seen == expected,
        };
        if !is_right {
            wrong.push(format!("{}  →  {seen}", sql.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn statements_have_the_class_that_the_catalog_allows() {
    for (_database, mut connection) in databases() {
        run(&mut connection, SCHEMA);
        check_all(
            &mut connection,
            r#"
            select * from t where id = $1  →  K id=1 unique
            select name, price, at, day, raw from t where ID = $1 and code > 'a'  →  K id=1 unique
            select name from public.t as x where x.id = $1::bigint and $1 = x.id  →  K id=1 unique
            select * from other.t where id = $1  →  K id=1 unique
            select * from "Mixed ""x" where "Id" = $1  →  K Id=1 unique
            select b from u where b = $1 and a = $2  →  K a=2 b=1 unique
            select b from u where a = $1  →  K a=1
            select b from u where a = $1 limit 1  →  N limits the rows without an order…
            select b from u where a = $1 order by b limit 1  →  K a=1
            select b from u where a = $1 and b = $2 limit 1  →  K a=1 b=2 unique
            select b from u where a = $1 and a = $2 and b = $3  →  K a=1 b=3 unique
            select a from whole where a = $1  →  K a=1
            select a from whole where b = $1 and a = $2  →  K a=2 b=1 unique
            select b from by_index where a = $1  →  K a=1 unique
            select a from by_index where b = $1  →  T1 has b in its key, but the replica identity has not
            select id from t where code = $1  →  T1 has code in its key, but the replica identity has not
            select id from t where amount = $1  →  T1 has amount of the type numeric in its key
            select id from t where fixed = $1  →  T1 has fixed of the type character(3) in its key
            select id from t where price = $1  →  T1 has price of the type double precision in its key
            select id from t where twice = $1  →  T1 has the generated column twice in its key
            select id from t where id = $1::numeric  →  T1 compares id with a parameter of another type
            select id from t where id = $1 and name = $1  →  T1 …
            select a from collated where a = $1  →  T1 has a in its key, whose collation has equal texts
            select count(*) from t where id = $1  →  T1 combines rows
            select max(id), min(name), sum(amount), avg(big) from t  →  T1 has no condition
            select id from t order by at desc limit 3  →  T1 has no condition
            select day, count(*) from t group by day  →  T1 has no condition…
            select t.id from t join u on t.id = u.a where u.b = $1  →  T2 joins tables
            with x as (select id, code from t) select x.id from x join u on u.a = x.id  →  T2 has a common…
            with u as (select id from t) select id from u  →  T2 has a common table expression
            select id from t where exists (select from u where u.a = t.id)  →  T2 contains another query
            select id from t where net = $1 or data @> '{}' or ok is true  →  T1 uses parameters…
            select lower(code) from t where id = $1  →  N uses the function lower(), which is not built in
            select upper(code), btrim(name), substring(name from 2) from t where id = $1  →  K id=1 unique
            select coalesce(name, 'x'), nullif(code, ''), abs(big), round(amount) from t where id = $1  →  K id=1 unique
            select length(code), length from t where id = $1  →  K id=1 unique
            select feeling, mail from typed where a = $1 and feeling = 'sad' and mail <> ''  →  K a=1 unique
            "#,
        );
        check_all(
            &mut connection,
            r#"
            select * from missing where a = $1  →  N reads "missing", which does not exist
            select * from v where id = $1  →  N reads "v", which is a view
            select * from m where id = $1  →  N reads "m", which is a materialized view
            select * from volatile where a = $1  →  N reads "volatile", which is an unlogged table
            select * from secured where a = $1  →  N reads "secured", which is a table with row security
            select * from parent where a = $1  →  N reads "parent", which is a table that others inherit from
            select * from parted where a = $1  →  N reads "parted", which is a partitioned table
            select * from part_one where a = $1  →  N reads "part_one", which is a partition
            select * from unpublished where a = $1  →  N reads "unpublished", which is not in the publication
            select * from bare where a = $1  →  N reads "bare", which has no replica identity
            select * from nothing where a = $1  →  N reads "nothing", which has no replica identity
            select relname from pg_class where relname = $1  →  N reads "pg_class", which is a table of the system
            select 1  →  N reads no table
            select custom(id) from t where id = $1  →  N uses the function custom(), which is not built in
            select unheard_of(id) from t where id = $1  →  N uses the unknown function unheard_of()
            select to_char(amount, '9') from t where id = $1  →  N uses the function to_char(), which is not immutable
            select concat(name, code) from t where id = $1  →  N uses the function concat(), which is not immutable
            select date_trunc('day', day) from t where id = $1  →  N uses the function date_trunc()…
            select make_date(1, 2, 3) from t where id = $1  →  N uses the function make_date(), whose result…
            select regexp_split_to_table(name, ',') from t where id = $1  →  N uses the function regexp_split_to_table(), which returns rows
            select id from t where id = $1 and day = 'today'  →  N computes or compares with day…
            select id from t where day = $1  →  N computes or compares with day…
            select id from t where at < $1  →  N computes or compares with at…
            select id from t where id = $1 and isfinite('today')  →  N calls isfinite() with a literal…
            select max('x') from t  →  N calls max() with a literal…
            select coalesce(day, 'tomorrow') from t where id = $1  →  N computes or compares with day…
            select day from t union select 'today'  →  N computes or compares with day…
            select * from (select day as d from t) s where s.d = 'today'  →  N computes or compares…
            select kind from odd where a = $1  →  N reads kind, whose type regclass may depend…
            select both_of from typed where a = $1  →  N reads both_of, whose type pair may depend…
            select tags || 'x' from t where id = $1  →  K id=1 unique
            select name || price from t where id = $1  →  N may write price as text…
            select name # code from t where id = $1  →  N uses the operator #, which is not built in or not immutable
            select name ^@ 'x' from t where id = $1  →  K id=1 unique
            select a from owning where a = $1 and it && it  →  N …
            select tags && tags from t where id = $1  →  K id=1 unique
            select hidden from u where a = $1  →  N uses hidden, which is not a column of its tables
            select u.hidden from u where a = $1  →  N uses hidden, which is not a column of its table
            select u from u where a = $1  →  N uses u, which is not a column of its tables
            select x.a from u where a = $1  →  N uses x, which is not among its tables
            select nope from u where a = $1  →  N uses nope, which is not a column of its tables
            select b as c from u where a = $1 order by c  →  K a=1
            select a from u x(b, a) where a = $1  →  N gives other names to the columns of a table
            select s.hidden from (select a, 1 as hidden from u) s  →  N uses hidden, which may be a function…
            select s.a from (select a, 1 as hidden from u) s  →  T1 does not read a plain table
            with x(y) as (select a from u) select y from x  →  T1 has a common table expression
            with w as (select a from u) select z.q from w as z(q)  →  T1 has a common table expression
            "#,
        );
    }
}

#[test]
fn the_publication_has_to_be_complete() {
    for (database, mut connection) in databases() {
        run(
            &mut connection,
            "create table t (id int primary key, a int, b int); create table u (id int primary key);",
        );
        let sql = "select id, a from t where id = $1";
        let mut check = |script: &str, sql: &str, expected: &str| {
            run(&mut connection, script);
            assert_eq!(class_of(&mut connection, sql), expected, "{script}");
        };
        let missing = "N reads \"t\", which is not in the publication";
        check("", sql, missing);
        check("create publication feed for table u", sql, missing);
        check("alter publication feed add table t", sql, "K id=1 unique");
        check(
            "alter publication feed set (publish = 'insert, update, delete')",
            sql,
            "N reads a publication that leaves out kinds of changes",
        );
        check("drop publication feed", sql, missing);
        check(
            "create publication feed for all tables",
            sql,
            "K id=1 unique",
        );
        // Filters and column lists exist from 15 on, which both versions are.
        check(
            "drop publication feed; create publication feed for table t (id, a)",
            sql,
            "K id=1 unique",
        );
        check(
            "",
            "select id from t where id = $1 and b = 1",
            "N reads b of \"t\", which is not published",
        );
        check(
            "",
            "select * from t where id = $1",
            "N reads b of \"t\", which is not published",
        );
        check(
            "drop publication feed; create publication feed for table t where (id > 3)",
            sql,
            "N reads \"t\", of which only some rows are published",
        );
        drop(database);
    }
}

#[test]
fn settings_of_the_session_are_looked_at() {
    for (_database, mut connection) in databases() {
        run(
            &mut connection,
            "create table t (id int primary key); create publication feed for table t;",
        );
        let sql = "select id from t where id = $1";
        let mut check = |script: &str, expected: &str| {
            run(&mut connection, script);
            assert_eq!(class_of(&mut connection, sql), expected, "{script}");
        };
        check("", "K id=1 unique");
        check(
            "set search_path = public, pg_catalog",
            "N is run with a search_path that does not begin with pg_catalog",
        );
        check(
            "set search_path = other",
            "N reads \"t\", which does not exist",
        );
        check(
            "reset search_path; create temporary table t (id int primary key)",
            "N reads \"t\", which is a temporary table",
        );
        check("drop table pg_temp.t", "K id=1 unique");
        check(
            "set standard_conforming_strings = off",
            "N is run with standard_conforming_strings = off",
        );
    }
}

/// Types of extensions compare by immutable functions in C.
#[test]
fn types_of_extensions_depend_on_their_table() {
    for (_database, mut connection) in databases() {
        let available = "select count(*) from pg_available_extensions where name = 'citext'";
        if value_of(&mut connection, available, &[]) == Value::Int(0) {
            skip("the extension citext is not installed");
            continue;
        }
        run(
            &mut connection,
            "create extension citext; create table t (id int primary key, name citext, a text);
             create publication feed for table t;",
        );
        check_all(
            &mut connection,
            "
            select id from t where name = $1  →  T1 has name of the type citext in its key
            select id, name from t where id = $1 and name <> 'x'  →  K id=1 unique
            select id from t where id = $1 and a like 'x%'  →  K id=1 unique
            select lower(name) from t where id = $1  →  K id=1 unique
            select replace(a, 'x', 'y') from t where id = $1  →  N uses the function replace()…
            ",
        );
    }
}
