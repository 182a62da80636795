//! A value as what a type holds, before it is written in either format.

use std::borrow::Cow;

use ipnet::IpNet;
use lookaside_value::{Decimal, Time, Type, Value, parse_ipv4};
use uuid::Uuid;

use super::error::Misfit;
use super::table::Scalar;
use super::time::{self, Micros, Zone};
use super::zone::without_zone;
use crate::types::json::write_json;

/// What goes to the server.
pub(super) enum Param<'a> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(&'a [u8]),
    Uuid(Uuid),
    Net(IpNet),
    /// Microseconds since 2000.
    Timestamp(Zone, i64),
    /// Text that is the same in both formats.
    Text(Cow<'a, str>),
    /// Text that the server's input function is to read.
    Input(Cow<'a, str>),
}

impl<'a> Param<'a> {
    /// The value as `scalar` holds it. Text is read as the server reads it, at least where this
    /// crate reads it itself; what it cannot read is left to the server where that takes more forms.
    pub(super) fn of(scalar: Scalar, value: &'a Value) -> Result<Self, Misfit> {
        match scalar {
            Scalar::Bool => to_bool(value).map(Self::Bool),
            Scalar::Int2 => to_int(value, i16::MIN.into(), i16::MAX.into()).map(Self::Int),
            Scalar::Int4 => to_int(value, i32::MIN.into(), i32::MAX.into()).map(Self::Int),
            Scalar::Int8 => to_int(value, i64::MIN, i64::MAX).map(Self::Int),
            Scalar::Oid => to_int(value, 0, u32::MAX.into()).map(Self::Int),
            Scalar::Float4 => to_float(value).and_then(narrow).map(Self::Float),
            Scalar::Float8 => to_float(value).map(Self::Float),
            Scalar::Numeric => to_numeric(value).map(Self::Input),
            Scalar::Text => Ok(Self::Text(raw(value))),
            Scalar::Bytea => Ok(match value {
                Value::Bytes(bytes) => Self::Bytes(bytes),
                other => Self::Input(raw(other)),
            }),
            Scalar::Date => from_time(&without_zone(value)?, time::write_date),
            Scalar::Time => from_time(&without_zone(value)?, time::write_time_of_day),
            Scalar::Timetz => from_time(value, time::write_time_of_day),
            Scalar::Timestamp => to_timestamp(Zone::Wall, &without_zone(value)?),
            Scalar::Timestamptz => to_timestamp(Zone::Utc, value),
            Scalar::Uuid => to_uuid(value).map(Self::Uuid),
            Scalar::Inet => to_network(value),
            Scalar::Cidr => match to_network(value)? {
                Self::Net(net) if net.addr() != net.network() => Err(Misfit::HostBits),
                param => Ok(param),
            },
            Scalar::Json | Scalar::Jsonb => to_json(value).map(Self::Input),
            Scalar::Char | Scalar::Interval | Scalar::Macaddr | Scalar::Macaddr8 => {
                as_text(value).map(Cow::Borrowed).map(Self::Input)
            }
            Scalar::Other => Ok(Self::Input(input(value)?)),
        }
    }
}

fn as_text(value: &Value) -> Result<&str, Misfit> {
    value.as_str().ok_or(Misfit::Other)
}

/// The raw text of a value; of a time with an offset that of its clock in UTC, as SQLite and MySQL
/// get it.
fn raw(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Time(time) => Cow::Owned(time.to_utc().to_string()),
        value => match value.as_str() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(value.to_text().into()),
        },
    }
}

/// The text that a type which this crate does not support most likely accepts.
pub(super) fn input(value: &Value) -> Result<Cow<'_, str>, Misfit> {
    let mut out = String::new();
    match value {
        Value::Time(time) => time::write_time(*time, &mut out),
        Value::Bytes(bytes) => write_bytea(bytes, &mut out),
        Value::Object(_) => write_json(value, &mut out).map_err(|_| Misfit::NoJson)?,
        Value::Float(float) => return Ok(Cow::Owned(float_text(*float))),
        other => return Ok(raw(other)),
    }
    Ok(Cow::Owned(out))
}

pub(super) fn write_bytea(bytes: &[u8], out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\x");
    for byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// As the server spells it.
pub(super) fn float_text(float: f64) -> String {
    if float.is_infinite() {
        return (if float < 0.0 { "-Infinity" } else { "Infinity" }).to_owned();
    }
    // Not a positional one: 1e308 has 309 digits there.
    format!("{float:e}")
}

/// The words of the server's `parse_bool`, which may be cut short as long as one remains.
fn to_bool(value: &Value) -> Result<bool, Misfit> {
    match value {
        Value::Bool(bool) => Ok(*bool),
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        other => {
            let text = as_text(other)?.trim_ascii().to_ascii_lowercase();
            let cut = |word: &str, size: usize| text.len() >= size && word.starts_with(&text);
            if cut("true", 1) || cut("yes", 1) || text == "on" || text == "1" {
                Ok(true)
            } else if cut("false", 1) || cut("no", 1) || cut("off", 2) || text == "0" {
                Ok(false)
            } else {
                Err(Misfit::Other)
            }
        }
    }
}

fn to_int(value: &Value, min: i64, max: i64) -> Result<i64, Misfit> {
    let int = match value {
        Value::Int(int) => *int,
        Value::Bool(bool) => i64::from(*bool),
        Value::Float(float) if float.is_finite() && float.fract() == 0.0 => {
            match value.convert(Type::Int) {
                Ok(Value::Int(int)) => int,
                _ => return Err(Misfit::OutOfRange),
            }
        }
        Value::Decimal(decimal) => int_from_text(whole(decimal))?,
        other => int_from_text(as_text(other)?.trim_ascii())?,
    };
    if (min..=max).contains(&int) {
        Ok(int)
    } else {
        Err(Misfit::OutOfRange)
    }
}

/// A decimal without a fraction that is zero.
fn whole(decimal: &Decimal) -> &str {
    match decimal.as_str().split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte == b'0') => whole,
        _ => decimal.as_str(),
    }
}

fn int_from_text(text: &str) -> Result<i64, Misfit> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| match error.kind() {
        PosOverflow | NegOverflow => Misfit::OutOfRange,
        _ => Misfit::Other,
    })
}

fn to_float(value: &Value) -> Result<f64, Misfit> {
    let text = match value {
        Value::Float(float) => return Ok(*float),
        Value::Int(int) => return Ok(*int as f64),
        Value::Decimal(decimal) => decimal.as_str(),
        other => as_text(other)?.trim_ascii(),
    };
    let float: f64 = text.parse().map_err(|_| Misfit::Other)?;
    // `1e400` is not an infinity, nor is `1e-400` zero; the server rejects them too.
    let digits = || text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let says_number = digits().any(|byte| byte.is_ascii_digit());
    let says_zero = !digits().any(|byte| (b'1'..=b'9').contains(&byte));
    if says_number && (float.is_infinite() || (float == 0.0 && !says_zero)) {
        return Err(Misfit::OutOfRange);
    }
    Ok(float)
}

/// The nearest `float4`, as wide as it came.
fn narrow(float: f64) -> Result<f64, Misfit> {
    let narrow = float as f32;
    let lost = (narrow.is_infinite() && float.is_finite()) || (narrow == 0.0 && float != 0.0);
    if lost {
        return Err(Misfit::OutOfRange);
    }
    Ok(f64::from(narrow))
}

fn to_numeric(value: &Value) -> Result<Cow<'_, str>, Misfit> {
    match value {
        Value::Int(_) | Value::Decimal(_) => Ok(raw(value)),
        Value::Float(float) => Ok(Cow::Owned(float_text(*float))),
        other => {
            let text = as_text(other)?.trim_ascii();
            // Rust's floats and the server's numerics are written alike: digits with a point, an
            // exponent, NaN, infinities.
            text.parse::<f64>().map_err(|_| Misfit::Other)?;
            Ok(Cow::Borrowed(text))
        }
    }
}

fn from_time<'a>(value: &Value, write: fn(Time, &mut String)) -> Result<Param<'a>, Misfit> {
    let mut out = String::new();
    match value {
        Value::Time(time) => write(*time, &mut out),
        other => out.push_str(as_text(other)?),
    }
    Ok(Param::Input(Cow::Owned(out)))
}

fn to_timestamp<'a>(zone: Zone, value: &Value) -> Result<Param<'a>, Misfit> {
    let Value::Time(time) = value else {
        return from_time(value, time::write_time);
    };
    match time::encode_time(zone, *time) {
        Micros::Count(micros) => Ok(Param::Timestamp(zone, micros)),
        Micros::OutOfRange => Err(Misfit::OutOfRange),
        Micros::NoOffset => from_time(value, time::write_time),
    }
}

/// The server takes braces, and hyphens anywhere between groups of digits.
fn to_uuid(value: &Value) -> Result<Uuid, Misfit> {
    if let Value::Uuid(uuid) = value {
        return Ok(*uuid);
    }
    let text = as_text(value)?.trim_ascii();
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let digits = inner.unwrap_or(text).replace('-', "");
    Uuid::try_parse_ascii(digits.as_bytes()).map_err(|_| Misfit::Other)
}

fn to_network(value: &Value) -> Result<Param<'_>, Misfit> {
    match value {
        Value::Ip(ip) => Ok(Param::Net(IpNet::from(*ip))),
        Value::Net(net) => Ok(Param::Net(*net)),
        other => {
            let text = as_text(other)?;
            if let Some(ip) = parse_ipv4(text.as_bytes()) {
                return Ok(Param::Net(IpNet::from(std::net::IpAddr::V4(ip))));
            }
            // The server takes shorter forms too: `10.1` is a network.
            Ok(match text.parse() {
                Ok(ip) => Param::Net(IpNet::from(std::net::IpAddr::V6(ip))),
                Err(_) => text.parse().map_or(Param::Input(text.into()), Param::Net),
            })
        }
    }
}

/// Text is JSON already, as a command line or a file has it; everything else becomes JSON.
fn to_json(value: &Value) -> Result<Cow<'_, str>, Misfit> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::new();
    write_json(value, &mut out).map_err(|_| Misfit::NoJson)?;
    Ok(Cow::Owned(out))
}
