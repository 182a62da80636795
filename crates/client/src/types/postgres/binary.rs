//! Fields in the binary format: what the types' send functions write.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use lookaside_value::Value;
use uuid::Uuid;

use super::reader::{Reader, fixed};
use super::table::Scalar;
use super::time::{self, Zone};
use super::{Flaw, json, numeric, text_or_bytes};

/// `PGSQL_AF_INET` and `PGSQL_AF_INET6` of the server's `inet.h`.
pub(super) const FAMILY_IPV4: u8 = 2;
pub(super) const FAMILY_IPV6: u8 = 3;
/// The only version of `jsonb` so far.
pub(super) const JSONB_VERSION: u8 = 1;

#[inline]
pub(super) fn decode(scalar: Scalar, field: &[u8]) -> Result<Value, Flaw> {
    match scalar {
        Scalar::Text => Ok(text_or_bytes(field)),
        Scalar::Int4 => fixed(field).map(|bytes| Value::from(i32::from_be_bytes(bytes))),
        Scalar::Int8 => fixed(field).map(|bytes| Value::Int(i64::from_be_bytes(bytes))),
        Scalar::Int2 => fixed(field).map(|bytes| Value::Int(i16::from_be_bytes(bytes).into())),
        Scalar::Oid => fixed(field).map(|bytes| Value::from(u32::from_be_bytes(bytes))),
        Scalar::Bool => match fixed(field)? {
            [0] => Ok(Value::Bool(false)),
            [1] => Ok(Value::Bool(true)),
            _ => Err(Flaw::at(0, "is neither 0 nor 1")),
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
            _ => Err(Flaw::at(0, "has an unknown version")),
        },
    }
}

/// The double that is written with the digits that the server writes: `0.1`, where a cast gives
/// 0.10000000149011612. It becomes the same `float4` again.
pub(super) fn widen(float: f32) -> f64 {
    // Up to here every integer is a float, and digits and value are one.
    const INTEGER_MAX: f32 = 16_777_216.0;
    let exact = f64::from(float);
    if !float.is_finite() || (float.fract() == 0.0 && float.abs() <= INTEGER_MAX) {
        return exact;
    }
    // The shortest digits that round to the float. Where they lie half-way to its neighbour, the
    // server takes more (`float_to_shortest_decimal_buf`); half-way is a double, so that this is exact.
    let half_way = |neighbour: f32| exact + (f64::from(neighbour) - exact) / 2.0;
    let (low, high) = (half_way(float.next_down()), half_way(float.next_up()));
    let parsed = |digits: &str| digits.parse::<f64>().expect("a float's digits are a float");
    let is_inside = |wide: f64| low < wide && wide < high;
    let shortest = parsed(ryu::Buffer::new().format_finite(float));
    if is_inside(shortest) {
        return shortest;
    }
    let mut longer = (1..9).map(|digit_count| parsed(&format!("{float:.digit_count$e}")));
    longer.find(|&wide| is_inside(wide)).unwrap_or(exact)
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

fn decode_network(field: &[u8]) -> Result<Value, Flaw> {
    let mut reader = Reader::new(field);
    let family = reader.u8()?;
    let prefix_size = reader.u8()?;
    let is_cidr = reader.u8()?;
    let size = reader.u8()?;
    let address = match (family, size) {
        (FAMILY_IPV4, 4) => IpAddr::V4(Ipv4Addr::from(reader.array::<4>()?)),
        (FAMILY_IPV6, 16) => IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)),
        (FAMILY_IPV4 | FAMILY_IPV6, _) => return Err(Flaw::at(3, "has the wrong size")),
        _ => return Err(Flaw::at(0, "is of an unknown family")),
    };
    reader.end()?;
    let net = IpNet::new(address, prefix_size)
        .map_err(|_| Flaw::at(1, "has a mask longer than its address"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_digits_of_the_server() {
        for (float, expected) in [
            (0.1, 0.1),
            (-0.0, -0.0),
            (16_777_216.0, 16_777_216.0),
            (f32::MAX, 3.402_823_5e38),
            (f32::MIN_POSITIVE, 1.175_494_4e-38),
            (f32::from_bits(1), 1e-45),
            (8_589_934_592.0, 8_589_935_000.0),
            // The shortest digits, 8.166862e7 and 4.873287e7, lie half-way to the next float.
            (-81_668_624.0, -81_668_624.0),
            (48_732_872.0, 48_732_872.0),
            (f32::NEG_INFINITY, f64::NEG_INFINITY),
        ] {
            let wide = widen(float);
            assert_eq!(wide.to_bits(), f64::to_bits(expected), "{float}: {wide}");
            assert_eq!((wide as f32).to_bits(), float.to_bits());
        }
        assert!(widen(f32::NAN).is_nan());
    }
}
