//! A value of a MaxMind database, borrowed from its file, and what becomes of it in SQL.

use std::fmt;

use lookaside_value::write_json_text;
use rusqlite::types::Value as SqlValue;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The limit of nested maps and arrays; databases have three or four.
const DEPTH_MAX: u8 = 64;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Document<'a> {
    Bool(bool),
    Integer(i64),
    /// An integer that may be beyond those of SQL.
    Unsigned(u128),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Array(Vec<Self>),
    Map(Vec<(&'a str, Self)>),
}

impl<'a> Document<'a> {
    /// The value at a path of keys of maps and positions in arrays.
    pub(super) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |value, part| match value {
            Self::Map(members) => {
                let found = members.iter().find(|(key, _)| key == part);
                found.map(|(_, value)| value)
            }
            Self::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The value in SQL: booleans as 1 and 0, integers beyond 64 bits as their digits, maps and
    /// arrays as JSON.
    pub(super) fn to_sql(&self) -> SqlValue {
        match self {
            Self::Bool(bool) => SqlValue::Integer((*bool).into()),
            Self::Integer(int) => SqlValue::Integer(*int),
            Self::Unsigned(int) => match i64::try_from(*int) {
                Ok(int) => SqlValue::Integer(int),
                Err(_) => SqlValue::Text(int.to_string()),
            },
            Self::Real(real) => SqlValue::Real(*real),
            Self::Text(text) => SqlValue::Text((*text).to_owned()),
            Self::Bytes(bytes) => SqlValue::Blob(bytes.to_vec()),
            Self::Array(_) | Self::Map(_) => {
                let mut json = String::new();
                self.write_json(&mut json);
                SqlValue::Text(json)
            }
        }
    }

    fn write_json(&self, out: &mut String) {
        match self {
            Self::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            Self::Integer(int) => out.push_str(itoa::Buffer::new().format(*int)),
            Self::Unsigned(int) => out.push_str(itoa::Buffer::new().format(*int)),
            Self::Real(real) if real.is_finite() => {
                out.push_str(ryu::Buffer::new().format_finite(*real));
            }
            Self::Real(_) => out.push_str("null"),
            Self::Text(text) => write_json_text(text, out),
            Self::Bytes(bytes) => {
                out.push_str("\"0x");
                for byte in *bytes {
                    out.push_str(&format!("{byte:02x}"));
                }
                out.push('"');
            }
            Self::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_json_text(key, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// Up to `count_max` paths of values that are neither maps nor arrays.
    pub(super) fn paths(&self, count_max: usize) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", count_max, &mut paths);
        paths
    }

    fn collect_paths(&self, path: &str, count_max: usize, paths: &mut Vec<String>) {
        let below = |part: &str| match path {
            "" => part.to_owned(),
            path => format!("{path}.{part}"),
        };
        match self {
            Self::Map(members) => {
                for (key, value) in members {
                    value.collect_paths(&below(key), count_max, paths);
                }
            }
            Self::Array(items) => {
                if let Some(first) = items.first() {
                    first.collect_paths(&below("0"), count_max, paths);
                }
            }
            _ if paths.len() < count_max => paths.push(path.to_owned()),
            _ => {}
        }
    }
}

impl<'de> Deserialize<'de> for Document<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Nested { depth: 0 }.deserialize(deserializer)
    }
}

/// Reads a value below `depth` others.
#[derive(Clone, Copy)]
struct Nested {
    depth: u8,
}

impl Nested {
    fn below<E: Error>(self) -> Result<Self, E> {
        match self.depth < DEPTH_MAX {
            true => Ok(Self {
                depth: self.depth + 1,
            }),
            false => Err(E::custom(format_args!(
                "maps and arrays are nested more than {DEPTH_MAX} deep"
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Nested {
    type Value = Document<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested {
    type Value = Document<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Self::Value, E> {
        Ok(Document::Bool(bool))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Self::Value, E> {
        Ok(Document::Integer(int))
    }

    fn visit_u64<E>(self, int: u64) -> Result<Self::Value, E> {
        Ok(Document::Unsigned(int.into()))
    }

    fn visit_u128<E>(self, int: u128) -> Result<Self::Value, E> {
        Ok(Document::Unsigned(int))
    }

    fn visit_f64<E>(self, real: f64) -> Result<Self::Value, E> {
        Ok(Document::Real(real))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Document::Text(text))
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Document::Bytes(bytes))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let below = self.below()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(below)? {
            items.push(item);
        }
        Ok(Document::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let below = self.below()?;
        let mut members = Vec::new();
        while let Some(key) = map.next_key()? {
            members.push((key, map.next_value_seed(below)?));
        }
        Ok(Document::Map(members))
    }
}
