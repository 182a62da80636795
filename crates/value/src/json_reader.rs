//! Reading JSON into values.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::{Decimal, Object, Text, Value};

/// The maximal nesting of objects and arrays; a deeper text is rejected: no event needs it, and
/// freeing it recurses.
const DEPTH_MAX: u32 = 64;

impl Value {
    /// The value of a JSON text. Integers beyond signed 64 bits become decimals, numbers with a point
    /// or an exponent floats; of two members with the same name, the later value replaces the first.
    /// `None` if the text is not JSON, or nested deeper than 64.
    ///
    /// ```
    /// use lookaside_value::Value;
    ///
    /// let value = Value::from_json("[1, 18446744073709551616]").unwrap();
    /// assert_eq!(value.to_text(), "[1, 18446744073709551616]");
    /// assert_eq!(Value::from_json("[1"), None);
    /// ```
    pub fn from_json(text: &str) -> Option<Self> {
        let mut integers = JsonIntegers::default();
        let value = parse(text, &integers)?;
        match integers.read(text) {
            true => parse(text, &integers),
            false => Some(value),
        }
    }
}

fn parse(text: &str, integers: &JsonIntegers) -> Option<Value> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let value = JsonValue::new(0, integers).deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some(value)
}

/// The integers of a JSON text that the parser returns as floats: those beyond 64 bits, and `-0`.
///
/// The parser does not tell which of its floats they are. So a text with a float that might be one,
/// which is rare, is scanned for them, and parsed again with the scanned values.
///
/// Usage: [`Self::begin`], parse, and if [`Self::read`] returns true, parse again.
#[derive(Debug, Default)]
pub struct JsonIntegers {
    /// The number of floats in the text so far.
    count: Cell<usize>,
    /// Whether one of them may be an integer.
    is_doubtful: Cell<bool>,
    /// The exact values of the floats, in order; empty while unknown.
    values: Vec<Value>,
}

impl JsonIntegers {
    /// Forgets the text before.
    pub fn begin(&mut self) {
        self.count.set(0);
        self.is_doubtful.set(false);
        self.values.clear();
    }

    /// The value of the next number that the parser returns as a float.
    #[inline]
    fn value(&self, float: f64) -> Value {
        let index = self.count.replace(self.count.get() + 1);
        let is_doubtful = float.abs() >= I64_END || float.to_bits() == NEGATIVE_ZERO_BITS;
        if !is_doubtful {
            return Value::Float(float);
        }
        self.is_doubtful.set(true);
        self.values
            .get(index)
            .cloned()
            .unwrap_or(Value::Float(float))
    }

    /// Scans a text that was parsed once for the exact values of its floats; returns whether one of
    /// them is an integer, so that it has to be parsed again.
    pub fn read(&mut self, line: &str) -> bool {
        if !self.is_doubtful.get() {
            return false;
        }
        let numbers = Numbers(line).filter(|number| comes_as_float(number));
        let values: Vec<_> = numbers.map(exact).collect();
        let has_integers = values.iter().any(|value| !matches!(value, Value::Float(_)));
        self.begin();
        self.values = values;
        has_integers
    }
}

/// 2^63: the first number beyond signed 64 bits.
const I64_END: f64 = 9_223_372_036_854_775_808.0;
const NEGATIVE_ZERO_BITS: u64 = 1 << 63;

/// Whether the parser returns a number as a float, which depends on how it is written.
fn comes_as_float(number: &str) -> bool {
    let is_integer = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    !is_integer || number == "-0"
}

fn exact(number: &str) -> Value {
    let float = || Value::Float(number.parse().unwrap_or_default());
    if number.contains(['.', 'e', 'E']) {
        return float();
    }
    match number.parse() {
        Ok(int) => Value::Int(int),
        Err(_) => number.parse().map_or_else(|_| float(), Value::Decimal),
    }
}

/// An iterator over the numbers of a valid JSON text, as written.
struct Numbers<'a>(&'a str);

impl<'a> Iterator for Numbers<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let mut at = 0;
        loop {
            match bytes.get(at)? {
                b'"' => {
                    at += 1;
                    while *bytes.get(at)? != b'"' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                }
                b'-' | b'0'..=b'9' => break,
                _ => at += 1,
            }
        }
        let is_part = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let size = bytes[at..].iter().take_while(is_part).count();
        // Both cuts are next to ASCII characters.
        let (number, rest) = self.0[at..].split_at(size);
        self.0 = rest;
        Some(number)
    }
}

/// Reads a value of a JSON text by `serde`, without an intermediate tree.
#[derive(Clone, Copy, Debug)]
pub struct JsonValue<'a> {
    depth: u32,
    integers: &'a JsonIntegers,
}

impl<'a> JsonValue<'a> {
    /// A value within `depth` objects or arrays. Values deeper than 64 are refused.
    pub fn new(depth: u32, integers: &'a JsonIntegers) -> Self {
        Self { depth, integers }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!("nested deeper than {DEPTH_MAX}")));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for JsonValue<'_> {
    type Value = Value;

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(Value::Bool(bool))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Value, E> {
        Ok(Value::Int(int))
    }

    fn visit_u64<E>(self, int: u64) -> Result<Value, E> {
        Ok(match i64::try_from(int) {
            Ok(int) => Value::Int(int),
            Err(_) => Value::Decimal(Decimal::from(u128::from(int))),
        })
    }

    fn visit_f64<E>(self, float: f64) -> Result<Value, E> {
        Ok(self.integers.value(float))
    }

    #[inline]
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let seed = self.deeper::<A::Error>()?;
        let mut array = Vec::new();
        while let Some(value) = elements.next_element_seed(seed)? {
            array.push(value);
        }
        Ok(Value::from(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let seed = self.deeper::<A::Error>()?;
        let mut object = Object::new();
        while let Some(name) = members.next_key_seed(TextSeed)? {
            object.insert(name, members.next_value_seed(seed)?);
        }
        Ok(Value::from(object))
    }
}

/// The name of a nested member, which is not a field and so has no [`Name`](crate::Name).
struct TextSeed;

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = Text;

    fn deserialize<D: serde::Deserializer<'de>>(self, key: D) -> Result<Text, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for TextSeed {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Text, E> {
        Ok(Text::from(key))
    }
}
