//! The mapping between [`Value`] and the types that SQLite stores.
//!
//! Native plans compare with the same five storage classes, so they go through [`SqlValue`] too.

use lookaside_value::{Text, Value};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A value as SQLite sees it: one of its five storage classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SqlValue<'a> {
    /// NULL.
    Null,
    /// INTEGER.
    Int(i64),
    /// REAL; never NaN, which SQLite stores as NULL.
    Float(f64),
    /// TEXT.
    Text(&'a str),
    /// BLOB.
    Blob(&'a [u8]),
}

impl<'a> SqlValue<'a> {
    /// The SQLite value to bind for `value`.
    ///
    /// Text and bytes are borrowed. Types that SQLite does not have become their display text (a
    /// time with an offset is converted to UTC), objects and arrays their JSON text. The text is
    /// written into `scratch`, which is cleared first, so a caller that reuses the buffer binds
    /// without allocating.
    pub(crate) fn of(value: &'a Value, scratch: &'a mut String) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Int(i64::from(*bool)),
            Value::Int(int) => Self::Int(*int),
            Value::Float(float) if float.is_nan() => Self::Null,
            Value::Float(float) => Self::Float(*float),
            Value::Text(text) => Self::Text(text),
            Value::Decimal(decimal) => Self::Text(decimal.as_str()),
            Value::Bytes(bytes) => Self::Blob(bytes),
            Value::Object(_) | Value::Array(_) => {
                scratch.clear();
                value.write_json(scratch);
                Self::Text(scratch)
            }
            // A column stores no offset: 08:00+01:00 finds the row of 07:00, not that of 08:00.
            Value::Time(time) => {
                scratch.clear();
                time.to_utc().write(scratch);
                Self::Text(scratch)
            }
            value if value.is_null() => Self::Null,
            _ => match value.as_str() {
                Some(text) => Self::Text(text),
                None => {
                    scratch.clear();
                    value.write_raw(scratch);
                    Self::Text(scratch)
                }
            },
        }
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Int(int) => ValueRef::Integer(int),
            Self::Float(float) => ValueRef::Real(float),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Converts a column of a SQLite row; invalid UTF-8 becomes replacement characters.
pub(crate) fn value_of(column: ValueRef<'_>) -> Value {
    match column {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(int) => Value::Int(int),
        ValueRef::Real(float) => Value::Float(float),
        ValueRef::Text(text) => Value::Text(Text::from(&*String::from_utf8_lossy(text))),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::Object;
    use rusqlite::Connection;

    use super::*;

    fn check(value: impl Into<Value>, expected: &str) {
        let value = value.into();
        let connection = Connection::open_in_memory().unwrap();
        let mut scratch = String::from("left over");
        let bound = SqlValue::of(&value, &mut scratch);
        let seen: String = connection
            .query_row("select typeof(?1) || ':' || quote(?1)", [bound], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(seen, expected, "{value:?}");
    }

    #[test]
    fn every_type_is_bound() {
        check(Value::Null, "null:NULL");
        check(Value::Ignore, "null:NULL");
        check(true, "integer:1");
        check(i64::MIN, "integer:-9223372036854775808");
        check(1.5, "real:1.5");
        check(f64::NAN, "null:NULL");
        check(f64::INFINITY, "real:9.0e+999");
        check("a'b", "text:'a''b'");
        check(Value::Symbol("s".into()), "text:'s'");
        check(vec![0_u8, 255], "blob:X'00FF'");
        check(
            Value::Decimal("12345678901234567890.10".parse().unwrap()),
            "text:'12345678901234567890.10'",
        );
        check(Value::Ip("10.0.0.1".parse().unwrap()), "text:'10.0.0.1'");
        check(
            Value::Ip("2001:db8::1".parse().unwrap()),
            "text:'2001:db8::1'",
        );
        check(
            Value::Net("10.0.0.0/8".parse().unwrap()),
            "text:'10.0.0.0/8'",
        );
        check(
            Value::Uuid("00000000-0000-0000-0000-000000000001".parse().unwrap()),
            "text:'00000000-0000-0000-0000-000000000001'",
        );
        check(
            Value::Time("2026-01-02 03:04:05".parse().unwrap()),
            "text:'2026-01-02 03:04:05'",
        );
        check(
            Value::Time("2026-01-02T03:04:05+05:30".parse().unwrap()),
            "text:'2026-01-01 21:34:05'",
        );
        check(vec![Value::Int(1), Value::from("x")], "text:'[1,\"x\"]'");
        check(Object::new(), "text:'{}'");
    }

    #[test]
    fn every_storage_class_comes_back() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .query_row(
                "select null, 7, 0.5, 'text', x'00ff', cast(x'61ff' as text)",
                [],
                |row| {
                    let values: Vec<Value> = (0..6)
                        .map(|index| value_of(row.get_ref(index).unwrap()))
                        .collect();
                    let expected = [
                        Value::Null,
                        Value::Int(7),
                        Value::Float(0.5),
                        Value::from("text"),
                        Value::from(vec![0_u8, 255]),
                        Value::from("a\u{fffd}"),
                    ];
                    assert_eq!(values, expected);
                    Ok(())
                },
            )
            .unwrap();
    }
}
