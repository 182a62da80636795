//! Values that look like others.

use lookaside_value::Value;

use super::{connect, databases, shown};

#[test]
fn a_null_of_json_is_not_one_of_sql() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        let sql = "select 'null'::json, 'null'::jsonb, null::jsonb, '[null]'::jsonb";
        let answer = connection.query(sql, &[]).unwrap();
        let null = Value::from("null");
        let list = Value::from(vec![Value::Null]);
        assert_eq!(
            answer.rows.row(0).to_vec(),
            [null.clone(), null.clone(), Value::Null, list]
        );
        // And back.
        let sql = "select $1::jsonb = 'null'::jsonb, $2::jsonb is null";
        let answer = connection.query(sql, &[null, Value::Null]);
        assert_eq!(shown(&answer), "true,true");
    }
}

#[test]
fn times_before_the_year_1_are_as_the_server_writes_them() {
    for postgres in databases() {
        let mut connection = connect(&postgres);
        connection.query("set timezone = 'UTC'", &[]).unwrap();
        for (type_name, text) in [
            ("date", "0044-03-15 BC"),
            ("date", "0001-01-01"),
            ("timestamp", "0044-03-15 10:20:30.5 BC"),
            ("timestamp", "0001-12-31 23:59:59.999999 BC"),
            ("timestamp", "0001-01-01 00:00:00"),
            ("timestamptz", "0044-03-15 10:20:30+00 BC"),
        ] {
            let sql = format!("select '{text}'::{type_name}, '{text}'::{type_name}::text");
            let answer = connection.query(sql, &[]).unwrap();
            let row = answer.rows.row(0);
            if text.ends_with("BC") {
                assert_eq!(row[0], row[1], "{type_name} {text}");
            }
            let sql = format!("select $1::{type_name} = '{text}'::{type_name}");
            let same = connection.query(sql, &[row[0].clone()]);
            assert_eq!(shown(&same), "true", "{type_name} {text}");
        }
    }
}
