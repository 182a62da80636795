//! What we read from the binary format is what the server writes as text.

use lookaside_client::types::postgres::{Format, PgType};
use lookaside_value::{Type, Value};

use crate::generate::{KINDS, Kind, rng};
use crate::session::{Session, session};

const VALUE_COUNT: usize = 300;

/// Zones with offsets of hours, of minutes, and once of seconds.
const ZONES: &[&str] = &["UTC", "Asia/Kolkata", "America/St_Johns"];

/// Lays the values into the table `v(i, x)`.
pub(crate) fn lay(session: &Session, kind: &Kind, literals: &[String]) {
    let list: Vec<_> = literals
        .iter()
        .enumerate()
        .map(|(index, literal)| format!("({index},'{}')", literal.replace('\'', "''")))
        .collect();
    session.execute(&format!(
        "DROP TABLE IF EXISTS v; CREATE TABLE v AS SELECT i, {} AS x FROM (VALUES {}) u(i, x)",
        kind.cast,
        list.join(","),
    ));
}

/// Both formats of one column; the values that they agree on.
fn check(session: &Session, name: &str, sql: &str) -> Vec<Value> {
    let column = session.binary(sql, &[]);
    assert_eq!(column.pg_type.name(), name, "{sql}");
    assert_eq!(column.pg_type.result_format(), Format::Binary, "{name}");
    let values = column.values(Format::Binary);
    let texts = session.text(sql);
    assert_eq!(values.len(), texts.len());
    for (value, text) in values.iter().zip(&texts) {
        check_text(column.pg_type, value, text.as_deref());
    }
    values
}

fn check_text(pg_type: PgType, value: &Value, text: Option<&str>) {
    let Some(text) = text else {
        assert_eq!(value, &Value::Null);
        return;
    };
    let name = pg_type.name();
    let read = pg_type.decode(Format::Text, text.as_bytes());
    assert_eq!(read.as_ref(), Ok(value), "{name} {text}");
    // Where our text is the server's, without a way through our own reading of it.
    match (value, value.type_of()) {
        _ if name.starts_with("json") || name.ends_with("[]") || name == "timestamptz" => {}
        (_, Type::Int | Type::Decimal | Type::Text | Type::Uuid | Type::Net) => {
            assert_eq!(value.to_text(), text, "{name}");
        }
        (Value::Time(_), _) if name == "timestamp" && !text.ends_with("BC") => {
            assert_eq!(value.to_text(), text, "{name}");
        }
        (Value::Float(float), _) => {
            let theirs: f64 = text.parse().unwrap();
            assert_eq!(float.to_bits(), theirs.to_bits(), "{name} {text}");
        }
        _ => {}
    }
}

#[test]
fn binary_and_text_say_the_same() {
    let Some(session) = session() else { return };
    let mut rng = rng("binary_and_text_say_the_same");
    for kind in KINDS {
        lay(&session, kind, &kind.literals(VALUE_COUNT, &mut rng));
        let name = kind.name;
        let zones = if name == "timestamptz" {
            ZONES
        } else {
            &ZONES[..1]
        };
        for zone in zones {
            session.execute(&format!("SET TimeZone = '{zone}'"));
            let values = check(&session, name, "SELECT x FROM v ORDER BY i");
            let arrays = "SELECT array_agg(x ORDER BY i) FROM v GROUP BY i / 7 ORDER BY i / 7";
            let arrays = check(&session, &format!("{name}[]"), arrays);
            // What an array holds is what the column holds.
            let flat: Vec<_> = arrays.iter().flat_map(elements).cloned().collect();
            assert_eq!(flat, values, "{name}[]");
            let nested = "SELECT ARRAY[ARRAY[a.x, NULL, b.x], ARRAY[b.x, a.x, b.x]] \
                          FROM v a JOIN v b ON b.i = a.i + 1 WHERE a.i < 50 ORDER BY a.i";
            let nested = check(&session, &format!("{name}[]"), nested);
            for (index, array) in nested.iter().enumerate() {
                let (a, b) = (&values[index], &values[index + 1]);
                let row = |values: [&Value; 3]| Value::from(values.map(Value::clone).to_vec());
                let expected = Value::from(vec![row([a, &Value::Null, b]), row([b, a, b])]);
                assert_eq!(array, &expected, "{name}[][]");
            }
            let bounds = format!(
                "SELECT ('[-1:1]=' || ARRAY[x, NULL, x]::text)::{name}[] FROM v \
                                  WHERE i < 20 ORDER BY i"
            );
            if name != "bpchar" {
                check(&session, &format!("{name}[]"), &bounds);
            }
            check(
                &session,
                &format!("{name}[]"),
                &format!("SELECT '{{}}'::{name}[]"),
            );
        }
    }
}

fn elements(array: &Value) -> &[Value] {
    match array {
        Value::Array(values) => values,
        other => panic!("{other:?} is not an array"),
    }
}

/// Sessions may have other settings than ours; then a text is text, and the binary form is as ever.
#[test]
fn other_styles_are_no_errors() {
    let Some(session) = session() else { return };
    session.execute(
        "SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'escape'; \
         SET extra_float_digits = 0",
    );
    for (sql, expected) in [
        (
            "SELECT timestamp '2026-01-02 03:04:05'",
            "02/01/2026 03:04:05",
        ),
        ("SELECT date '2026-01-02'", "02/01/2026"),
        ("SELECT interval '1 day'", "P1D"),
        ("SELECT bytea '\\x00615c'", "0x00615c"),
        ("SELECT 0.1::float8 + 0.2", "0.3"),
    ] {
        let column = session.binary(sql, &[]);
        let text = session.text(sql)[0].clone().unwrap();
        let value = column
            .pg_type
            .decode(Format::Text, text.as_bytes())
            .unwrap();
        assert_eq!(value.to_text(), expected, "{sql}");
        column.values(Format::Binary);
    }
}

#[test]
fn types_of_a_database_are_text() {
    let Some(session) = session() else { return };
    session.execute(
        "CREATE EXTENSION IF NOT EXISTS citext; CREATE EXTENSION IF NOT EXISTS hstore;
         CREATE TYPE color AS ENUM ('red', 'blue'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
         CREATE TYPE pair AS (a int, b text); CREATE TYPE span AS RANGE (subtype = float8)",
    );
    for (sql, expected) in [
        ("'Ab'::citext", Value::from("Ab")),
        ("'a=>1'::hstore", Value::from("\"a\"=>\"1\"")),
        ("'red'::color", Value::from("red")),
        ("'{red,blue}'::color[]", Value::from("{red,blue}")),
        ("ROW(1, 'x y')::pair", Value::from("(1,\"x y\")")),
        ("ROW(1, 'x y')", Value::from("(1,\"x y\")")),
        ("'[1,2)'::span", Value::from("[1,2)")),
        // A domain's column is declared as what is below it.
        ("7::positive", Value::Int(7)),
        ("'{7}'::positive[]", Value::from("{7}")),
    ] {
        let sql = format!("SELECT {sql}");
        let column = session.binary(&sql, &[]);
        let format = column.pg_type.result_format();
        let value = match format {
            Format::Binary => column.values(format)[0].clone(),
            Format::Text => {
                // The other format of an unknown type is bytes, not an error.
                assert!(
                    matches!(column.values(Format::Binary)[0], Value::Bytes(_)),
                    "{sql}"
                );
                let text = session.text(&sql)[0].clone().unwrap();
                column.pg_type.decode(format, text.as_bytes()).unwrap()
            }
        };
        assert_eq!(value, expected, "{sql}");
    }
}
