//! Values as parameters: what the server declared decides what goes out.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use lookaside_value::Value;

use super::array::DIMENSION_COUNT_MAX;
use super::binary::{FAMILY_IPV4, FAMILY_IPV6};
use super::error::Misfit;
use super::param::{Param, float_text, input, write_bytea};
use super::table::Scalar;
use super::time::write_timestamp;
use super::zone::without_zones;
use super::{EncodeError, Format, PgType, Shape};

/// What a parameter became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// SQL NULL: nothing was appended, and the length to announce is -1.
    Null,
    /// What was appended has this format.
    Field(Format),
}

impl PgType {
    /// Appends the value as a parameter that the server declared to be of this type, without its
    /// length.
    ///
    /// Text is converted, so that a word from a command line or a URL fits an integer column; null
    /// and ignored values are NULL. A type that this crate does not support gets text, which the
    /// server's input function parses.
    ///
    /// # Errors
    /// When the value does not fit the type. Nothing was appended then. The error does not state
    /// which parameter it was, see [`EncodeError::in_parameter`].
    #[inline]
    pub fn encode(self, value: &Value, out: &mut Vec<u8>) -> Result<Encoded, EncodeError> {
        // An integer for an integer, as most keys are.
        if let (Shape::Scalar(scalar), &Value::Int(int)) = (self.shape, value) {
            match (scalar, i32::try_from(int)) {
                (Scalar::Int4, Ok(int)) => out.extend_from_slice(&int.to_be_bytes()),
                (Scalar::Int8, _) => out.extend_from_slice(&int.to_be_bytes()),
                _ => return self.encode_any(value, out),
            }
            return Ok(Encoded::Field(Format::Binary));
        }
        self.encode_any(value, out)
    }

    fn encode_any(self, value: &Value, out: &mut Vec<u8>) -> Result<Encoded, EncodeError> {
        if value.is_null() {
            return Ok(Encoded::Null);
        }
        let begin = out.len();
        match self.write(value, out) {
            Ok(format) => Ok(Encoded::Field(format)),
            Err(misfit) => {
                assert_eq!(out.len(), begin, "whatever is appended fits");
                Err(EncodeError::new(value.type_of(), self, misfit))
            }
        }
    }

    fn write(self, value: &Value, out: &mut Vec<u8>) -> Result<Format, Misfit> {
        let value = match self.wall_times() {
            Some(scalar) => without_zones(scalar, value)?,
            None => Cow::Borrowed(value),
        };
        match self.shape {
            Shape::Scalar(scalar) => write_binary(scalar, Param::of(scalar, &value)?, out),
            Shape::Array(scalar, _) => write_array(Some(scalar), &value, out),
            Shape::Unknown => write_array(None, &value, out),
        }
    }
}

/// Appends the binary form where there is one that is cheaper for both sides, else the text form.
fn write_binary(scalar: Scalar, param: Param<'_>, out: &mut Vec<u8>) -> Result<Format, Misfit> {
    match param {
        Param::Bool(bool) => out.push(u8::from(bool)),
        // Every integer was checked against its type's range.
        Param::Int(int) => match scalar {
            Scalar::Int2 => out.extend((int as i16).to_be_bytes()),
            Scalar::Int4 => out.extend((int as i32).to_be_bytes()),
            Scalar::Oid => out.extend((int as u32).to_be_bytes()),
            _ => out.extend(int.to_be_bytes()),
        },
        Param::Float(float) if scalar == Scalar::Float4 => {
            out.extend((float as f32).to_be_bytes());
        }
        Param::Float(float) => out.extend(float.to_be_bytes()),
        Param::Bytes(bytes) => out.extend_from_slice(bytes),
        Param::Uuid(uuid) => out.extend_from_slice(uuid.as_bytes()),
        Param::Net(net) => write_network(scalar, net, out),
        Param::Timestamp(_, micros) => out.extend(micros.to_be_bytes()),
        Param::Text(text) => {
            push_text(&text, out)?;
        }
        Param::Input(text) => {
            push_text(&text, out)?;
            return Ok(Format::Text);
        }
    }
    Ok(Format::Binary)
}

fn push_text(text: &str, out: &mut Vec<u8>) -> Result<(), Misfit> {
    if text.as_bytes().contains(&0) {
        return Err(Misfit::ZeroByte);
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_network(scalar: Scalar, net: IpNet, out: &mut Vec<u8>) {
    let is_cidr = u8::from(scalar == Scalar::Cidr);
    match net.addr() {
        IpAddr::V4(ip) => {
            out.extend([FAMILY_IPV4, net.prefix_len(), is_cidr, 4]);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.extend([FAMILY_IPV6, net.prefix_len(), is_cidr, 16]);
            out.extend(ip.octets());
        }
    }
}

/// Appends a parameter of an array type, or of an unknown type (`scalar` is none) that may be one.
///
/// Arrays go as text: their elements may each have another format, and `{1,2,3}` is shorter than its
/// binary form.
fn write_array(scalar: Option<Scalar>, value: &Value, out: &mut Vec<u8>) -> Result<Format, Misfit> {
    let text = match (value, scalar) {
        (Value::Array(values), _) => {
            let mut literal = String::new();
            let scalar = scalar.unwrap_or(Scalar::Other);
            let lengths = lengths(scalar, values)?;
            if lengths.contains(&0) {
                literal.push_str("{}");
            } else {
                write_literal(scalar, values, lengths.len(), &mut literal)?;
            }
            literal.into()
        }
        (text, Some(_)) => text.as_str().ok_or(Misfit::Other)?.into(),
        (other, None) => input(other)?,
    };
    push_text(&text, out)?;
    Ok(Format::Text)
}

/// How long the arrays are on each level, all of one level alike.
fn lengths(scalar: Scalar, values: &[Value]) -> Result<Vec<usize>, Misfit> {
    let mut lengths = vec![values.len()];
    // An array among JSON values is a JSON value.
    if matches!(scalar, Scalar::Json | Scalar::Jsonb) {
        return Ok(lengths);
    }
    let mut level: Vec<&Value> = values.iter().collect();
    while let Some(Value::Array(first)) = level.first() {
        let mut deeper = Vec::new();
        for value in &level {
            match value {
                Value::Array(values) if values.len() == first.len() => deeper.extend(values.iter()),
                _ => return Err(Misfit::Ragged),
            }
        }
        lengths.push(first.len());
        if lengths.len() > DIMENSION_COUNT_MAX {
            return Err(Misfit::Ragged);
        }
        level = deeper;
    }
    if level.iter().any(|value| matches!(value, Value::Array(_))) {
        return Err(Misfit::Ragged);
    }
    Ok(lengths)
}

fn write_literal(
    scalar: Scalar,
    values: &[Value],
    depth: usize,
    out: &mut String,
) -> Result<(), Misfit> {
    out.push('{');
    for (index, value) in values.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        match value {
            Value::Array(values) if depth > 1 => write_literal(scalar, values, depth - 1, out)?,
            value if value.is_null() => out.push_str("NULL"),
            value => write_element(Param::of(scalar, value)?, out),
        }
    }
    out.push('}');
    Ok(())
}

fn write_element(param: Param<'_>, out: &mut String) {
    match param {
        Param::Bool(bool) => out.push(if bool { 't' } else { 'f' }),
        Param::Int(int) => out.push_str(itoa::Buffer::new().format(int)),
        Param::Float(float) => out.push_str(&float_text(float)),
        Param::Uuid(uuid) => write!(out, "{uuid}").expect("a string takes text"),
        Param::Net(net) => write!(out, "{net}").expect("a string takes text"),
        Param::Bytes(bytes) => {
            let mut text = String::new();
            write_bytea(bytes, &mut text);
            write_quoted(&text, out);
        }
        Param::Timestamp(zone, micros) => {
            let mut text = String::new();
            write_timestamp(zone, micros, &mut text);
            write_quoted(&text, out);
        }
        Param::Text(text) | Param::Input(text) => write_quoted(&text, out),
    }
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOL: u32 = 16;
    const BYTEA: u32 = 17;
    const INT8: u32 = 20;
    const INT2: u32 = 21;
    const INT4: u32 = 23;
    const TEXT: u32 = 25;
    const OID: u32 = 26;
    const JSON: u32 = 114;
    const CIDR: u32 = 650;
    const FLOAT4: u32 = 700;
    const FLOAT8: u32 = 701;
    const INET: u32 = 869;
    const INT4_ARRAY: u32 = 1007;
    const TEXT_ARRAY: u32 = 1009;
    const DATE: u32 = 1082;
    const TIME: u32 = 1083;
    const TIMESTAMP: u32 = 1114;
    const TIMESTAMPTZ: u32 = 1184;
    const TIMETZ: u32 = 1266;
    const TIMESTAMP_ARRAY: u32 = 1115;
    const TSTZ_ARRAY: u32 = 1185;
    const TSRANGE: u32 = 3908;
    const TSRANGE_ARRAY: u32 = 3909;
    const DATERANGE: u32 = 3912;
    const TSMULTIRANGE: u32 = 4533;
    const NUMERIC: u32 = 1700;
    const UUID: u32 = 2950;
    const JSONB_ARRAY: u32 = 3807;
    const ENUM: u32 = 16_384;

    fn array(values: &[i64]) -> Value {
        let values: Vec<_> = values.iter().copied().map(Value::Int).collect();
        Value::from(values)
    }

    fn time(text: &str) -> Value {
        Value::Time(text.parse().unwrap())
    }

    fn decimal(text: &str) -> Value {
        Value::Decimal(text.parse().unwrap())
    }

    #[track_caller]
    fn check(oid: u32, value: impl Into<Value>, format: Format, expected: &[u8]) {
        let value = value.into();
        let mut out = b"before".to_vec();
        let encoded = PgType::of(oid).encode(&value, &mut out);
        assert_eq!(encoded, Ok(Encoded::Field(format)), "{value:?}");
        assert_eq!(out.strip_prefix(b"before"), Some(expected), "{value:?}");
    }

    #[track_caller]
    fn check_text(oid: u32, value: impl Into<Value>, expected: &str) {
        check(oid, value, Format::Text, expected.as_bytes());
    }

    #[track_caller]
    fn check_misfit(oid: u32, value: impl Into<Value>, expected: &str) {
        let value = value.into();
        let mut out = b"before".to_vec();
        let error = PgType::of(oid).encode(&value, &mut out).unwrap_err();
        assert_eq!(
            error.in_parameter("p").to_string(),
            format!("parameter `p`: {expected}")
        );
        assert_eq!(out, b"before");
    }

    #[test]
    fn values_that_fit() {
        use Format::Binary;
        for value in [Value::from("42"), Value::from(" +42 "), Value::Int(42)] {
            check(INT4, value, Binary, &[0, 0, 0, 42]);
        }
        check(INT4, 42.0, Binary, &[0, 0, 0, 42]);
        check(INT4, decimal("42.00"), Binary, &[0, 0, 0, 42]);
        check(INT2, "-1", Binary, &[255, 255]);
        check(INT8, true, Binary, &[0, 0, 0, 0, 0, 0, 0, 1]);
        check(OID, "4294967295", Binary, &[255; 4]);
        for word in ["t", "TRUE", "yes", "on", "1", "y"] {
            check(BOOL, word, Binary, &[1]);
        }
        for word in ["f", "fal", "No", "of", "off", "0"] {
            check(BOOL, word, Binary, &[0]);
        }
        check(FLOAT4, "0.1", Binary, &0.1_f32.to_be_bytes());
        check(
            FLOAT8,
            "-infinity",
            Binary,
            &f64::NEG_INFINITY.to_be_bytes(),
        );
        check(FLOAT8, "0e999", Binary, &[0; 8]);
        check(FLOAT8, 3_i64, Binary, &3.0_f64.to_be_bytes());
        check_text(NUMERIC, "1e5", "1e5");
        check_text(NUMERIC, 1e300, "1e300");
        check_text(NUMERIC, decimal("-12.50"), "-12.50");
        check(TEXT, 42_i64, Binary, b"42");
        check(TEXT, Value::Symbol("GET".into()), Binary, b"GET");
        check(BYTEA, vec![0_u8, 1], Binary, &[0, 1]);
        check_text(BYTEA, "\\x00", "\\x00");
        check(UUID, "00000000-0000-0000-0000-0000000000ff", Binary, &{
            let mut uuid = [0; 16];
            uuid[15] = 255;
            uuid
        });
        check(INET, "10.0.0.1", Binary, &[2, 32, 0, 4, 10, 0, 0, 1]);
        check(INET, "10.0.0.1/8", Binary, &[2, 8, 0, 4, 10, 0, 0, 1]);
        check(
            CIDR,
            Value::Net("10.0.0.0/8".parse().unwrap()),
            Binary,
            &[2, 8, 1, 4, 10, 0, 0, 0],
        );
        check_text(CIDR, "10.1", "10.1");
        check_text(DATE, time("2026-01-02 03:04:05Z"), "2026-01-02");
        check_text(DATE, time("2026-01-02 23:30:00-01:00"), "2026-01-03");
        check_text(DATE, "2026-01-02T23:30:00-01:00", "2026-01-03");
        check_text(DATE, "2026-01-02", "2026-01-02");
        check_text(TIME, time("2026-01-02 03:04:05.5+05:30"), "21:34:05.5");
        check_text(TIME, "03:04:05.5 PM", "03:04:05.5 PM");
        check_text(DATE, "tomorrow", "tomorrow");
        check_text(
            TIMETZ,
            time("2026-01-02 03:04:05.5+05:30"),
            "03:04:05.5+05:30",
        );
        check(
            TIMESTAMP,
            time("2000-01-01 09:00:01+09:00"),
            Binary,
            &1_000_000_i64.to_be_bytes(),
        );
        check(
            TIMESTAMP,
            "2000-01-01T01:00:01+01:00",
            Binary,
            &1_000_000_i64.to_be_bytes(),
        );
        for text in [
            "2026-01-02 03:04:05",
            "2026-01-02",
            "now",
            "-infinity",
            "20260102T030405",
            "Jan 2 03:04:05 2026 BC",
            "03:04 pm Friday 2nd January 2026",
        ] {
            check_text(TIMESTAMP, text, text);
        }
        check(
            TEXT,
            time("2026-01-02 03:04:05+01:00"),
            Binary,
            b"2026-01-02 02:04:05",
        );
        check(
            TIMESTAMPTZ,
            time("2000-01-01 01:00:00+01:00"),
            Binary,
            &[0; 8],
        );
        check_text(
            TIMESTAMPTZ,
            time("2000-01-01 01:00:00"),
            "2000-01-01 01:00:00",
        );
        check_text(JSON, array(&[1, 2]), "[1,2]");
        check_text(
            JSON,
            Value::from(vec![decimal("1.50"), Value::Null]),
            "[1.50,null]",
        );
        check_text(JSON, "{\"a\": 1}", "{\"a\": 1}");
        check_text(INT4_ARRAY, array(&[1, -2]), "{1,-2}");
        check_text(INT4_ARRAY, "{1,2}", "{1,2}");
        check_text(INT4_ARRAY, array(&[]), "{}");
        check_text(
            INT4_ARRAY,
            Value::from(vec![array(&[1]), array(&[2])]),
            "{{1},{2}}",
        );
        check_text(INT4_ARRAY, Value::from(vec![array(&[]), array(&[])]), "{}");
        check_text(
            INT4_ARRAY,
            Value::from(vec![Value::from("7"), Value::Null]),
            "{7,NULL}",
        );
        let texts = vec![Value::from("a\"b\\"), Value::from("NULL")];
        check_text(TEXT_ARRAY, Value::from(texts), r#"{"a\"b\\","NULL"}"#);
        check_text(
            JSONB_ARRAY,
            Value::from(vec![array(&[1]), array(&[2, 3])]),
            r#"{"[1]","[2,3]"}"#,
        );
        check_text(ENUM, "red", "red");
        check_text(ENUM, Value::from(vec![Value::from("red")]), r#"{"red"}"#);
        check_text(
            ENUM,
            time("2026-01-02 03:04:05+01:00"),
            "2026-01-02 03:04:05+01",
        );
        let text = "2026-01-02 03:04:05+01:00";
        let array = format!("{{{text}}}");
        check_text(TIMESTAMP_ARRAY, array.as_str(), "{2026-01-02 02:04:05}");
        let mixed = vec![Value::from(text), time(text), Value::Null];
        check_text(
            TIMESTAMP_ARRAY,
            Value::from(mixed),
            r#"{"2026-01-02 02:04:05","2026-01-02 02:04:05",NULL}"#,
        );
        check_text(TSTZ_ARRAY, array.as_str(), &array);
        for range in [TSRANGE, TSMULTIRANGE] {
            check_text(range, format!("[{text},)"), "[2026-01-02 02:04:05,)");
        }
        let bounds = vec![time(text), time("2026-02-01 00:00:00")];
        check_text(
            TSRANGE,
            Value::from(bounds),
            "[2026-01-02 02:04:05, 2026-02-01 00:00:00]",
        );
        check_text(
            TSRANGE_ARRAY,
            Value::from(vec![Value::from(format!("[{text},)"))]),
            r#"{"[2026-01-02 02:04:05,)"}"#,
        );
        check_text(DATERANGE, format!("[{text},)"), "[2026-01-02,)");
    }

    #[test]
    fn values_that_do_not_fit() {
        check_misfit(INT4, "abc", "this text is not a valid int4");
        check_misfit(INT4, "", "this text is not a valid int4");
        check_misfit(INT4, "4.5", "this text is not a valid int4");
        check_misfit(INT4, 4.5, "this float is not a valid int4");
        check_misfit(INT4, f64::NAN, "this float is not a valid int4");
        check_misfit(INT4, "2147483648", "this text is out of range for int4");
        check_misfit(INT2, 40_000_i64, "this int is out of range for int2");
        check_misfit(OID, -1_i64, "this int is out of range for oid");
        check_misfit(INT8, 1e19, "this float is out of range for int8");
        check_misfit(
            INT8,
            decimal("9223372036854775808"),
            "this decimal is out of range for int8",
        );
        check_misfit(
            INT8,
            "99999999999999999999",
            "this text is out of range for int8",
        );
        check_misfit(BOOL, "o", "this text is not a valid bool");
        check_misfit(BOOL, "", "this text is not a valid bool");
        check_misfit(BOOL, 2_i64, "this int is not a valid bool");
        check_misfit(FLOAT4, 1e300, "this float is out of range for float4");
        check_misfit(FLOAT4, 1e-300, "this float is out of range for float4");
        check_misfit(FLOAT8, "1e400", "this text is out of range for float8");
        check_misfit(FLOAT8, "1e-400", "this text is out of range for float8");
        check_misfit(NUMERIC, "x", "this text is not a valid numeric");
        check_misfit(
            TEXT,
            "a\0b",
            "this text contains a zero byte, which text does not allow",
        );
        for text in [
            "2026-01-02 03:04:05 Europe/Berlin",
            "2026-01-02 03:04:05 PST",
            "20260102T030405Z",
            "20260102T030405+0100",
            "Jan 2 03:04:05 2026 CET",
            "2026-01-02 03:04:05+01:00:30",
        ] {
            check_misfit(
                TIMESTAMP,
                text,
                "this text has a time zone, which timestamp does not store: write the complete \
                 time with its offset, such as 2026-01-31T08:00:00+01:00, which is converted to \
                 UTC",
            );
        }
        check_misfit(UUID, "x", "this text is not a valid uuid");
        check_misfit(UUID, 1_i64, "this int is not a valid uuid");
        let net = Value::Net("10.0.0.1/8".parse().unwrap());
        check_misfit(
            CIDR,
            net,
            "this net is not a valid cidr: it has bits right of its mask",
        );
        check_misfit(TIMESTAMP, 5_i64, "this int is not a valid timestamp");
        let early = Value::Time(lookaside_value::Time::from_civil(
            jiff::civil::date(-5000, 1, 1).at(0, 0, 0, 0),
        ));
        check_misfit(TIMESTAMP, early, "this time is out of range for timestamp");
        let json = "this array contains a number that json does not support";
        check_misfit(JSON, Value::from(vec![Value::Float(f64::NAN)]), json);
        check_misfit(INT4_ARRAY, 1_i64, "this int is not a valid int4[]");
        let ragged = "this array is not a valid int4[]: the arrays in it differ in length, or nest deeper than 6";
        check_misfit(
            INT4_ARRAY,
            Value::from(vec![array(&[1]), array(&[1, 2])]),
            ragged,
        );
        check_misfit(
            INT4_ARRAY,
            Value::from(vec![array(&[1]), Value::Int(1)]),
            ragged,
        );
        check_misfit(
            INT4_ARRAY,
            Value::from(vec![Value::Int(1), array(&[1])]),
            ragged,
        );
        let deep = (0..7).fold(Value::Int(1), |value, _| Value::from(vec![value]));
        check_misfit(INT4_ARRAY, deep, ragged);
    }

    #[test]
    fn null_is_null_everywhere() {
        for oid in [INT4, TEXT, JSON, INT4_ARRAY, ENUM] {
            for value in [Value::Null, Value::Ignore] {
                let mut out = Vec::new();
                assert_eq!(PgType::of(oid).encode(&value, &mut out), Ok(Encoded::Null));
                assert!(out.is_empty());
            }
        }
    }
}
