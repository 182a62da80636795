//! Keys of parameters and of rows, compared with what the server finds equal.

use std::collections::HashMap;

use lookaside_client::postgres::blocking::Connection;
use lookaside_value::{Object, Value};

use super::super::{Dependency, Family, Field, KeyColumn, KeyDependency, RowKey};
use super::{databases, dependency, run, seed, value_of};

/// How many parameters are tried for each column.
const PARAMETER_COUNT: usize = 400;

/// The columns of the table `t`, their types, and the functions that write them for the feed.
const COLUMNS: [(&str, &str, &str); 7] = [
    ("small", "int2", "int2send"),
    ("medium", "int4", "int4send"),
    ("big", "int8", "int8send"),
    ("name", "text", "textsend"),
    ("code", "varchar(40)", "varcharsend"),
    ("ok", "bool", "boolsend"),
    ("ref", "uuid", "uuid_send"),
];

/// Texts that are near to values of the families.
fn text(random: &mut fastrand::Rng) -> String {
    let number = number(random);
    match random.u8(0..16) {
        0 => number.to_string(),
        1 => format!(" {number}"),
        2 => format!("{number}\n"),
        3 => format!("+{number}"),
        4 => format!("{number}.0"),
        5 => format!("{number:03}"),
        6 => format!("0x{:x}", number.unsigned_abs()),
        7 => format!("{number}e0"),
        8 => random
            .choice([
                "t", "TRUE", " yes ", "on", "1", "f", "off", "no", "0", "of", "o", "tru",
            ])
            .unwrap()
            .to_string(),
        9 => uuid(random),
        10 => format!("{{{}}}", uuid(random).to_uppercase()),
        11 => uuid(random).replace('-', ""),
        12 => format!("{} ", uuid(random)),
        13 => random
            .choice([
                "", " ", "é", "e\u{301}", "É", "a", "A", "a ", "a\0", "\\", "'", "NULL",
            ])
            .unwrap()
            .to_string(),
        14 => format!("1_{}", number.unsigned_abs()),
        _ => format!("{}", number as f64 / 2.0),
    }
}

/// Few numbers, so that equal ones are common; some at the limits of types.
fn number(random: &mut fastrand::Rng) -> i64 {
    match random.u8(0..8) {
        0 => *random
            .choice(&[
                i64::MIN,
                i64::MAX,
                i32::MIN.into(),
                i32::MAX.into(),
                i16::MIN.into(),
                i16::MAX.into(),
                i64::from(i32::MAX) + 1,
                i64::from(i16::MAX) + 1,
                1 << 53,
                (1 << 53) + 1,
            ])
            .unwrap(),
        1 => random.i64(..),
        _ => random.i64(-2..4),
    }
}

fn uuid(random: &mut fastrand::Rng) -> String {
    let (high, low) = (random.u8(0..3), random.u8(0..2));
    format!("00000000-0000-00ab-{high:04x}-00000000cd{low:02x}")
}

/// A value of any kind.
fn value(random: &mut fastrand::Rng) -> Value {
    match random.u8(0..18) {
        0 => Value::Null,
        1 => Value::Ignore,
        2 => Value::Bool(random.bool()),
        3 | 4 => Value::Int(number(random)),
        5 => Value::Float(number(random) as f64),
        6 => Value::Float(
            *random
                .choice(&[0.5, -0.0, f64::NAN, f64::INFINITY, 1e300])
                .unwrap(),
        ),
        7 => Value::Decimal(format!("{}.00", number(random)).parse().unwrap()),
        8 => Value::Decimal(format!("{}.5", number(random)).parse().unwrap()),
        9 => Value::Symbol(text(random).into()),
        10 => Value::Bytes(text(random).into_bytes().into()),
        11 => Value::Time("2026-01-02 03:04:05+01:00".parse().unwrap()),
        12 => Value::Ip("10.0.0.1".parse().unwrap()),
        13 => Value::Net("10.0.0.0/8".parse().unwrap()),
        14 => Value::Uuid(uuid(random).parse().unwrap()),
        15 => Value::from(vec![Value::Int(number(random))]),
        16 => Value::from(Object::new()),
        _ => Value::from(text(random)),
    }
}

/// The values of a key as text, which differs where the values do. All values have the types that
/// answers are stored by.
fn written(key: &KeyDependency, values: &[Option<Value>]) -> String {
    for column in &key.columns {
        let value = values[column.parameter].as_ref().expect("a key has all");
        assert!(column.family.is_canonical(value), "{column:?} {value:?}");
    }
    format!("{values:?}")
}

fn key_of(dependency: Dependency) -> KeyDependency {
    match dependency {
        Dependency::Key(key) => key,
        other => panic!("{other:?}"),
    }
}

fn values_of(key: RowKey) -> Vec<Option<Value>> {
    match key {
        RowKey::Values(values) => values,
        other => panic!("the row's key is {other:?}"),
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?} are not bytes"),
    }
}

/// A row's value, its field in both formats, and its text for messages.
struct Stored {
    binary: Value,
    text: Value,
}

fn fill(connection: &mut Connection, random: &mut fastrand::Rng) {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|(name, kind, _)| format!("{name} {kind}"))
        .collect();
    run(
        connection,
        &format!(
            "create table t (row serial primary key, {}); alter table t replica identity full; \
             create publication feed for table t",
            columns.join(", ")
        ),
    );
    for (name, _, _) in COLUMNS {
        for _ in 0..PARAMETER_COUNT {
            let insert = format!("insert into t ({name}) values ($1)");
            // Values that do not fit are refused by the client or by the server.
            let _ = connection.query(insert.as_str(), &[value(random)]);
        }
    }
}

/// For all values of all kinds: the keys of a parameter and of a row are equal exactly if the
/// server finds the row by the parameter.
#[test]
fn keys_are_equal_if_the_server_says_so() {
    let seed = seed();
    for (_database, mut connection) in databases() {
        let mut random = fastrand::Rng::with_seed(seed);
        fill(&mut connection, &mut random);
        let (mut keyed_count, mut found_count) = (0, 0);
        for (name, kind, send) in COLUMNS {
            let sql = format!("select row from t where {name} = $1 order by row");
            let key = key_of(dependency(&mut connection, &sql));
            let rows =
                format!("select row, {send}({name}), {name}::text from t where {name} is not null");
            let answer = connection.query(rows.as_str(), &[]).unwrap();
            let stored: Vec<(i64, Stored)> = answer
                .rows
                .iter()
                .map(|row| {
                    let stored = Stored {
                        binary: row[1].clone(),
                        text: match &row[2] {
                            // The feed writes them shorter than a cast does.
                            Value::Text(text) if kind == "bool" => Value::from(&text[..1]),
                            other => other.clone(),
                        },
                    };
                    (row[0].as_int().unwrap(), stored)
                })
                .collect();
            assert!(stored.len() > 20, "{name} LOOKASIDE_SEED={seed}");
            let mut by_key: HashMap<String, Vec<i64>> = HashMap::new();
            for (number, stored) in &stored {
                let binary = Field::Binary(bytes(&stored.binary));
                let text = Field::Text(stored.text.as_str().unwrap().as_bytes());
                let values = values_of(key.row_key(|_| binary));
                let same = values_of(key.row_key(|_| text));
                assert_eq!(
                    same, values,
                    "{name} {:?} LOOKASIDE_SEED={seed}",
                    stored.text
                );
                by_key
                    .entry(written(&key, &values))
                    .or_default()
                    .push(*number);
            }
            for _ in 0..PARAMETER_COUNT {
                let param = [value(&mut random)];
                let Some(values) = key.canonical_params(&param) else {
                    continue;
                };
                // A value that does not fit the narrower type has no answer that could be stale.
                let Ok(answer) = connection.query(sql.as_str(), &param) else {
                    continue;
                };
                let found: Vec<i64> = answer
                    .rows
                    .iter()
                    .map(|row| row[0].as_int().unwrap())
                    .collect();
                let mut expected = by_key
                    .get(&written(&key, &values))
                    .cloned()
                    .unwrap_or_default();
                expected.sort_unstable();
                assert_eq!(found, expected, "{name} {param:?} LOOKASIDE_SEED={seed}");
                keyed_count += 1;
                found_count += usize::from(!found.is_empty());
            }
        }
        assert!(keyed_count > PARAMETER_COUNT, "LOOKASIDE_SEED={seed}");
        assert!(found_count > PARAMETER_COUNT / 2, "LOOKASIDE_SEED={seed}");
    }
}

/// A key of several columns, with one parameter twice. A row whose two columns differ is found by no
/// parameter, and has one of the two values as its key, which costs an invalidation.
#[test]
fn keys_of_several_columns_agree() {
    let seed = seed();
    for (_database, mut connection) in databases() {
        let mut random = fastrand::Rng::with_seed(seed);
        run(
            &mut connection,
            "create table t (a text, b text, c int, d bigint, primary key (d, b, a, c));
             create publication feed for table t;",
        );
        let texts = ["", "a", "b", "ab", "\u{1}", "aa"];
        for _ in 0..300 {
            let mut pick = || *random.choice(&texts).unwrap();
            let (a, b) = (pick(), pick());
            let number = Value::Int(random.i64(0..3));
            let params = [a.into(), b.into(), number.clone(), number];
            let insert = "insert into t values ($1, $2, $3, $4) on conflict do nothing";
            connection.query(insert, &params).unwrap();
        }
        let sql = "select a from t where a = $1 and c = $3 and d = $3 and b = $2";
        let key = key_of(dependency(&mut connection, sql));
        let names: Vec<&str> = key.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert!(key.is_unique);
        let rows = "select textsend(a), textsend(b), int4send(c), int8send(d) from t where c = d";
        let answer = connection.query(rows, &[]).unwrap();
        let mut row_keys: Vec<String> = Vec::new();
        for row in answer.rows.iter() {
            let field = |column: &KeyColumn| {
                let position = key.columns.iter().position(|it| it == column).unwrap();
                Field::Binary(bytes(&row[position]))
            };
            row_keys.push(written(&key, &values_of(key.row_key(field))));
        }
        for a in texts {
            for b in texts {
                for number in 0..4 {
                    let params = [a.into(), b.into(), Value::from(number.to_string())];
                    let values = key.canonical_params(&params).unwrap();
                    let is_found = !connection.query(sql, &params).unwrap().rows.is_empty();
                    let count = row_keys
                        .iter()
                        .filter(|it| **it == written(&key, &values))
                        .count();
                    assert_eq!(
                        count,
                        usize::from(is_found),
                        "{params:?} LOOKASIDE_SEED={seed}"
                    );
                }
            }
        }
    }
}

fn one(family: Family) -> KeyDependency {
    KeyDependency {
        relation: 1,
        columns: vec![KeyColumn {
            name: "a".into(),
            number: 1,
            type_oid: 23,
            family,
            parameter: 0,
        }],
        is_unique: true,
        is_identity_full: false,
    }
}

/// Whether a field has a key.
fn has_key(family: Family, field: Field<'_>) -> bool {
    let key = one(family).row_key(|_| field);
    assert_ne!(key, RowKey::Absent);
    key != RowKey::Unknown
}

#[test]
fn fields_that_are_not_certain_have_no_key() {
    for family in [Family::Int, Family::Text, Family::Bool, Family::Uuid] {
        assert!(!has_key(family, Field::Null));
        assert!(!has_key(family, Field::Unchanged));
    }
    for (family, field) in [
        (Family::Int, &b""[..]),
        (Family::Int, b"\0"),
        (Family::Int, b"\0\0\0"),
        (Family::Int, b"\0\0\0\0\0"),
        (Family::Bool, b""),
        (Family::Bool, b"\x02"),
        (Family::Bool, b"\0\0"),
        (Family::Uuid, b""),
        (Family::Uuid, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ] {
        assert!(!has_key(family, Field::Binary(field)), "{field:?}");
    }
    for (family, field) in [
        (Family::Int, &b"x"[..]),
        (Family::Int, b""),
        (Family::Bool, b"true"),
        (Family::Uuid, b"\xff"),
    ] {
        assert!(!has_key(family, Field::Text(field)), "{field:?}");
    }
    let bytes = [2, 0xff, b'x'];
    assert!(has_key(Family::Text, Field::Binary(&bytes)));
    // No parameter equals a null, if it is the value and not left out.
    let full = KeyDependency {
        is_identity_full: true,
        ..one(Family::Int)
    };
    for (field, expected) in [
        (Field::Null, RowKey::Absent),
        (Field::Unchanged, RowKey::Unknown),
        (Field::Binary(b"x"), RowKey::Unknown),
    ] {
        let seen = full.row_key(|_| field);
        assert_eq!(seen, expected);
    }
}

#[test]
fn parameters_that_are_not_certain_have_no_key() {
    let key = |family, value: Value| one(family).canonical_params(&[value]);
    let seven = key(Family::Int, Value::Int(7));
    assert!(seven.is_some());
    for value in [
        Value::from("7"),
        Value::from(" 7 "),
        Value::from("+7"),
        Value::Float(7.0),
        Value::Decimal("7.00".parse().unwrap()),
        Value::Symbol("7".into()),
    ] {
        assert_eq!(key(Family::Int, value.clone()), seven, "{value:?}");
    }
    for value in [
        Value::Null,
        Value::Ignore,
        Value::from("abc"),
        Value::from("7.0"),
        Value::from("0x7"),
        Value::Float(7.5),
        Value::Float(f64::NAN),
        Value::from("9223372036854775808"),
    ] {
        assert_eq!(key(Family::Int, value.clone()), None, "{value:?}");
    }
    let yes = key(Family::Bool, Value::Bool(true));
    assert_eq!(key(Family::Bool, Value::from("t")), yes);
    assert_eq!(key(Family::Bool, Value::from("YES")), yes);
    assert_eq!(key(Family::Bool, Value::Int(2)), None);
    assert_eq!(key(Family::Text, Value::from("a\0")), None);
    assert_eq!(
        key(Family::Text, Value::Int(7)),
        key(Family::Text, Value::from("7"))
    );
    assert_eq!(one(Family::Int).canonical_params(&[]), None);
}

/// What the catalog's query costs is asked once a statement; it has to be an ordinary query.
#[test]
fn the_answers_of_the_catalog_are_read() {
    for (_database, mut connection) in databases() {
        let version = value_of(&mut connection, "show server_version", &[]);
        let found = dependency(&mut connection, "select a from nowhere where a = $1");
        let Dependency::None { reason } = found else {
            panic!("{version:?}: {found:?}");
        };
        assert_eq!(reason, "reads \"nowhere\", which does not exist");
    }
}
