//! Values go to the server and come back.

use lookaside_client::types::postgres::{Format, PgType};
use lookaside_value::{Type, Value};

use crate::differential::lay;
use crate::generate::{KINDS, rng};
use crate::raw::RawParam;
use crate::session::{Session, session};

const VALUE_COUNT: usize = 60;

/// What a parameter comes back as.
fn echo(session: &Session, cast: &str, value: &Value) -> Value {
    let sql = format!("SELECT $1::{cast}");
    let oid = session.declared(&sql)[0];
    let column = session.binary(&sql, &[RawParam::of(value, oid)]);
    column.values(Format::Binary)[0].clone()
}

/// Whether a value becomes itself. JSON text is JSON already, so that a string does not come back as
/// one; and an array of arrays of JSON is read by the server as an array of JSON arrays.
fn comes_back(name: &str, value: &Value) -> bool {
    let becomes_itself = |value: &Value| value.type_of() != Type::Text;
    match value {
        _ if !name.starts_with("json") => true,
        Value::Array(values) if name.ends_with("[]") => values
            .iter()
            .all(|value| becomes_itself(value) && value.type_of() != Type::Array),
        value => becomes_itself(value),
    }
}

#[test]
fn values_come_back() {
    let Some(session) = session() else { return };
    let mut rng = rng("values_come_back");
    let mut count = 0;
    for kind in KINDS {
        let name = kind.name;
        lay(&session, kind, &kind.literals(VALUE_COUNT, &mut rng));
        let arrays = format!("{name}[]");
        for (cast, sql) in [
            (name, "SELECT x FROM v ORDER BY i"),
            (
                &arrays,
                "SELECT array_agg(x) || NULL FROM v GROUP BY i / 5 ORDER BY i / 5",
            ),
            (
                &arrays,
                "SELECT ARRAY[ARRAY[x, x], ARRAY[NULL, x]] FROM v WHERE i < 9 ORDER BY i",
            ),
        ] {
            let values = session.binary(sql, &[]).values(Format::Binary);
            let texts = session.text(sql);
            for (value, text) in values.iter().zip(texts) {
                // From a command line or a URL everything is text, as the server itself writes it.
                let typed = Value::from(text.expect("no value is NULL"));
                assert_eq!(&echo(&session, cast, &typed), value, "{cast} {typed:?}");
                if comes_back(cast, value) {
                    assert_eq!(&echo(&session, cast, value), value, "{cast}");
                    count += 1;
                }
            }
        }
    }
    assert!(count > KINDS.len() * VALUE_COUNT, "{count}");
}

#[test]
fn every_type_takes_null() {
    let Some(session) = session() else { return };
    for kind in KINDS {
        assert_eq!(echo(&session, kind.name, &Value::Null), Value::Null);
        let array = Value::from(vec![Value::Null, Value::Ignore]);
        let expected = Value::from(vec![Value::Null, Value::Null]);
        assert_eq!(
            echo(&session, &format!("{}[]", kind.name), &array),
            expected
        );
    }
}

/// Whatever value meets whatever type: it is refused here, or the server answers or refuses it.
#[test]
fn every_value_meets_every_type() {
    let Some(session) = session() else { return };
    session.execute("CREATE TYPE color AS ENUM ('red')");
    let values = [
        Value::Bool(true),
        Value::Int(1),
        Value::Float(0.5),
        Value::Float(f64::NAN),
        Value::Decimal("12.50".parse().unwrap()),
        Value::from("1"),
        Value::from("a\u{0}b"),
        Value::Symbol("red".into()),
        Value::from(vec![1_u8, 255]),
        Value::Time("2026-01-02 03:04:05.123456789+05:30".parse().unwrap()),
        Value::Time("2026-01-02 03:04:05".parse().unwrap()),
        Value::Ip("::1".parse().unwrap()),
        Value::Net("10.0.0.1/8".parse().unwrap()),
        Value::Uuid(uuid::Uuid::max()),
        Value::from(lookaside_value::Object::from_iter([(
            "a".into(),
            Value::Int(1),
        )])),
        Value::from(vec![Value::Int(1), Value::Null]),
        Value::from(Vec::<Value>::new()),
    ];
    let more = [
        "color",
        "color[]",
        "int4range",
        "point",
        "bit(3)",
        "money",
        "xml",
        "regclass",
    ];
    let names = KINDS.iter().map(|kind| kind.name).chain(more);
    let mut answered_count = 0;
    for name in names {
        for cast in [name.to_owned(), format!("{name}[]")] {
            let sql = format!("SELECT $1::{cast}");
            if cast.ends_with("[][]") {
                continue;
            }
            let oid = session.declared(&sql)[0];
            for value in &values {
                let mut field = Vec::new();
                if PgType::of(oid).encode(value, &mut field).is_err() {
                    continue;
                }
                match session.try_binary(&sql, &[RawParam::of(value, oid)]) {
                    Ok(_) => answered_count += 1,
                    Err(error) => {
                        let code = error.code().unwrap_or_else(|| panic!("{error}"));
                        // What is wrong is the text, never the binary form (22P03).
                        assert!(
                            ["22", "42"].contains(&&code.code()[..2]) && code.code() != "22P03",
                            "{cast} {value:?}: {error:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(answered_count > 200, "{answered_count}");
}
