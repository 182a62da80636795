//! Random changes of rows: an answer changes only if its key is touched.

use std::collections::HashSet;

use lookaside_client::postgres::blocking::Connection;
use lookaside_value::Value;

use super::super::{Dependency, Field, KeyColumn, KeyDependency, RowKey};
use super::{databases, dependency, run, seed};

const CHANGE_COUNT: usize = 25;

/// How many random statements with a key there are. About a quarter of all has one.
const KEYED_COUNT: usize = 15;
const STATEMENT_COUNT_MAX: usize = 10_000;

/// Few random changes may concern none of them.
const ROUND_COUNT_MAX: usize = 100;

const SCHEMA: &str = "
create table t (id int primary key, a text, b bigint, ok bool, note text);
alter table t replica identity full;
create publication feed for table t;
insert into t select n, n % 3, n % 2, n % 5 = 0, 'n' || n from generate_series(1, 12) n;
";

/// Statements with keys over one to three columns. Their rows have an order, so that answers can be
/// compared.
const STATEMENTS: &[&str] = &[
    "select * from t where id = $1",
    "select note from t where a = $1 order by id",
    "select id, upper(note) from t where b = $1 and a = $2 and not ok order by id desc limit 2",
    "select distinct a, note from t where $1 = b and id > 4 order by a, note",
    "select id from t where id = $1 and b = $1 order by id",
    "select id from t where a = $1 and a = $2 order by id",
    "select note from t where ok = $1 and b = $2::int and note like 'n%' order by id",
];

fn change(random: &mut fastrand::Rng) -> String {
    let id = random.u8(0..16);
    let a = random.choice(["'0'", "'1'", "'2'", "''", "null"]).unwrap();
    let b = random.choice(["0", "1", "2", "null"]).unwrap();
    let note = random.choice(["'n1'", "'x'", "null"]).unwrap();
    let ok = random.choice(["true", "false", "null"]).unwrap();
    match random.u8(0..6) {
        0 => format!("insert into t values ({id}, {a}, {b}, {ok}, {note}) on conflict do nothing"),
        1 => format!("delete from t where id = {id}"),
        2 => format!("update t set a = {a} where id = {id}"),
        3 => format!("update t set b = {b}, ok = {ok} where id = {id}"),
        4 => format!("update t set note = {note} where id = {id}"),
        _ => format!(
            "update t set id = {id} + 20, a = {a} where id = {id} \
             and not exists (select from t where id = {id} + 20)"
        ),
    }
}

/// The rows, each as the fields of a change feed, by column.
fn rows(connection: &mut Connection) -> HashSet<Vec<Option<Vec<u8>>>> {
    let sql = "select int4send(id), textsend(a), int8send(b), boolsend(ok), textsend(note) from t";
    let answer = connection.query(sql, &[]).unwrap();
    let field = |value: &Value| match value {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    let rows = answer.rows.iter();
    rows.map(|row| row.iter().map(field).collect()).collect()
}

/// How many of the conditions, from the first, are terms of a key.
const KEY_CONDITION_COUNT: usize = 9;

/// Parts of conditions; PostgreSQL and the parser could take them together in different ways.
const CONDITIONS: &[&str] = &[
    "a = $1",
    "$2 = b",
    "b=$2",
    "(id) = ($1)",
    "ok = $2",
    "t.a = $1::text",
    "id = $1::bigint",
    "$1 = a /* or ok */",
    "a = $1 -- or ok\n",
    "b between 0 and 1",
    "b not between 1 and b",
    "a = $1 || ''",
    "a = '1' is true",
    "id % 2 = 0",
    "a like '1' || a",
    "a not like '%' || note",
    "ok is not true",
    "ok is null = true",
    "- b = $2",
    "b + 1 = $2",
    "not ok = true",
    "not a = $1",
    "a is not distinct from $1",
    "a is null",
    "(a, b) = ($1, 1)",
    "case when ok then a else note end = $1",
    "b in (0, 1)",
    "b in (0, $2)",
    "a = any (array[$1])",
    "a < '1' = ok",
    "note ~ 'n.*' = ok",
    "b * 2 > id - 1 and b=-1",
    "coalesce(ok, a = '1')",
];

fn statement(random: &mut fastrand::Rng) -> String {
    let mut sql = "select id, note from t where ".to_owned();
    let count = random.usize(1..=4);
    let place = random.usize(..count);
    for number in 0..count {
        if number > 0 {
            sql.push_str(if random.u8(0..8) == 0 {
                " or "
            } else {
                " and "
            });
        }
        if random.u8(0..10) == 0 {
            sql.push_str("not ");
        }
        let conditions = match number == place {
            true => &CONDITIONS[..KEY_CONDITION_COUNT],
            false => CONDITIONS,
        };
        sql.push_str(random.choice(conditions).unwrap());
    }
    sql + " order by id"
}

/// A statement with its key, and parameters that the server takes.
struct Keyed {
    sql: String,
    key: KeyDependency,
    sets: Vec<Vec<Value>>,
}

impl Keyed {
    fn of(connection: &mut Connection, sql: &str) -> Option<Self> {
        let Dependency::Key(key) = dependency(connection, sql) else {
            return None;
        };
        let count = if sql.contains("$2") { 2 } else { 1 };
        let mut sets = parameter_sets(count);
        sets.retain(|set| connection.query(sql, set).is_ok());
        Some(Self {
            sql: sql.to_owned(),
            key,
            sets,
        })
    }

    fn answers(&self, connection: &mut Connection) -> Vec<Vec<Vec<Value>>> {
        let sets = self.sets.iter();
        sets.map(|set| {
            let answer = connection.query(self.sql.as_str(), set).unwrap();
            answer.rows.iter().map(<[Value]>::to_vec).collect()
        })
        .collect()
    }
}

/// All sets of parameters that a few values make.
fn parameter_sets(count: usize) -> Vec<Vec<Value>> {
    let values = ["0", "1", "2", "5", "true"];
    let mut sets = vec![Vec::new()];
    for _ in 0..count {
        let longer = |set: Vec<Value>| {
            values.iter().map(move |&value| {
                let mut set = set.clone();
                set.push(Value::from(value));
                set
            })
        };
        sets = sets.into_iter().flat_map(longer).collect();
    }
    sets
}

/// Changes rows, and returns how many answers changed.
fn check(
    connection: &mut Connection,
    random: &mut fastrand::Rng,
    seed: u64,
    statements: &[Keyed],
) -> usize {
    let names = ["id", "a", "b", "ok", "note"];
    let mut changed_count = 0;
    let mut old = rows(connection);
    let mut before: Vec<_> = statements.iter().map(|it| it.answers(connection)).collect();
    for _ in 0..CHANGE_COUNT {
        let change = change(random);
        run(connection, &change);
        let new = rows(connection);
        for (Keyed { sql, key, sets }, (statement, before)) in
            statements.iter().zip(statements.iter().zip(&mut before))
        {
            let mut touched = HashSet::new();
            for row in old.symmetric_difference(&new) {
                let field = |column: &KeyColumn| {
                    let position = names.iter().position(|name| *name == &*column.name);
                    let field = row[position.unwrap()].as_ref();
                    field.map_or(Field::Null, |bytes| Field::Binary(bytes))
                };
                match key.row_key(field) {
                    RowKey::Values(values) => touched.extend([values]),
                    RowKey::Absent => {}
                    RowKey::Unknown => panic!("every field was sent"),
                }
            }
            let after = statement.answers(connection);
            for ((set, before), after) in sets.iter().zip(&*before).zip(&after) {
                let is_changed = before != after;
                let values = key.canonical_params(set);
                // Without a key, the server is asked each time.
                let is_touched = values
                    .as_ref()
                    .is_none_or(|values| touched.contains(values));
                assert!(
                    !is_changed || is_touched,
                    "{sql} {set:?}: {change} LOOKASIDE_SEED={seed}"
                );
                changed_count += usize::from(is_changed && values.is_some());
            }
            *before = after;
        }
        old = new;
    }
    changed_count
}

#[test]
fn an_answer_changes_only_if_its_key_is_touched() {
    let seed = seed();
    for (_database, mut connection) in databases() {
        let mut random = fastrand::Rng::with_seed(seed);
        run(&mut connection, SCHEMA);
        let statements: Vec<Keyed> = STATEMENTS
            .iter()
            .map(|sql| Keyed::of(&mut connection, sql).expect("the statement has a key"))
            .collect();
        assert!(statements.iter().all(|it| !it.sets.is_empty()));
        let changed_count = check(&mut connection, &mut random, seed, &statements);
        assert!(changed_count > 20, "LOOKASIDE_SEED={seed}");
    }
}

#[test]
fn keys_of_random_conditions_are_those_of_the_server() {
    let seed = seed();
    for (_database, mut connection) in databases() {
        let mut random = fastrand::Rng::with_seed(seed);
        run(&mut connection, SCHEMA);
        let mut statements = Vec::new();
        for _ in 0..STATEMENT_COUNT_MAX {
            let sql = statement(&mut random);
            let keyed = Keyed::of(&mut connection, &sql);
            statements.extend(keyed.filter(|it| !it.sets.is_empty()));
            if statements.len() == KEYED_COUNT {
                break;
            }
        }
        assert_eq!(statements.len(), KEYED_COUNT, "LOOKASIDE_SEED={seed}");
        let mut changed_count = 0;
        for _ in 0..ROUND_COUNT_MAX {
            changed_count += check(&mut connection, &mut random, seed, &statements);
            if changed_count > 20 {
                break;
            }
        }
        assert!(changed_count > 20, "LOOKASIDE_SEED={seed}");
    }
}
