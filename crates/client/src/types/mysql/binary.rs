//! Fields of the binary protocol.

use lookaside_value::Value;

use super::kind::Kind;
use super::text::{decode_either, unsigned};
use super::time;
use crate::types::field_error::{FieldError, fixed};
use crate::types::float::widen;

/// A number that is an `i64`, if it is one.
#[inline]
pub(super) fn decode_int(kind: Kind, field: &[u8]) -> Option<i64> {
    Some(match kind {
        Kind::Int32 => i32::from_le_bytes(field.try_into().ok()?).into(),
        Kind::Int64 => i64::from_le_bytes(field.try_into().ok()?),
        Kind::UInt32 => u32::from_le_bytes(field.try_into().ok()?).into(),
        Kind::Int16 => i16::from_le_bytes(field.try_into().ok()?).into(),
        Kind::UInt16 => u16::from_le_bytes(field.try_into().ok()?).into(),
        Kind::Int8 => i8::from_le_bytes(field.try_into().ok()?).into(),
        Kind::UInt8 => u8::from_le_bytes(field.try_into().ok()?).into(),
        _ => return None,
    })
}

#[inline]
pub(super) fn decode(kind: Kind, decimals: u8, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        Kind::Int32 => fixed(field).map(|bytes| Value::from(i32::from_le_bytes(bytes))),
        Kind::Int64 => fixed(field).map(|bytes| Value::Int(i64::from_le_bytes(bytes))),
        Kind::UInt32 => fixed(field).map(|bytes| Value::from(u32::from_le_bytes(bytes))),
        Kind::UInt64 => fixed(field).map(|bytes| unsigned(u64::from_le_bytes(bytes))),
        Kind::Int16 => fixed(field).map(|bytes| Value::Int(i16::from_le_bytes(bytes).into())),
        Kind::UInt16 => fixed(field).map(|bytes| Value::from(u16::from_le_bytes(bytes))),
        Kind::Int8 => fixed(field).map(|bytes| Value::Int(i8::from_le_bytes(bytes).into())),
        Kind::UInt8 => fixed(field).map(|[byte]| Value::from(byte)),
        Kind::Double => fixed(field).map(|bytes| Value::Float(f64::from_le_bytes(bytes))),
        Kind::Float => fixed(field).map(|bytes| Value::Float(widen(f32::from_le_bytes(bytes)))),
        Kind::Date => time::decode_date(field),
        Kind::Time => time::decode_time(decimals, field),
        Kind::Datetime => time::decode_datetime(decimals, field),
        Kind::Decimal
        | Kind::Bit
        | Kind::Json
        | Kind::Uuid
        | Kind::Inet
        | Kind::Text
        | Kind::Bytes => decode_either(kind, field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let decimal = |text: &str| Value::Decimal(text.parse().unwrap());
        for (kind, field, expected) in [
            (Kind::Int8, &[0x80][..], Value::Int(-128)),
            (Kind::UInt8, &[0x80], Value::Int(128)),
            (Kind::Int16, &[0, 0x80], Value::Int(-32_768)),
            (Kind::UInt16, &[0xea, 0x07], Value::Int(2026)),
            (Kind::Int32, &[0xff; 4], Value::Int(-1)),
            (Kind::UInt32, &[0xff; 4], Value::Int(4_294_967_295)),
            (Kind::Int64, &[0xff; 8], Value::Int(-1)),
            (Kind::UInt64, &[0xff; 8], decimal("18446744073709551615")),
            (Kind::Float, &0.1_f32.to_le_bytes(), Value::Float(0.1)),
            (Kind::Double, &0.1_f64.to_le_bytes(), Value::Float(0.1)),
            (Kind::Decimal, b"-1.50", decimal("-1.50")),
        ] {
            if let Some(int) = decode_int(kind, field) {
                assert_eq!(Value::Int(int), expected, "{kind:?}");
            }
            assert_eq!(decode(kind, 0, field), Ok(expected), "{kind:?}");
        }
        for (kind, field, offset) in [
            (Kind::Int32, &[0; 3][..], 3),
            (Kind::Int32, &[0; 5], 4),
            (Kind::UInt8, &[], 0),
            (Kind::Double, &[0; 4], 4),
        ] {
            assert_eq!(decode_int(kind, field), None, "{kind:?}");
            assert_eq!(
                decode(kind, 0, field).unwrap_err().offset,
                offset,
                "{kind:?}"
            );
        }
    }
}
