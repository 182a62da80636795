//! Values as parameters: what they are decides what goes out, for a server converts it to what it
//! needs, and says only afterwards what that was.

use jiff::civil::DateTime;
use lookaside_value::{Time, Value};

use super::error::{EncodeError, Loss};
use crate::types::json::write_json;

/// `DECIMAL_MAX_PRECISION` of the servers, and the smaller of their `DECIMAL_MAX_SCALE`.
const DIGIT_COUNT_MAX: usize = 65;
const SCALE_MAX: usize = 30;

/// The type that a parameter goes out with.
///
/// MySQL fixes a statement's parameters at the types of its first execution: text that comes later
/// where an integer came first is the integer 0, and no error. So a prepared statement belongs to
/// its SQL and the types of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamType(u8);

impl ParamType {
    const TINY: Self = Self(1);
    const DOUBLE: Self = Self(5);
    const NULL: Self = Self(6);
    const LONGLONG: Self = Self(8);
    const DATETIME: Self = Self(12);
    const NEWDECIMAL: Self = Self(246);
    /// Bytes; the servers convert them to no character set.
    const BLOB: Self = Self(252);
    /// Text in the character set of the session, which is UTF-8.
    const VAR_STRING: Self = Self(253);

    /// The type that the value goes out with. None of them is unsigned.
    pub fn of(value: &Value) -> Self {
        match value {
            value if value.is_null() => Self::NULL,
            Value::Bool(_) => Self::TINY,
            Value::Int(_) => Self::LONGLONG,
            Value::Float(_) => Self::DOUBLE,
            Value::Decimal(_) => Self::NEWDECIMAL,
            Value::Time(_) => Self::DATETIME,
            Value::Bytes(_) => Self::BLOB,
            // Text, and what is sent as text.
            _ => Self::VAR_STRING,
        }
    }

    /// The protocol's number of it.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Whether it is the type of NULL, for which nothing is sent.
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }
}

/// Appends the value as [`ParamType::of`] it, without a length before it; nothing for NULL.
///
/// Addresses and UUIDs are their text, objects and arrays are JSON.
///
/// # Errors
/// When the server would store only a part of the value, or change it. Nothing was appended then.
/// The error does not state which parameter it was, see [`EncodeError::in_parameter`].
pub fn encode(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let refuse = |loss| Err(EncodeError::new(value.type_of(), loss));
    match value {
        value if value.is_null() => {}
        Value::Bool(bool) => out.push(u8::from(*bool)),
        Value::Int(int) => out.extend(int.to_le_bytes()),
        Value::Float(float) if !float.is_finite() => return refuse(Loss::NoNumber),
        Value::Float(float) => out.extend(float.to_le_bytes()),
        Value::Decimal(decimal) => {
            check_decimal(decimal.as_str()).or_else(refuse)?;
            out.extend(decimal.as_str().bytes());
        }
        Value::Time(time) => write_datetime(*time, out).or_else(refuse)?,
        Value::Bytes(bytes) => out.extend(&**bytes),
        Value::Object(_) | Value::Array(_) => {
            let mut json = String::new();
            if write_json(value, &mut json).is_err() {
                return refuse(Loss::NoJson);
            }
            out.extend(json.bytes());
        }
        _ => match value.as_str() {
            Some(text) => out.extend(text.bytes()),
            None => out.extend(value.to_text().bytes()),
        },
    }
    Ok(())
}

fn check_decimal(text: &str) -> Result<(), Loss> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(Loss::NoNumber);
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole_size = if whole == "0" { 0 } else { whole.len() };
    if fraction.len() > SCALE_MAX || whole_size + fraction.len() > DIGIT_COUNT_MAX {
        return Err(Loss::Digits);
    }
    Ok(())
}

/// Seven bytes, or eleven if there are microseconds. There is no offset in them, so a time that has
/// one goes as its clock in UTC.
fn write_datetime(time: Time, out: &mut Vec<u8>) -> Result<(), Loss> {
    let civil: DateTime = time.to_utc().civil();
    let nanos = civil.subsec_nanosecond();
    if nanos % 1000 != 0 {
        return Err(Loss::Nanoseconds);
    }
    let year = u16::try_from(civil.year()).map_err(|_| Loss::Year)?;
    out.extend(year.to_le_bytes());
    for part in [
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second(),
    ] {
        out.push(part.unsigned_abs());
    }
    if nanos != 0 {
        out.extend((nanos / 1000).to_le_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().unwrap())
    }

    fn time(text: &str) -> Value {
        Value::Time(text.parse().unwrap())
    }

    #[track_caller]
    fn check(value: impl Into<Value>, code: u8, expected: &[u8]) {
        let value = value.into();
        let mut out = b"before".to_vec();
        assert_eq!(encode(&value, &mut out), Ok(()), "{value:?}");
        assert_eq!(out.strip_prefix(b"before"), Some(expected), "{value:?}");
        assert_eq!(ParamType::of(&value).code(), code, "{value:?}");
    }

    #[track_caller]
    fn check_loss(value: impl Into<Value>, expected: &str) {
        let value = value.into();
        let mut out = b"before".to_vec();
        let error = encode(&value, &mut out).unwrap_err().in_parameter("p");
        assert!(
            error
                .to_string()
                .starts_with(&format!("parameter `p`: {expected}")),
            "{error}"
        );
        assert_eq!(out, b"before");
    }

    #[test]
    fn values_that_arrive_whole() {
        check(Value::Null, 6, b"");
        check(Value::Ignore, 6, b"");
        check(true, 1, &[1]);
        check(-2_i64, 8, &[254, 255, 255, 255, 255, 255, 255, 255]);
        check(0.5, 5, &0.5_f64.to_le_bytes());
        check(decimal("-12.50"), 246, b"-12.50");
        let widest = format!("{}.{}", "9".repeat(35), "9".repeat(30));
        check(decimal(&widest), 246, widest.as_bytes());
        check(decimal(&"9".repeat(65)), 246, &[b'9'; 65]);
        check("Z\u{fc}rich\0", 253, "Z\u{fc}rich\0".as_bytes());
        check(Value::Symbol("GET".into()), 253, b"GET");
        check(vec![0_u8, 255], 252, &[0, 255]);
        check(time("2026-01-02 03:04:05"), 12, &[0xea, 7, 1, 2, 3, 4, 5]);
        check(
            time("2026-01-02 04:04:05+01:00"),
            12,
            &[0xea, 7, 1, 2, 3, 4, 5],
        );
        check(
            time("9999-12-31 23:59:59.999999"),
            12,
            &[0x0f, 0x27, 12, 31, 23, 59, 59, 0x3f, 0x42, 0x0f, 0],
        );
        check(Value::Ip("::1".parse().unwrap()), 253, b"::1");
        check(
            Value::Net("10.0.0.0/8".parse().unwrap()),
            253,
            b"10.0.0.0/8",
        );
        check(
            vec![Value::Int(1), decimal("1.50"), Value::Null],
            253,
            b"[1,1.50,null]",
        );
    }

    #[test]
    fn values_that_would_not() {
        check_loss(f64::NAN, "this float is not finite");
        check_loss(f64::NEG_INFINITY, "this float is not finite");
        check_loss(decimal("NaN"), "this decimal is not finite");
        check_loss(decimal("-Infinity"), "this decimal is not finite");
        check_loss(decimal(&"9".repeat(66)), "this decimal has more digits");
        check_loss(
            decimal(&format!("0.{}", "1".repeat(31))),
            "this decimal has more digits",
        );
        check_loss(
            time("2026-01-02 03:04:05.0000001"),
            "this time has a precision finer than a microsecond",
        );
        let early = Value::Time(Time::from_civil(jiff::civil::date(-1, 1, 1).at(0, 0, 0, 0)));
        check_loss(early, "this time is before the year 0");
        check_loss(
            vec![Value::Float(f64::NAN)],
            "this array contains a number that JSON does not support",
        );
    }

    #[test]
    fn only_null_is_null() {
        assert!(ParamType::of(&Value::Null).is_null());
        assert!(!ParamType::of(&Value::from("")).is_null());
    }
}
