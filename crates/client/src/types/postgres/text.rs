//! Fields in the text format: what the types' output functions write.

use std::net::IpAddr;

use ipnet::IpNet;
use lookaside_value::{Decimal, Value};

use super::table::Scalar;
use super::text_or_bytes;
use super::time::{self, Zone};
use crate::types::field_error::{FieldError, utf8};
use crate::types::float::widen;
use crate::types::json;

pub(super) fn decode(scalar: Scalar, field: &[u8]) -> Result<Value, FieldError> {
    match scalar {
        Scalar::Bool => match field {
            b"t" => Ok(Value::Bool(true)),
            b"f" => Ok(Value::Bool(false)),
            _ => Err(FieldError::at(0, "is neither t nor f")),
        },
        Scalar::Int2 => parsed::<i16>(field).map(|int| Value::Int(int.into())),
        Scalar::Int4 => parsed::<i32>(field).map(Value::from),
        Scalar::Int8 => parsed::<i64>(field).map(Value::Int),
        Scalar::Oid => parsed::<u32>(field).map(Value::from),
        // Both are the server's spellings: NaN, Infinity and -Infinity.
        Scalar::Float4 => parsed::<f32>(field).map(|float| Value::Float(widen(float))),
        Scalar::Float8 => parsed::<f64>(field).map(Value::Float),
        Scalar::Numeric => parsed::<Decimal>(field).map(Value::Decimal),
        Scalar::Bytea => decode_bytea(field),
        Scalar::Uuid => parsed(field).map(Value::Uuid),
        Scalar::Inet => decode_inet(field),
        Scalar::Cidr => parsed::<IpNet>(field).map(Value::Net),
        _ => Ok(match str::from_utf8(field) {
            Err(_) => text_or_bytes(field),
            Ok(text) => match scalar {
                Scalar::Timestamp => time::decode_timestamp_text(Zone::Wall, text),
                Scalar::Timestamptz => time::decode_timestamp_text(Zone::Utc, text),
                Scalar::Json | Scalar::Jsonb => json::decode(text),
                _ => Value::from(text),
            },
        }),
    }
}

fn parsed<T: std::str::FromStr>(field: &[u8]) -> Result<T, FieldError> {
    let text = utf8(field)?;
    text.parse()
        .map_err(|_| FieldError::at(0, "is not of this type"))
}

fn decode_inet(field: &[u8]) -> Result<Value, FieldError> {
    if field.contains(&b'/') {
        return parsed::<IpNet>(field).map(Value::Net);
    }
    parsed::<IpAddr>(field).map(Value::Ip)
}

/// `\x` and hexadecimal digits; with `bytea_output = escape`, bytes with `\\` and `\ooo` among them.
fn decode_bytea(field: &[u8]) -> Result<Value, FieldError> {
    match field.strip_prefix(b"\\x") {
        Some(digits) => decode_hex(digits).map_err(|error| error.within(2)),
        None => decode_escaped(field),
    }
}

fn decode_hex(digits: &[u8]) -> Result<Value, FieldError> {
    let nibble = |at: usize| match char::from(digits[at]).to_digit(16) {
        Some(nibble) => Ok(nibble as u8),
        None => Err(FieldError::at(at, "is not a hexadecimal digit")),
    };
    if digits.len() % 2 == 1 {
        return Err(FieldError::at(digits.len(), "ends early"));
    }
    let bytes: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|at| Ok(nibble(at)? << 4 | nibble(at + 1)?))
        .collect::<Result<_, FieldError>>()?;
    Ok(Value::from(bytes))
}

fn decode_escaped(field: &[u8]) -> Result<Value, FieldError> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut at = 0;
    while let Some(&byte) = field.get(at) {
        if byte != b'\\' {
            bytes.push(byte);
            at += 1;
            continue;
        }
        match &field[at + 1..] {
            [b'\\', ..] => {
                bytes.push(b'\\');
                at += 2;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                at += 4;
            }
            _ => return Err(FieldError::at(at, "is not an escape")),
        }
    }
    Ok(Value::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_both_outputs() {
        let expected = Value::from(vec![0_u8, b'a', b'\\', 255]);
        assert_eq!(decode(Scalar::Bytea, b"\\x00615Cff"), Ok(expected.clone()));
        assert_eq!(decode(Scalar::Bytea, b"\\000a\\\\\\377"), Ok(expected));
        for (field, offset) in [
            (&b"\\x0"[..], 3),
            (b"\\x0g", 3),
            (b"a\\", 1),
            (b"\\400", 0),
            (b"\\38", 0),
        ] {
            let error = decode(Scalar::Bytea, field).unwrap_err();
            assert_eq!(error.offset, offset, "{field:?}");
        }
    }
}
