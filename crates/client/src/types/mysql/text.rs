//! Fields of the text protocol, and those that are text in either.

use std::net::IpAddr;
use std::str::FromStr;

use lookaside_value::{Decimal, Value};

use super::kind::Kind;
use super::time;
use crate::types::field_error::{FieldError, utf8};
use crate::types::{json, text_or_bytes};

pub(super) fn decode(kind: Kind, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        Kind::Int8 => parsed::<i8>(field).map(|int| Value::Int(int.into())),
        Kind::UInt8 => parsed::<u8>(field).map(Value::from),
        Kind::Int16 => parsed::<i16>(field).map(|int| Value::Int(int.into())),
        Kind::UInt16 => parsed::<u16>(field).map(Value::from),
        Kind::Int32 => parsed::<i32>(field).map(Value::from),
        Kind::UInt32 => parsed::<u32>(field).map(Value::from),
        Kind::Int64 => parsed::<i64>(field).map(Value::Int),
        Kind::UInt64 => parsed::<u64>(field).map(unsigned),
        Kind::Float | Kind::Double => decode_float(field),
        Kind::Bit => decode_bit(field),
        Kind::Date => time::decode_date_text(utf8(field)?),
        Kind::Time => time::decode_time_text(utf8(field)?),
        Kind::Datetime => time::decode_datetime_text(utf8(field)?),
        Kind::Decimal | Kind::Json | Kind::Uuid | Kind::Inet | Kind::Text | Kind::Bytes => {
            decode_either(kind, field)
        }
    }
}

/// What is the same in both formats.
#[inline]
pub(super) fn decode_either(kind: Kind, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        Kind::Text => Ok(text_or_bytes(field)),
        Kind::Decimal => decode_decimal(field),
        Kind::Bit => decode_bit(field),
        Kind::Uuid => parsed(field).map(Value::Uuid),
        Kind::Inet => parsed::<IpAddr>(field).map(Value::Ip),
        Kind::Json => Ok(match str::from_utf8(field) {
            Ok(text) => json::decode(text),
            Err(_) => Value::Bytes(field.into()),
        }),
        _ => Ok(Value::Bytes(field.into())),
    }
}

fn parsed<T: FromStr>(field: &[u8]) -> Result<T, FieldError> {
    let text = utf8(field)?;
    text.parse()
        .map_err(|_| FieldError::at(0, "is not of this type"))
}

/// An integer, or a decimal where ours ends.
pub(super) fn unsigned(number: u64) -> Value {
    match i64::try_from(number) {
        Ok(int) => Value::Int(int),
        Err(_) => Value::Decimal(Decimal::from(u128::from(number))),
    }
}

/// Finite: the servers have no others, so that words that Rust reads as such are not numbers here.
fn decode_float(field: &[u8]) -> Result<Value, FieldError> {
    let float: f64 = parsed(field)?;
    if !float.is_finite() {
        return Err(FieldError::at(0, "is not of this type"));
    }
    Ok(Value::Float(float))
}

fn decode_decimal(field: &[u8]) -> Result<Value, FieldError> {
    let is_number = field.last().is_some_and(u8::is_ascii_digit);
    if !is_number {
        return Err(FieldError::at(0, "is not of this type"));
    }
    parsed::<Decimal>(field).map(Value::Decimal)
}

fn decode_bit(field: &[u8]) -> Result<Value, FieldError> {
    if field.len() > 8 {
        return Err(FieldError::at(8, "has bytes left over"));
    }
    let number = field
        .iter()
        .fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    Ok(unsigned(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().unwrap())
    }

    #[test]
    fn numbers() {
        for (kind, field, expected) in [
            (Kind::Int8, "-128", Value::Int(-128)),
            (Kind::UInt32, "00042", Value::Int(42)),
            (Kind::UInt16, "2026", Value::Int(2026)),
            (Kind::Int64, "-9223372036854775808", Value::Int(i64::MIN)),
            (Kind::UInt64, "9223372036854775807", Value::Int(i64::MAX)),
            (
                Kind::UInt64,
                "18446744073709551615",
                decimal("18446744073709551615"),
            ),
            (Kind::Float, "0.1", Value::Float(0.1)),
            (
                Kind::Double,
                "-1.7976931348623157e308",
                Value::Float(f64::MIN),
            ),
            (Kind::Decimal, "00000001.50", decimal("1.50")),
            (Kind::Bit, "\u{1}\0", Value::Int(256)),
            (Kind::Bit, "", Value::Int(0)),
        ] {
            assert_eq!(decode(kind, field.as_bytes()), Ok(expected), "{field}");
        }
        assert_eq!(
            decode(Kind::Bit, &[255; 8]),
            Ok(decimal("18446744073709551615"))
        );
        for (kind, field) in [
            (Kind::Int8, "128"),
            (Kind::UInt8, "-1"),
            (Kind::UInt64, "18446744073709551616"),
            (Kind::Int32, ""),
            (Kind::Int32, "4.5"),
            (Kind::Double, "inf"),
            (Kind::Double, "NaN"),
            (Kind::Decimal, "NaN"),
            (Kind::Decimal, "1e5"),
            (Kind::Decimal, ""),
            (Kind::Bit, "123456789"),
        ] {
            assert!(decode(kind, field.as_bytes()).is_err(), "{field}");
        }
    }
}
