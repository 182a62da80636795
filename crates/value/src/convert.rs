//! Conversions between types: total functions that return a value or the reason why there is none.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::{Decimal, Text, Time, Type, Value};

/// A value that cannot be converted to the requested type; the value itself is not included, as it
/// may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertError {
    from: Type,
    to: Type,
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this {} is not a valid {}", self.from, self.to)
    }
}

impl Error for ConvertError {}

/// `true` and `false` in lower case.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Parses a decimal integer with an optional sign and nothing around it.
pub fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Parses a finite number as Rust writes it. `NaN`, `inf` and numbers beyond the range of a float,
/// such as `1e999`, are refused: they are not measurements, and most consumers of a value cannot
/// represent them.
pub fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|float: &f64| float.is_finite())
}

/// A finite decimal number; see [`parse_float`].
fn parse_decimal(text: &str) -> Option<Decimal> {
    text.parse().ok().filter(Decimal::is_finite)
}

/// Parses an IPv4 address: four decimal numbers up to 255 without leading zeros, nothing around
/// them. As strict as the standard library, and in one pass, since it parses every address of every
/// event and table row.
pub fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (mut ip, mut octet, mut digit_count, mut point_count) = (0_u32, 0_u32, 0, 0);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            if digit_count > 0 && octet == 0 {
                return None;
            }
            octet = octet * 10 + u32::from(digit);
            digit_count += 1;
            if octet > 255 {
                return None;
            }
        } else if byte == b'.' && digit_count > 0 && point_count < 3 {
            ip = ip << 8 | octet;
            (octet, digit_count) = (0, 0);
            point_count += 1;
        } else {
            return None;
        }
    }
    (point_count == 3 && digit_count > 0).then(|| Ipv4Addr::from(ip << 8 | octet))
}

impl Value {
    /// Converts the value to another type.
    ///
    /// Text is parsed; anything becomes text; integers become floats where that is exact, floats
    /// integers where that is exact. A value that has the type already is returned as it is.
    ///
    /// # Errors
    /// When the content has no such form.
    pub fn convert(&self, to: Type) -> Result<Self, ConvertError> {
        let from = self.type_of();
        if from == to {
            return Ok(self.clone());
        }
        let converted = match (self, to) {
            (_, Type::Text) => Some(Self::Text(self.to_text())),
            (Self::Text(text), _) => parse(text, to),
            (Self::Symbol(text), _) => parse(text, to),
            (Self::Int(int), Type::Float) => exact_float(*int).map(Self::Float),
            (Self::Int(int), Type::Decimal) => int.to_string().parse().ok().map(Self::Decimal),
            (Self::Float(float), Type::Int) => exact_int(*float).map(Self::Int),
            (Self::Decimal(decimal), Type::Int | Type::Float) => parse(decimal.as_str(), to),
            _ => None,
        };
        converted.ok_or(ConvertError { from, to })
    }
}

fn parse(text: &str, to: Type) -> Option<Value> {
    match to {
        Type::Bool => parse_bool(text).map(Value::Bool),
        Type::Int => parse_int(text).map(Value::Int),
        Type::Float => parse_float(text).map(Value::Float),
        Type::Decimal => parse_decimal(text).map(Value::Decimal),
        Type::Symbol => Some(Value::Symbol(text.into())),
        Type::Text => Some(Value::Text(Text::from(text))),
        Type::Bytes => Some(Value::Bytes(text.as_bytes().into())),
        Type::Time => text.parse::<Time>().ok().map(Value::Time),
        Type::Ip => text.parse::<IpAddr>().ok().map(Value::Ip),
        Type::Net => text.parse().ok().map(Value::Net),
        Type::Uuid => text.parse().ok().map(Value::Uuid),
        Type::Null | Type::Ignore | Type::Object | Type::Array => None,
    }
}

fn exact_float(int: i64) -> Option<f64> {
    let float = int as f64;
    (exact_int(float) == Some(int)).then_some(float)
}

fn exact_int(float: f64) -> Option<i64> {
    // 2^63 itself is out of range, and the cast saturates there.
    let in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    (in_range && float.fract() == 0.0).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: impl Into<Value>, to: Type, expected: Option<Value>) {
        let value = value.into();
        assert_eq!(value.convert(to).ok(), expected, "{value:?} to {to}");
    }

    #[test]
    fn conversions() {
        check("true", Type::Bool, Some(Value::Bool(true)));
        check("TRUE", Type::Bool, None);
        check("-7", Type::Int, Some(Value::Int(-7)));
        check(" 7", Type::Int, None);
        check("9223372036854775808", Type::Int, None);
        check("1.5", Type::Float, Some(Value::Float(1.5)));
        // Values that are not finite are treated alike, from each type that can express them.
        for text in [
            "nan",
            "NaN",
            "inf",
            "-inf",
            "Infinity",
            "-Infinity",
            "1e999",
            "-1e999",
        ] {
            check(text, Type::Float, None);
            check(text, Type::Decimal, None);
        }
        for text in ["NaN", "Infinity", "-Infinity"] {
            check(Value::Decimal(text.parse().unwrap()), Type::Float, None);
            check(Value::Decimal(text.parse().unwrap()), Type::Int, None);
        }
        check(
            "10.0.0.1",
            Type::Ip,
            Some(Value::Ip("10.0.0.1".parse().unwrap())),
        );
        check("10.0.0.1/33", Type::Net, None);
        check("x", Type::Object, None);
        check(600.0, Type::Text, Some(Value::from("600")));
        check(Value::Null, Type::Text, Some(Value::from("")));
        check(Value::Null, Type::Int, None);
        check(2.0, Type::Int, Some(Value::Int(2)));
        check(2.5, Type::Int, None);
        check(9_223_372_036_854_775_808.0, Type::Int, None);
        check(i64::MAX, Type::Float, None);
        check(
            1_i64 << 53,
            Type::Float,
            Some(Value::Float(9_007_199_254_740_992.0)),
        );
        check(
            i64::MIN,
            Type::Float,
            Some(Value::Float(-9_223_372_036_854_775_808.0)),
        );
        check(5_i64, Type::Bool, None);
    }

    #[test]
    fn addresses_are_read_as_the_standard_library_reads_them() {
        for text in [
            "0.0.0.0",
            "255.255.255.255",
            "10.0.0.1",
            "01.2.3.4",
            "1.2.3.00",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.4.",
            ".1.2.3",
            "1..2.3",
            "",
            " 1.2.3.4",
            "1.2.3.4 ",
            "1.2.3.x",
            "0000.0.0.0",
            "4294967296.1.1.1",
            "00.0.0.0",
            "100.200.100.2000",
            "a.b.c.d",
            "1.1.1.1.",
            "256.1.1.1",
            "01.1.1.1",
            "1.1.1",
        ] {
            assert_eq!(parse_ipv4(text.as_bytes()), text.parse().ok(), "{text:?}");
        }
    }

    #[test]
    fn every_pair_of_types_has_an_answer() {
        let values = [
            Value::Null,
            Value::Ignore,
            Value::Bool(true),
            Value::Int(1),
            Value::Float(1.0),
            Value::Decimal("1".parse().unwrap()),
            Value::from("1"),
            Value::Symbol("1".into()),
            Value::from(vec![1_u8]),
            Value::Time("2026-01-01 00:00:00".parse().unwrap()),
            Value::Ip("1.1.1.1".parse().unwrap()),
            Value::Net("1.1.1.0/24".parse().unwrap()),
            Value::Uuid(uuid::Uuid::nil()),
            Value::from(crate::Object::new()),
            Value::from(vec![Value::Null]),
        ];
        for value in &values {
            for to in values.iter().map(Value::type_of) {
                match value.convert(to) {
                    Ok(converted) => assert_eq!(converted.type_of(), to),
                    Err(error) => assert_eq!((error.from, error.to), (value.type_of(), to)),
                }
            }
            assert!(value.convert(Type::Text).is_ok(), "anything has a text");
        }
    }
}
