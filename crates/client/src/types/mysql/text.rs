//! Fields of the text protocol, and those that are text in either.

use std::net::IpAddr;
use std::str::FromStr;

use lookaside_value::{Decimal, Value};

use super::kind::CellKind;
use super::time;
use crate::types::field_error::{FieldError, utf8};
use crate::types::{json, text_or_bytes};

pub(super) fn decode(kind: CellKind, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        CellKind::Int8 => parsed::<i8>(field).map(|int| Value::Int(int.into())),
        CellKind::UInt8 => parsed::<u8>(field).map(Value::from),
        CellKind::Int16 => parsed::<i16>(field).map(|int| Value::Int(int.into())),
        CellKind::UInt16 => parsed::<u16>(field).map(Value::from),
        CellKind::Int32 => parsed::<i32>(field).map(Value::from),
        CellKind::UInt32 => parsed::<u32>(field).map(Value::from),
        CellKind::Int64 => parsed::<i64>(field).map(Value::Int),
        CellKind::UInt64 => parsed::<u64>(field).map(unsigned),
        CellKind::Float | CellKind::Double => decode_float(field),
        CellKind::Bit => decode_bit(field),
        CellKind::Date => time::decode_date_text(utf8(field)?),
        CellKind::Time => time::decode_time_text(utf8(field)?),
        CellKind::Datetime => time::decode_datetime_text(utf8(field)?),
        CellKind::Decimal
        | CellKind::Json
        | CellKind::Uuid
        | CellKind::Inet
        | CellKind::Text
        | CellKind::Bytes => decode_either(kind, field),
    }
}

/// What is the same in both formats.
#[inline]
pub(super) fn decode_either(kind: CellKind, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        CellKind::Text => Ok(text_or_bytes(field)),
        CellKind::Decimal => decode_decimal(field),
        CellKind::Bit => decode_bit(field),
        CellKind::Uuid => parsed(field).map(Value::Uuid),
        CellKind::Inet => parsed::<IpAddr>(field).map(Value::Ip),
        CellKind::Json => Ok(match str::from_utf8(field) {
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
            (CellKind::Int8, "-128", Value::Int(-128)),
            (CellKind::UInt32, "00042", Value::Int(42)),
            (CellKind::UInt16, "2026", Value::Int(2026)),
            (
                CellKind::Int64,
                "-9223372036854775808",
                Value::Int(i64::MIN),
            ),
            (
                CellKind::UInt64,
                "9223372036854775807",
                Value::Int(i64::MAX),
            ),
            (
                CellKind::UInt64,
                "18446744073709551615",
                decimal("18446744073709551615"),
            ),
            (CellKind::Float, "0.1", Value::Float(0.1)),
            (
                CellKind::Double,
                "-1.7976931348623157e308",
                Value::Float(f64::MIN),
            ),
            (CellKind::Decimal, "00000001.50", decimal("1.50")),
            (CellKind::Bit, "\u{1}\0", Value::Int(256)),
            (CellKind::Bit, "", Value::Int(0)),
        ] {
            assert_eq!(decode(kind, field.as_bytes()), Ok(expected), "{field}");
        }
        assert_eq!(
            decode(CellKind::Bit, &[255; 8]),
            Ok(decimal("18446744073709551615"))
        );
        for (kind, field) in [
            (CellKind::Int8, "128"),
            (CellKind::UInt8, "-1"),
            (CellKind::UInt64, "18446744073709551616"),
            (CellKind::Int32, ""),
            (CellKind::Int32, "4.5"),
            (CellKind::Double, "inf"),
            (CellKind::Double, "NaN"),
            (CellKind::Decimal, "NaN"),
            (CellKind::Decimal, "1e5"),
            (CellKind::Decimal, ""),
            (CellKind::Bit, "123456789"),
        ] {
            assert!(decode(kind, field.as_bytes()).is_err(), "{field}");
        }
    }
}
