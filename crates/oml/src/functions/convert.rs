//! Conversion of a result to the type that its target declares.

use std::net::Ipv4Addr;

use lookaside_value::{Value, parse_bool, parse_float, parse_int};

/// The conversion of a declared target type.
///
/// A conversion never fails: a value that cannot be converted is unchanged, so that no declared
/// type can lose a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// The value is unchanged: `auto`, and the types that text is not parsed into.
    #[default]
    Keep,
    /// Any value becomes its raw text, and null empty text; an ignored value stays ignored, as it
    /// would become a field otherwise.
    Text,
    /// Text `true` and `false` become booleans.
    Bool,
    /// Text of a decimal integer becomes an integer.
    Int,
    /// Text of a number becomes a float; an integer stays one.
    Float,
    /// Text of an IPv4 address becomes an address.
    Ip,
    /// Text of a JSON object becomes an object.
    Object,
    /// Text of a JSON array becomes an array.
    Array,
    /// Text of a JSON object or array becomes one.
    Json,
}

impl Conversion {
    /// The value in the declared type, or unchanged.
    #[inline]
    pub(crate) fn apply(self, value: Value) -> Value {
        match self {
            Self::Keep => value,
            Self::Text => match value {
                Value::Text(_) | Value::Ignore => value,
                other => Value::Text(other.to_text()),
            },
            parsed => parsed.parse(value),
        }
    }

    fn parse(self, value: Value) -> Value {
        let Value::Text(text) = &value else {
            return value;
        };
        let parsed = match self {
            Self::Keep | Self::Text => None,
            Self::Bool => parse_bool(text).map(Value::Bool),
            Self::Int => parse_int(text).map(Value::Int),
            Self::Float => parse_float(text).map(Value::Float),
            Self::Ip => text.parse::<Ipv4Addr>().ok().map(Value::from),
            Self::Object => json(text, b"{"),
            Self::Array => json(text, b"["),
            Self::Json => json(text, b"{["),
        };
        parsed.unwrap_or(value)
    }
}

/// The value of a JSON text that begins with one of these bytes.
fn json(text: &str, begins: &[u8]) -> Option<Value> {
    let first = text.trim_ascii_start().bytes().next()?;
    begins.contains(&first).then(|| Value::from_json(text))?
}

#[cfg(test)]
mod tests {
    use lookaside_value::Object;

    use super::*;

    fn check(to: Conversion, value: impl Into<Value>, expected: impl Into<Value>) {
        let value = value.into();
        assert_eq!(to.apply(value.clone()), expected.into(), "{value:?} {to:?}");
    }

    #[test]
    fn text_is_parsed_or_stays() {
        check(Conversion::Keep, "7", "7");
        let array = Value::from(vec![Value::Int(1), Value::from("x")]);
        check(Conversion::Array, " [1,\"x\"]", array.clone());
        check(Conversion::Json, "[1,\"x\"]", array);
        check(Conversion::Object, "[1]", "[1]");
        check(Conversion::Array, "[1", "[1");
        check(Conversion::Json, "7", "7");
        let mut object = Object::new();
        object.insert(
            "n".into(),
            Value::from_json("18446744073709551616").unwrap(),
        );
        check(Conversion::Object, "{\"n\":18446744073709551616}", object);
        check(Conversion::Object, 7_i64, 7_i64);
        check(Conversion::Bool, "true", true);
        check(Conversion::Bool, "TRUE", "TRUE");
        check(Conversion::Int, "-7", -7_i64);
        check(Conversion::Int, "7.0", "7.0");
        check(Conversion::Int, "", "");
        check(Conversion::Float, "7", 7.0);
        check(Conversion::Float, "x", "x");
        check(Conversion::Ip, "10.0.0.1", Ipv4Addr::new(10, 0, 0, 1));
        check(Conversion::Ip, "::1", "::1");
    }

    #[test]
    fn other_types_are_not_converted() {
        check(Conversion::Float, 7_i64, 7_i64);
        check(Conversion::Int, 7.0, 7.0);
        check(Conversion::Bool, 1_i64, 1_i64);
        check(Conversion::Ip, Value::Null, Value::Null);
        check(
            Conversion::Int,
            Value::Symbol("7".into()),
            Value::Symbol("7".into()),
        );
    }

    #[test]
    fn anything_becomes_text() {
        check(Conversion::Text, 9_i64, "9");
        check(Conversion::Text, 600.0, "600");
        check(Conversion::Text, Value::Null, "");
        check(Conversion::Text, Value::Ignore, Value::Ignore);
        check(Conversion::Text, Value::Symbol("s".into()), "s");
        let object: Object = [("k".into(), Value::from("v"))].into_iter().collect();
        check(Conversion::Text, object, "{k=v}");
        check(
            Conversion::Text,
            vec![Value::Int(1), Value::from("b")],
            "[1, b]",
        );
    }
}
