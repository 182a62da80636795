//! Fields of the binary protocol.

use lookaside_value::Value;

use super::kind::CellKind;
use super::text::{decode_either, unsigned};
use super::time;
use crate::types::field_error::{FieldError, fixed};
use crate::types::float::widen;

/// A number that is an `i64`, if it is one.
#[inline]
pub(super) fn decode_int(kind: CellKind, field: &[u8]) -> Option<i64> {
    Some(match kind {
        CellKind::Int32 => i32::from_le_bytes(field.try_into().ok()?).into(),
        CellKind::Int64 => i64::from_le_bytes(field.try_into().ok()?),
        CellKind::UInt32 => u32::from_le_bytes(field.try_into().ok()?).into(),
        CellKind::Int16 => i16::from_le_bytes(field.try_into().ok()?).into(),
        CellKind::UInt16 => u16::from_le_bytes(field.try_into().ok()?).into(),
        CellKind::Int8 => i8::from_le_bytes(field.try_into().ok()?).into(),
        CellKind::UInt8 => u8::from_le_bytes(field.try_into().ok()?).into(),
        _ => return None,
    })
}

#[inline]
pub(super) fn decode(kind: CellKind, decimals: u8, field: &[u8]) -> Result<Value, FieldError> {
    match kind {
        CellKind::Int32 => fixed(field).map(|bytes| Value::from(i32::from_le_bytes(bytes))),
        CellKind::Int64 => fixed(field).map(|bytes| Value::Int(i64::from_le_bytes(bytes))),
        CellKind::UInt32 => fixed(field).map(|bytes| Value::from(u32::from_le_bytes(bytes))),
        CellKind::UInt64 => fixed(field).map(|bytes| unsigned(u64::from_le_bytes(bytes))),
        CellKind::Int16 => fixed(field).map(|bytes| Value::Int(i16::from_le_bytes(bytes).into())),
        CellKind::UInt16 => fixed(field).map(|bytes| Value::from(u16::from_le_bytes(bytes))),
        CellKind::Int8 => fixed(field).map(|bytes| Value::Int(i8::from_le_bytes(bytes).into())),
        CellKind::UInt8 => fixed(field).map(|[byte]| Value::from(byte)),
        CellKind::Double => fixed(field).map(|bytes| Value::Float(f64::from_le_bytes(bytes))),
        CellKind::Float => fixed(field).map(|bytes| Value::Float(widen(f32::from_le_bytes(bytes)))),
        CellKind::Date => time::decode_date(field),
        CellKind::Time => time::decode_time(decimals, field),
        CellKind::Datetime => time::decode_datetime(decimals, field),
        CellKind::Decimal
        | CellKind::Bit
        | CellKind::Json
        | CellKind::Uuid
        | CellKind::Inet
        | CellKind::Text
        | CellKind::Bytes => decode_either(kind, field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let decimal = |text: &str| Value::Decimal(text.parse().unwrap());
        for (kind, field, expected) in [
            (CellKind::Int8, &[0x80][..], Value::Int(-128)),
            (CellKind::UInt8, &[0x80], Value::Int(128)),
            (CellKind::Int16, &[0, 0x80], Value::Int(-32_768)),
            (CellKind::UInt16, &[0xea, 0x07], Value::Int(2026)),
            (CellKind::Int32, &[0xff; 4], Value::Int(-1)),
            (CellKind::UInt32, &[0xff; 4], Value::Int(4_294_967_295)),
            (CellKind::Int64, &[0xff; 8], Value::Int(-1)),
            (
                CellKind::UInt64,
                &[0xff; 8],
                decimal("18446744073709551615"),
            ),
            (CellKind::Float, &0.1_f32.to_le_bytes(), Value::Float(0.1)),
            (CellKind::Double, &0.1_f64.to_le_bytes(), Value::Float(0.1)),
            (CellKind::Decimal, b"-1.50", decimal("-1.50")),
        ] {
            if let Some(int) = decode_int(kind, field) {
                assert_eq!(Value::Int(int), expected, "{kind:?}");
            }
            assert_eq!(decode(kind, 0, field), Ok(expected), "{kind:?}");
        }
        for (kind, field, offset) in [
            (CellKind::Int32, &[0; 3][..], 3),
            (CellKind::Int32, &[0; 5], 4),
            (CellKind::UInt8, &[], 0),
            (CellKind::Double, &[0; 4], 4),
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
