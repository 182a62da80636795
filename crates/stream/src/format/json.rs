//! `json`: one object per line.

use std::fmt;

use lookaside_value::{JsonIntegers, JsonValue, Name, Names, Record};
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, Visitor};

use super::lines::{ParseLine, Reason};
use super::seen::Seen;

/// Parses an object directly into a record: the parser calls back for each part, without an
/// intermediate tree of values.
///
/// Of two members with the same name, the later value replaces the first. Integers beyond signed 64
/// bits become decimals, numbers with a point or an exponent floats.
#[derive(Default)]
pub(crate) struct JsonLine {
    layout: Layout,
    seen: Seen,
    integers: JsonIntegers,
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
    integers: &'a JsonIntegers,
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
            let value = members.next_value_seed(JsonValue::new(1, integers))?;
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
