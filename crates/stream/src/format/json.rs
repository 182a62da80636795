//! `json`: one object per line.

use std::cell::Cell;
use std::fmt;

use lookaside_value::{Decimal, Name, Names, Object, Record, Text, Value};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::lines::{ParseLine, Reason};
use super::seen::Seen;

/// The maximal nesting of objects and arrays; a deeper line is rejected: no event needs it, and
/// freeing it recurses.
const DEPTH_MAX: u32 = 64;

/// Parses an object directly into a record: the parser calls back for each part, without an
/// intermediate tree of values.
///
/// Of two members with the same name, the later value replaces the first. Integers beyond signed 64
/// bits become decimals, numbers with a point or an exponent floats.
#[derive(Default)]
pub(crate) struct JsonLine {
    layout: Layout,
    seen: Seen,
    integers: Integers,
}

impl ParseLine for JsonLine {
    fn begin(&mut self) {
        self.layout.keys.clear();
    }

    fn parse(&mut self, line: &str, names: &mut Names, record: &mut Record) -> Result<(), Reason> {
        self.integers.begin();
        self.parse_once(line, names, record)?;
        if self.integers.read(line) {
            let number = record.line;
            record.clear();
            record.line = number;
            self.parse_once(line, names, record)?;
        }
        Ok(())
    }
}

impl JsonLine {
    fn parse_once(
        &mut self,
        line: &str,
        names: &mut Names,
        record: &mut Record,
    ) -> Result<(), Reason> {
        self.seen.begin();
        self.layout.begin_record();
        let mut parser = serde_json::Deserializer::from_str(line);
        parser
            .deserialize_map(RecordVisitor {
                record,
                names,
                layout: &mut self.layout,
                seen: &mut self.seen,
                integers: &self.integers,
            })
            .and_then(|()| parser.end())
            .map_err(|error| reason(line, &error))
    }
}

/// The integers of a line that the parser returns as floats: those beyond 64 bits, and `-0`.
///
/// The parser does not tell which of its floats they are. So a line with a float that might be one,
/// which is rare, is scanned for them, and parsed again with the scanned values.
#[derive(Default)]
struct Integers {
    /// The number of floats in the line so far.
    count: Cell<usize>,
    /// Whether one of them may be an integer.
    is_doubtful: Cell<bool>,
    /// The exact values of the floats, in order; empty while unknown.
    values: Vec<Value>,
}

impl Integers {
    fn begin(&mut self) {
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

    /// Scans a line that was parsed once for the exact values of its floats; returns whether one of
    /// them is an integer.
    fn read(&mut self, line: &str) -> bool {
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

/// Why a line is invalid. Files with an array, or with objects over several lines, are frequent
/// enough for specific messages; otherwise the parser's message is used.
fn reason(line: &str, error: &serde_json::Error) -> Reason {
    let start = line.trim_ascii_start();
    match start.as_bytes().first() {
        Some(b'[') => return "an array instead of one object per line; try `jq -c '.[]'`".into(),
        Some(b'{') if error.is_eof() => {
            return "the object does not end on this line; try `jq -c .`".into();
        }
        Some(b'{') => {}
        _ => return "not an object; json is one object per line".into(),
    }
    // The parser's line number is always 1.
    let text = error.to_string();
    let text = text.replace(
        "expected ident",
        "unknown word; only true, false and null are allowed",
    );
    match text.rsplit_once(" at line ") {
        Some((text, _)) if error.column() > 0 => format!("byte {}: {text}", error.column()).into(),
        Some((text, _)) => text.to_owned().into(),
        None => text.into(),
    }
}

/// The keys of previous records, in order: programs usually write the same keys in the same order,
/// and comparing with the expected key is cheaper than hashing.
#[derive(Default)]
struct Layout {
    keys: Vec<(Box<str>, Name)>,
    /// The position of the next expected key.
    at: usize,
    missed_count: usize,
}

/// The number of keys of a record that are compared; further keys are hashed.
const LAYOUT_KEYS_MAX: usize = 64;

/// The number of consecutive expected keys that a record may omit before its next key is hashed.
const LAYOUT_GAP_MAX: usize = 4;

impl Layout {
    fn begin_record(&mut self) {
        // An unusual first record must not slow down all others.
        if self.missed_count * 2 > self.keys.len() {
            self.keys.clear();
        }
        self.at = 0;
        self.missed_count = 0;
    }

    #[inline]
    fn name(&mut self, key: &str, names: &mut Names) -> Name {
        match self.keys.get(self.at) {
            Some((expected, name)) if **expected == *key => {
                self.at += 1;
                *name
            }
            _ => self.search(key, names),
        }
    }

    fn search(&mut self, key: &str, names: &mut Names) -> Name {
        let candidates = self.keys.iter().enumerate().skip(self.at + 1);
        for (index, (expected, name)) in candidates.take(LAYOUT_GAP_MAX) {
            if **expected == *key {
                self.at = index + 1;
                return *name;
            }
        }
        let name = names.intern(key);
        if self.at == self.keys.len() && self.at < LAYOUT_KEYS_MAX {
            self.keys.push((key.into(), name));
            self.at += 1;
        } else {
            self.missed_count += 1;
        }
        name
    }
}

struct RecordVisitor<'a> {
    record: &'a mut Record,
    names: &'a mut Names,
    layout: &'a mut Layout,
    seen: &'a mut Seen,
    integers: &'a Integers,
}

impl<'de> Visitor<'de> for RecordVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self {
            record,
            names,
            layout,
            seen,
            integers,
        } = self;
        while let Some(name) = members.next_key_seed(KeySeed {
            names: &mut *names,
            layout: &mut *layout,
        })? {
            let value = members.next_value_seed(ValueSeed { depth: 1, integers })?;
            seen.push(record, name, value);
        }
        Ok(())
    }
}

/// Resolves a key without copying it.
struct KeySeed<'a> {
    names: &'a mut Names,
    layout: &'a mut Layout,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Name;

    fn deserialize<D: serde::Deserializer<'de>>(self, key: D) -> Result<Name, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Name, E> {
        Ok(self.layout.name(key, self.names))
    }
}

/// Reads one value within `depth` objects or arrays.
#[derive(Clone, Copy)]
struct ValueSeed<'a> {
    depth: u32,
    integers: &'a Integers,
}

impl ValueSeed<'_> {
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

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
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

/// The name of a nested member, which is not a field and so has no [`Name`].
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
