//! `json`: one object a line.

use std::fmt;

use lookaside_value::{Decimal, Name, Names, Object, Record, Text, Value};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::lines::{ParseLine, Reason};
use super::seen::Seen;

/// Objects and arrays inside of each other beyond this are a reject: no event needs them, and
/// freeing them recurses.
const DEPTH_MAX: u32 = 64;

/// Reads an object straight into a record: the parser calls back for each part, and no tree of
/// values stands in between.
///
/// Of two members with one name the later value wins, at the place of the first. Integers beyond 64
/// bits and numbers with a point become floats; integers beyond the signed range, decimals.
#[derive(Default)]
pub(crate) struct JsonLine {
    layout: Layout,
    seen: Seen,
}

impl ParseLine for JsonLine {
    fn begin(&mut self) {
        self.layout.keys.clear();
    }

    fn parse(&mut self, line: &str, names: &mut Names, record: &mut Record) -> Result<(), Reason> {
        self.seen.begin();
        self.layout.begin_record();
        let mut parser = serde_json::Deserializer::from_str(line);
        parser
            .deserialize_map(RecordVisitor {
                record,
                names,
                layout: &mut self.layout,
                seen: &mut self.seen,
            })
            .and_then(|()| parser.end())
            .map_err(|error| reason(line, &error))
    }
}

/// What is wrong with a line. Files that hold an array, or objects over several lines, are common
/// enough to be named; for the rest the parser's words do.
fn reason(line: &str, error: &serde_json::Error) -> Reason {
    let start = line.trim_ascii_start();
    match start.as_bytes().first() {
        Some(b'[') => return "an array, not one object a line; try `jq -c '.[]'`".into(),
        Some(b'{') if error.is_eof() => {
            return "the object does not end on this line; try `jq -c .`".into();
        }
        Some(b'{') => {}
        _ => return "no object; json is one object a line".into(),
    }
    // The parser counts lines of its own, of which there is one.
    let text = error.to_string();
    let text = text.replace("expected ident", "no such word, only true, false and null");
    match text.rsplit_once(" at line ") {
        Some((text, _)) if error.column() > 0 => format!("byte {}: {text}", error.column()).into(),
        Some((text, _)) => text.to_owned().into(),
        None => text.into(),
    }
}

/// The keys that records had so far, in their order: machines write the same keys in the same order
/// again and again, and comparing with the expected key is cheaper than hashing.
#[derive(Default)]
struct Layout {
    keys: Vec<(Box<str>, Name)>,
    /// Where the next key is expected.
    at: usize,
    missed_count: usize,
}

/// Wide records beyond this hash the rest of their keys.
const LAYOUT_KEYS_MAX: usize = 64;

/// How many expected keys a record may leave out in a row before its next key is hashed.
const LAYOUT_GAP_MAX: usize = 4;

impl Layout {
    fn begin_record(&mut self) {
        // An odd first record must not slow down all others.
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
        } = self;
        while let Some(name) = members.next_key_seed(KeySeed {
            names: &mut *names,
            layout: &mut *layout,
        })? {
            let value = members.next_value_seed(ValueSeed { depth: 1 })?;
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

/// Reads one value, `depth` objects or arrays around it.
#[derive(Clone, Copy)]
struct ValueSeed {
    depth: u32,
}

impl ValueSeed {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(format_args!("nested deeper than {DEPTH_MAX}")));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed {
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
        Ok(Value::Float(float))
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

/// The name of a nested member, which is no field and so has no [`Name`].
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
