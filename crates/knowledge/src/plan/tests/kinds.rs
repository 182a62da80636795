//! Which statements are native, and which parameters are not.

use lookaside_value::Value;

use super::{Fixture, Storage, StoredRows, row_of};
use crate::plan::{PlanKind, Probe, ProbeAll};

const SCHEMA: &str = "
    create table kv(id bigint primary key, value text not null);
    insert into kv values (1, 'one'), (2, 'two');
    create table users(name text, tenant integer, org, unique (tenant, name));
    insert into users values ('a', 1, 'x'), ('b', 1, 'y'), ('a', 2, 'z'), (null, 3, null);
    create table dup(k text, v integer); create index dup_k on dup(k);
    insert into dup values ('a', 3), ('b', 2), ('a', 1);
    create table wide(k text, v integer); create index wide_kv on wide(k, v);
    insert into wide values ('a', 3), ('b', 2), ('a', 1);
    create table nets(lo integer, hi integer, name text);
    insert into nets values (0, 9, 'all'), (2, 4, 'in'), (20, 29, 'far');
    create table equal(lo integer, hi integer, x); create index equal_lo on equal(lo, x);
    insert into equal values (0, 9, 2), (0, 8, 1);
    create table typed(lo integer, hi, a); insert into typed values (1, 5, 'x');
    create table names(k text primary key, a text, b text, c text);
    insert into names values ('example.com', '', '', ''), ('com', '', '', '');
    create table texts(k text primary key, a text, b text, c text);
    insert into texts values ('a', '', '', ''), ('.', '', '', ''), ('/', '', '', '');
    create table keys(lo blob, hi blob, name text);
    insert into keys values (ip_key('10.0.0.0'), ip_key('10.255.255.255'), 'ten'),
        (ip_key('2001:db8::'), ip_key('2001:db8::ffff'), 'doc');
    create table words(lo text, hi text); insert into words values ('a', 'c'), ('m', 'z');
    create table mixed(lo, hi); insert into mixed values (1, 5), ('a', 'b');
    create table nocase(k text collate nocase, v); insert into nocase values ('A', 1);
    create table wr(a integer, b text, v, primary key (a, b)) without rowid;
    insert into wr values (2, 'x', 1), (1, 'y', 2), (1, 'x', 3);
    create table gen(a integer, b integer as (a * 2), c integer as (a + 1) stored);
    insert into gen values (1), (2);
    create table addresses(lo text, hi text, name text);
    insert into addresses values ('9.0.0.0', '255.0.0.0', 'all'), ('10.0.0.0', '10.255.255.255', 'ten'),
        ('0.0.0.2', '0.0.0.4', 'in');
    create view seen as select * from kv;
    create table \"odd \"\"name\"(\"a b\" integer, \"select\" text);
    insert into \"odd \"\"name\" values (1, 'x');
";

fn check(sql: &str, expected: PlanKind) {
    thread_local! {
        static FIXTURE: Fixture = Fixture::new("kinds", SCHEMA);
    }
    FIXTURE.with(|fixture| {
        let names = ["x", "y", "ip"];
        let plan = fixture.plan(sql, &names);
        let explanation = plan.explain();
        assert_eq!(explanation.kind, expected, "{sql}: {explanation}");
        if expected == PlanKind::Sqlite {
            assert_eq!(
                plan.first(&[Value::Null, Value::Null, Value::Null]),
                Probe::Fallback
            );
            assert!(plan.explain().reason.is_some());
        }
        for x in [
            Value::Int(1),
            Value::Int(3),
            Value::from("a"),
            Value::from("1"),
        ] {
            for ip in [Value::from("10.1.2.3"), Value::from("0.0.0.3")] {
                let values = [x.clone(), Value::Int(1), ip];
                fixture
                    .compare(&plan, sql, &names, &values)
                    .unwrap_or_else(|difference| panic!("{difference}"));
            }
        }
    });
}

#[test]
fn equality_is_native() {
    for sql in [
        "SELECT value FROM kv WHERE id=:x",
        "select value from kv where :x = id",
        "select value from kv where id == :x;",
        "select * from kv where (id = (:x))",
        "select KV.VALUE, kv.id as \"the id\", k.* from kv as k where k.id = :x",
        "select kv.* from kv where kv.id = :x",
        "select \"value\", [id], `id` from \"KV\" where \"ID\" = :x",
        "select value from kv -- a comment\n where /* another */ id = :x limit 1",
        "select value from kv where id = 2",
        "select value from kv where id = -2",
        "select value from kv where value = 'it''s'",
        "select org from users where tenant = :y and name = :x",
        "select org from users where (tenant = 1 and name = :x)",
        "select rowid, org from users where rowid = :x",
        "select oid from users where _rowid_ = :x",
        "select v from dup where k = :x",
        "select v from wide where k = :x order by rowid",
        "select v from wr where a = :x and b = 'x'",
        "select v from wr where b = :x",
        "select * from gen where b = :x",
        "select b from gen where c = :x",
        "select \"select\" from \"odd \"\"name\" where \"a b\" = :x",
        "select name from nets where lo = ip4_int(:ip)",
        "select name from keys where lo = ip_key(:ip)",
        "select name from nets where lo = ip4_int(trim_quotes(:ip))",
        "select v from nocase where v = :x",
        "select lo from addresses where ip_key(lo) = ip_key(:ip)",
        "select v from nocase where fold(:x) = fold(k) order by rowid limit 1",
    ] {
        // An alias hides the table's own name.
        let sql = sql.replace("KV.VALUE, kv.id", "k.VALUE, k.id");
        check(&sql, PlanKind::Hash);
    }
}

#[test]
fn intervals_are_native() {
    for sql in [
        "select name from nets where lo <= :x and hi >= :x",
        "select name from nets where hi >= :x and :x >= lo",
        "select name from nets where :x between lo and hi",
        "select name from nets where (:x between lo and hi) limit 1",
        "select name from nets where lo < :x and :x < hi",
        "select name from nets where lo <= :x and hi >= :x order by lo desc limit 1",
        "select name from nets where lo <= :x and hi >= :x order by lo desc",
        "select name, lo as low from nets where lo <= :x and hi >= :x order by nets.lo desc",
        "select name from nets where lo <= ip4_int(:ip) and hi >= ip4_int(:ip)",
        "select name from nets where ip4_int(:ip) between lo and hi",
        "select name from nets where ip4_between(:ip, lo, hi) = 1",
        "select name from nets where 1 = IP4_BETWEEN(:ip, lo, hi)",
        "select name from nets where ip4_between(:ip, lo, hi)",
        "select name from nets where ip4_between(:ip, lo, hi) = 1 order by lo desc limit 1",
        "select name from nets where ip4_between(:ip, lo, hi) order by nets.lo desc",
        "select name from addresses where ip4_between(:ip, lo, hi) limit 1",
        "select name from addresses where ip4_between(:ip, lo, hi) order by ip4_int(lo) desc limit 1",
        "select name from addresses where ip_key(:ip) between ip_key(lo) and ip_key(hi)",
        "select name from addresses where ip_key(lo) < ip_key(:ip) and ip_key(:ip) <= IP_KEY(hi)",
        "select name from addresses where ip_key(:ip) between ip_key(lo) and ip_key(hi) \
         order by ip_key(lo) desc limit 1",
        "select name from keys where ip_key(:ip) between lo and hi",
        "select lo from words where lo <= :x and hi > :x",
        "select lo from nets where lo <= 3 and hi >= 3",
        "select lo from nets where lo <= :x and lo >= :x",
        "select rowid from nets where rowid <= :x and hi >= :x",
    ] {
        check(sql, PlanKind::Interval);
    }
}

#[test]
fn the_rest_is_sqlites() {
    for sql in [
        "select value from kv",
        "select count(*) from kv where id = :x",
        "select upper(value) from kv where id = :x",
        "select distinct value from kv where id = :x",
        "select value from kv where id = :x group by value",
        "select value from kv where id = :x limit 2",
        "select value from kv where id = :x limit 1 offset 1",
        "select value from kv where id = :x limit :y",
        "select value from kv where id = :x order by value",
        "select value from kv where id = :x or id = :y",
        "select value from kv where id in (:x)",
        "select value from kv where id is :x",
        "select value from kv where not id = :x",
        "select value from kv where id <> :x",
        "select value from kv where id = :x and id = :y",
        "select value from kv where +id = :x",
        "select value from kv where id = 1.5",
        "select value from kv where id = 0x10",
        "select value from kv where id = null",
        "select value from kv where id = :x collate nocase",
        "select value from kv where cast(id as text) = :x",
        "select value from kv where id = value",
        "select value from kv where id = ?1",
        "select value from kv where id = @x",
        "select value from kv where id = :unknown",
        "select \"nothing\" from kv where id = :x",
        "select value from kv where \"nothing\" = :x",
        "select value from kv where id = (select :x)",
        "with t as (select 1) select value from kv where id = :x",
        "select value from kv where id = :x union select 1",
        "select value from (select * from kv) where id = :x",
        "select a.value from kv a join kv b on a.id = b.id where a.id = :x",
        "select a.value from kv a, kv b where a.id = :x",
        "select value from seen where id = :x",
        "select value from main.kv where id = :x",
        "select name from sqlite_schema where name = :x",
        "select v from nocase where k = :x",
        "select v from wide where k = :x",
        // SQLite reads the index of the primary key, in its order.
        "select k from texts where regexp_like(:x, k)",
        "select k from names where host_under(:x, k)",
        "select lo from equal where :x between lo and hi order by lo desc",
        "select name from nets where lo <= :x and hi >= '3'",
        "select a from typed where lo <= :x and hi >= :x",
        "select lo from mixed where lo <= :x and hi >= :x",
        "select lo from nets where lo <= :x",
        "select lo from nets where lo <= :x and hi >= :x and name = :y",
        "select lo from nets where lo <= :x and hi >= :x order by lo",
        "select lo from nets where lo <= :x and hi >= :x order by hi desc limit 1",
        "select hi as lo from nets where lo <= :x and hi >= :x order by lo desc limit 1",
        "select lo from nets where lo <= :x and hi >= :x order by lo desc nulls last",
        "select lo from nets where lo <= :x and hi >= :x order by 1 desc",
        "select lo from nets where :x not between lo and hi",
        "select lo from nets where lo between :x and :y",
        "select lo from nets where ip4_between(:ip, lo, hi) = 0",
        "select lo from nets where ip4_between(:ip, lo, hi) order by hi desc limit 1",
        "select lo from nets where ip4_between(:ip, lo, hi) order by lo limit 1",
        "select lo from nets where ip4_between(:ip, lo, hi) order by ip4_text(lo) desc limit 1",
        "select lo from addresses where ip4_between(:ip, lo, hi) order by lo desc limit 1",
        "select lo from addresses where ip4_between(:ip, lo, hi) order by ip_key(lo) desc limit 1",
        "select lo from addresses where lo <= :ip and hi >= :ip",
        "select lo from addresses where :ip between lo and ip_key(hi)",
        "select lo from addresses where ip_key(:ip) between ip_key(lo) and ip_key(hi) order by lo desc",
        "select lo from nets where ip4_between(:ip, 0, 9) = 1",
        "select lo from words where ip4_between(:ip, lo, hi) = 1",
        "select rowid from wr where a = :x",
        "select value from kv where id = :x\u{a0}",
        "select value from kv where id = :x; select 2",
        "update kv set value = 1 where id = :x",
        "selekt nonsense",
        "",
    ] {
        check(sql, PlanKind::Sqlite);
    }
}

#[test]
fn the_first_of_several_rows_is_known_where_sqlite_walks_in_scan_order() {
    let fixture = Fixture::new("first", SCHEMA);
    let check = |sql: &str, value: Value, first: Option<Value>| {
        let plan = fixture.plan(sql, &["x"]);
        let found = match plan.first(std::slice::from_ref(&value)) {
            Probe::Row(row) => Some(row_of(&plan, row)[0].clone()),
            Probe::Absent => panic!("{sql}: no row"),
            Probe::Refused | Probe::Fallback => None,
        };
        assert_eq!(found, first, "{sql}");
        fixture.compare(&plan, sql, &["x"], &[value]).unwrap();
    };
    check("select v from dup where k = :x", "a".into(), Some(3.into()));
    check(
        "select v from wide where k = :x order by rowid",
        "a".into(),
        Some(3.into()),
    );
    check("select v from wr where a = :x", 1.into(), Some(3.into()));
    let holds = "select name from nets where :x between lo and hi";
    check(holds, 3.into(), Some("all".into()));
    check(
        &format!("{holds} order by lo desc"),
        3.into(),
        Some("in".into()),
    );
}

#[test]
fn every_parameter_has_a_native_answer() {
    let fixture = Fixture::new("parameters", SCHEMA);
    let sql = "select value from kv where id = :x";
    let plan = fixture.plan(sql, &["x"]);
    for (value, expected) in [
        (Value::from("1"), Probe::Row(0)),
        (Value::from(" 1"), Probe::Row(0)),
        (Value::from("2.0"), Probe::Row(1)),
        (Value::from("02"), Probe::Row(1)),
        (Value::from("1e0"), Probe::Row(0)),
        (Value::from("+1"), Probe::Row(0)),
        (Value::from("0x1"), Probe::Absent),
        (Value::from("1.5"), Probe::Absent),
        (Value::from("10.0.0.1"), Probe::Absent),
        (Value::from("9223372036854775808"), Probe::Absent),
        (Value::Float(2.0), Probe::Row(1)),
        (Value::Float(2.5), Probe::Absent),
        (Value::Bool(true), Probe::Row(0)),
        (Value::Null, Probe::Absent),
        (Value::from("x"), Probe::Absent),
        (Value::from(vec![1_u8]), Probe::Absent),
    ] {
        let values = std::slice::from_ref(&value);
        assert_eq!(plan.first(values), expected, "{value:?}");
        fixture.compare(&plan, sql, &["x"], values).unwrap();
    }
    let plan = fixture.plan("select name from nets where :x between lo and hi", &["x"]);
    assert_eq!(plan.first(&[Value::Float(3.5)]), Probe::Row(0));
    // Byte strings of another size than the bounds.
    let ten = [&[0; 10][..], &[0xff, 0xff, 10, 1]].concat();
    let longer = [&ten[..], &[0, 0, 0]].concat();
    for (sql, value, expected) in [
        (
            "select name from keys where :x between lo and hi",
            ten.into(),
            Probe::Row(0),
        ),
        (
            "select name from keys where :x between lo and hi",
            longer.into(),
            Probe::Row(0),
        ),
        (
            "select lo from words where :x between lo and hi",
            "bb".into(),
            Probe::Row(0),
        ),
        (
            "select lo from words where :x between lo and hi",
            "cc".into(),
            Probe::Absent,
        ),
        (
            "select lo from words where :x between lo and hi",
            Value::from(""),
            Probe::Absent,
        ),
    ] {
        let plan = fixture.plan(sql, &["x"]);
        let values = std::slice::from_ref(&value);
        assert_eq!(plan.first(values), expected, "{value:?}");
        fixture.compare(&plan, sql, &["x"], values).unwrap();
    }
    // Too few parameters must not panic.
    assert_eq!(plan.first(&[]), Probe::Refused);
    // If a function refuses its argument, SQLite reports the error.
    let plan = fixture.plan("select name from nets where lo = ip4_int(:x)", &["x"]);
    assert_eq!(plan.first(&[Value::Int(5)]), Probe::Refused);
    let all = plan.all(&[Value::Int(5)], &mut Vec::new());
    assert_eq!(all, ProbeAll::Refused);
}

/// SQLite evaluates an operand with a function before the first row only where it seeks in an index,
/// so an empty table is not enough to get the error, but the operand is.
#[test]
fn booleans_are_not_bounds() {
    let script = "create table t (a text boolean); insert into t values ('true'), ('false');";
    let fixture = Fixture::stored("bools", script, Storage::Sqlite);
    let plan = fixture.plan("select a from t where a <= :x and a >= :x", &["x"]);
    assert_eq!(plan.explain().kind, PlanKind::Sqlite);
}

#[test]
fn bounds_that_are_compared_with_two_operands_are_those_of_one_value() {
    let fixture = Fixture::new("two", SCHEMA);
    let sql = "select name from nets where lo <= :x and hi >= :y";
    let plan = fixture.plan(sql, &["x", "y"]);
    assert_eq!(plan.explain().kind, PlanKind::Interval);
    assert!(plan.may_need_sqlite());
    for x in [
        Value::Int(5),
        Value::from("5"),
        Value::Null,
        Value::Float(5.5),
    ] {
        let values = [x.clone(), x];
        assert_eq!(fixture.compare(&plan, sql, &["x", "y"], &values), Ok(true));
    }
    let values = [Value::Int(5), Value::Int(6)];
    assert_eq!(fixture.compare(&plan, sql, &["x", "y"], &values), Ok(false));
    assert_eq!(plan.first(&values), Probe::Fallback);
}

#[test]
fn the_error_of_an_operand_needs_no_rows() {
    let fixture = Fixture::new("refused", SCHEMA);
    let empty = Fixture::new("refused-empty", SCHEMA);
    for table in ["users", "nets", "addresses", "kv", "wr", "words", "wide"] {
        let sql = format!("delete from {table}");
        empty.connection.execute_batch(&sql).unwrap();
    }
    let other = Fixture::new("refused-other", "");
    for (sql, operand, is_sought) in [
        (
            "select name from nets where lo = ip4_int(:x)",
            "ip4_int(:x)",
            false,
        ),
        (
            "select value from kv where id = ip4_int(:x)",
            "ip4_int(:x)",
            true,
        ),
        (
            "select org from users where tenant = ip4_int(:x) and name = 'a'",
            "ip4_int(:x)",
            true,
        ),
        (
            "select v from wide where fold(k) = fold(trim_quotes(:x)) and v = 3",
            "trim_quotes(:x)",
            false,
        ),
        (
            "select name from nets where ip4_int(:x) between lo and hi",
            "ip4_int(:x)",
            false,
        ),
        (
            "select name from nets where rowid <= ip4_int(:x) and hi >= ip4_int(:x)",
            "ip4_int(:x)",
            false,
        ),
        (
            "select v from wr where ip4_int(:x) between a and a",
            "ip4_int(:x)",
            true,
        ),
        (
            "select name from nets where ip4_between(:x, lo, hi)",
            "ip4_between(:x, 0, 0)",
            false,
        ),
        (
            "select lo from words where host_under(trim_quotes(:x), lo)",
            "trim_quotes(:x)",
            false,
        ),
        (
            "select lo from words where regexp_like(trim_quotes(:x), lo)",
            "trim_quotes(:x)",
            false,
        ),
    ] {
        for value in [Value::Int(5), Value::Null] {
            let ask = |fixture: &Fixture, sql: &str| {
                fixture.sqlite(sql, &["x"], std::slice::from_ref(&value), usize::MAX)
            };
            let plan = fixture.plan(sql, &["x"]);
            let first = plan.first(std::slice::from_ref(&value));
            assert_eq!(first, Probe::Refused, "{sql}, {value:?}");
            let refused = ask(&fixture, sql);
            assert!(refused.is_err(), "{sql}, {value:?}: {refused:?}");
            assert_eq!(ask(&other, &format!("select {operand}")), refused, "{sql}");
            let nothing = match is_sought {
                true => refused,
                false => Ok(Vec::new()),
            };
            assert_eq!(ask(&empty, sql), nothing, "{sql}");
        }
    }
}

/// `ip4_between` is called for each row, so nothing refuses its argument if there are none.
#[test]
fn no_row_refuses_no_argument() {
    let fixture = Fixture::new("no-rows", "create table nets(lo integer, hi integer);");
    let sql = "select lo from nets where ip4_between(:x, lo, hi)";
    let plan = fixture.plan(sql, &["x"]);
    assert_eq!(plan.first(&[Value::Int(5)]), Probe::Absent);
    fixture
        .compare(&plan, sql, &["x"], &[Value::Int(5)])
        .unwrap();
}

#[test]
fn indexes_and_snapshots_are_shared() {
    let fixture = Fixture::stored("shared", SCHEMA, Storage::Sqlite);
    let one = fixture.plan("select name from nets where :x between lo and hi", &["x"]);
    let two = fixture.plan("select NAME from nets where lo <= :y and :y <= hi", &["y"]);
    let rows = |plan: &crate::plan::LookupPlan| match plan.row(0).0 {
        StoredRows::Set(rows) => rows.row(0).as_ptr(),
        StoredRows::Packed(_) => panic!("the table is small"),
    };
    assert_eq!(rows(&one), rows(&two));
    let other = fixture.plan("select name as n from nets where lo = :x", &["x"]);
    assert_eq!(other.row(0).0.columns()[0], "n");
}
