//! Fields in the binary format: what the types' send functions write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use lookaside_value::Value;
use uuid::Uuid;

use super::reader::Reader;
use super::table::Scalar;
use super::time::{self, Zone};
use super::{numeric, text_or_bytes};
use crate::types::field_error::{FieldError, fixed};
use crate::types::float::widen;
use crate::types::json;

/// `PGSQL_AF_INET` and `PGSQL_AF_INET6` of the server's `inet.h`.
pub(super) const FAMILY_IPV4: u8 = 2;
pub(super) const FAMILY_IPV6: u8 = 3;
/// The only version of `jsonb` so far.
pub(super) const JSONB_VERSION: u8 = 1;

#[inline]
pub(super) fn decode(scalar: Scalar, field: &[u8]) -> Result<Value, FieldError> {
    match scalar {
        Scalar::Text => Ok(text_or_bytes(field)),
        Scalar::Int4 => fixed(field).map(|bytes| Value::from(i32::from_be_bytes(bytes))),
        Scalar::Int8 => fixed(field).map(|bytes| Value::Int(i64::from_be_bytes(bytes))),
        Scalar::Int2 => fixed(field).map(|bytes| Value::Int(i16::from_be_bytes(bytes).into())),
        Scalar::Oid => fixed(field).map(|bytes| Value::from(u32::from_be_bytes(bytes))),
        Scalar::Bool => match fixed(field)? {
            [0] => Ok(Value::Bool(false)),
            [1] => Ok(Value::Bool(true)),
            _ => Err(FieldError::at(0, "is neither 0 nor 1")),
        },
        Scalar::Float8 => fixed(field).map(|bytes| Value::Float(f64::from_be_bytes(bytes))),
        Scalar::Float4 => fixed(field).map(|bytes| Value::Float(widen(f32::from_be_bytes(bytes)))),
        Scalar::Numeric => numeric::decode(field),
        Scalar::Char => fixed(field).map(|[byte]| char_text(byte)),
        Scalar::Bytea | Scalar::Other => Ok(Value::Bytes(field.into())),
        Scalar::Date => time::decode_date(field),
        Scalar::Time => time::decode_time(field),
        Scalar::Timetz => time::decode_timetz(field),
        Scalar::Timestamp => time::decode_timestamp(Zone::Wall, field),
        Scalar::Timestamptz => time::decode_timestamp(Zone::Utc, field),
        Scalar::Interval => time::decode_interval(field),
        Scalar::Uuid => fixed(field).map(|bytes| Value::Uuid(Uuid::from_bytes(bytes))),
        Scalar::Inet | Scalar::Cidr => decode_network(field),
        Scalar::Macaddr => fixed::<6>(field).map(|bytes| mac(&bytes)),
        Scalar::Macaddr8 => fixed::<8>(field).map(|bytes| mac(&bytes)),
        Scalar::Json => Ok(decode_json(field)),
        Scalar::Jsonb => match field {
            [JSONB_VERSION, text @ ..] => Ok(decode_json(text)),
            _ => Err(FieldError::at(0, "has an unknown version")),
        },
    }
}

/// As the server writes it from version 16 on.
fn char_text(byte: u8) -> Value {
    match byte {
        0 => Value::from(""),
        1..0x80 => Value::from(char::from(byte).encode_utf8(&mut [0; 4]) as &str),
        _ => Value::from(format!("\\{byte:03o}")),
    }
}

fn decode_json(text: &[u8]) -> Value {
    match str::from_utf8(text) {
        Ok(text) => json::decode(text),
        Err(_) => Value::Bytes(text.into()),
    }
}

fn decode_network(field: &[u8]) -> Result<Value, FieldError> {
    let mut reader = Reader::new(field);
    let family = reader.u8()?;
    let prefix_size = reader.u8()?;
    let is_cidr = reader.u8()?;
    let size = reader.u8()?;
    let address = match (family, size) {
        (FAMILY_IPV4, 4) => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
        (FAMILY_IPV6, 16) => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
        (FAMILY_IPV4 | FAMILY_IPV6, _) => return Err(FieldError::at(3, "has the wrong size")),
        _ => return Err(FieldError::at(0, "is of an unknown family")),
    };
    reader.end()?;
    let net = IpNet::new(address, prefix_size)
        .map_err(|_| FieldError::at(1, "has a mask longer than its address"))?;
    Ok(
        if is_cidr == 0 && net.prefix_len() == net.max_prefix_len() {
            Value::Ip(address)
        } else {
            Value::Net(net)
        },
    )
}

fn mac(bytes: &[u8]) -> Value {
    let parts: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::from(parts.join(":"))
}
