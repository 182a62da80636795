//! Random changes of rows: an answer changes only if its key is touched.

use std::collections::HashSet;

use lookaside_client::postgres::blocking::Connection;
use lookaside_value::Value;

use super::super::{Dependency, Field, KeyColumn, KeyDependency, RowKey};
use super::{databases, dependency, run, seed};

const CHANGE_COUNT: usize = 60;

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

fn answers(connection: &mut Connection, sql: &str, params: &[Vec<Value>]) -> Vec<Vec<Vec<Value>>> {
    params
        .iter()
        .map(|params| {
            let answer = connection.query(sql, params).unwrap();
            answer.rows.iter().map(<[Value]>::to_vec).collect()
        })
        .collect()
}

/// All parameter sets that the columns' few values make.
fn parameter_sets(key: &KeyDependency) -> Vec<Vec<Value>> {
    let count = key
        .columns
        .iter()
        .map(|it| it.parameter + 1)
        .max()
        .unwrap()
        .max(2);
    let values = ["0", "1", "2", "5", "25", "true", ""];
    let mut sets = vec![Vec::new()];
    for _ in 0..count {
        sets = sets
            .iter()
            .flat_map(|set: &Vec<Value>| {
                values.iter().map(|&value| {
                    let mut set = set.clone();
                    set.push(Value::from(value));
                    set
                })
            })
            .collect();
    }
    sets
}

#[test]
fn an_answer_changes_only_if_its_key_is_touched() {
    let seed = seed();
    for (_database, mut connection) in databases() {
        let mut random = fastrand::Rng::with_seed(seed);
        run(&mut connection, SCHEMA);
        let hasher = foldhash::quality::RandomState::default();
        let mut scratch = Vec::new();
        let mut keys = Vec::new();
        for sql in STATEMENTS {
            let Dependency::Key(key) = dependency(&mut connection, sql) else {
                panic!("{sql} has no key");
            };
            let count = sql.matches('$').count().min(2);
            let count = if sql.contains("$2") { count } else { 1 };
            let mut sets = parameter_sets(&key);
            sets.iter_mut().for_each(|set| set.truncate(count));
            sets.sort_unstable_by_key(|set| format!("{set:?}"));
            sets.dedup();
            // Those that the server would refuse have no key.
            sets.retain(|set| {
                let hash = key.hash_params(&hasher, 1, set, &mut scratch);
                hash.is_some() && connection.query(*sql, set).is_ok()
            });
            assert!(!sets.is_empty(), "{sql}");
            keys.push((sql, key, sets));
        }
        let names = ["id", "a", "b", "ok", "note"];
        let mut changed_count = 0;
        for _ in 0..CHANGE_COUNT {
            let before: Vec<_> = keys
                .iter()
                .map(|(sql, _, sets)| answers(&mut connection, sql, sets))
                .collect();
            let old = rows(&mut connection);
            let change = change(&mut random);
            run(&mut connection, &change);
            let new = rows(&mut connection);
            for ((sql, key, sets), before) in keys.iter().zip(before) {
                let mut touched = HashSet::new();
                for row in old.symmetric_difference(&new) {
                    let field = |column: &KeyColumn| {
                        let position = names.iter().position(|name| *name == &*column.name);
                        row[position.unwrap()]
                            .as_ref()
                            .map_or(Field::Null, |bytes| Field::Binary(bytes))
                    };
                    match key.row_key(&hasher, 1, field, &mut scratch) {
                        RowKey::Hash(hash) => touched.extend([hash]),
                        RowKey::Absent => {}
                        RowKey::Unknown => panic!("every field was sent"),
                    }
                }
                let after = answers(&mut connection, sql, sets);
                for ((set, before), after) in sets.iter().zip(before).zip(after) {
                    let hash = key.hash_params(&hasher, 1, set, &mut scratch).unwrap();
                    let is_touched = touched.contains(&hash);
                    assert!(
                        before == after || is_touched,
                        "{sql} {set:?}: {change} LOOKASIDE_SEED={seed}"
                    );
                    changed_count += usize::from(before != after);
                }
            }
        }
        assert!(changed_count > 20, "LOOKASIDE_SEED={seed}");
    }
}
