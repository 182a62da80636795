//! One record for each element of an array.

use std::sync::Arc;

use lookaside_value::{Batch, Name, Names, Object, Record, Text, Value};

use crate::format::{reject_record, write_json_record};
use crate::{Error, Rejects, Result};

/// The most bytes of records that one record becomes, as JSON without their elements: the other
/// fields are repeated for each element, so that a short event could fill the memory.
const SIZE_MAX: usize = 16 << 20;

/// The place of an array in records: a field, or a path of members in it, separated by slashes.
///
/// ```
/// use lookaside_stream::SplitPath;
///
/// assert!(SplitPath::new("order/items").is_ok());
/// assert!(SplitPath::new("order//items").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPath {
    path: Box<str>,
}

impl SplitPath {
    /// The place that a text names.
    ///
    /// # Errors
    /// An error of kind [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if a part of the path is empty.
    pub fn new(path: &str) -> Result<Self> {
        match path.split('/').any(str::is_empty) {
            true => Err(Error::split_path(path)),
            false => Ok(Self { path: path.into() }),
        }
    }

    /// Replaces each record that has an array there by one record for each of its elements, which
    /// is there instead of the array. A record without such an array is kept. Returns how many
    /// records have an empty array, and so become none.
    pub(super) fn apply(&self, batch: &mut Batch, rejects: &mut Rejects) -> u64 {
        let places = self.find(batch.names());
        let find = |record: &Record| {
            // As in models, a field whose name is the whole path comes first.
            let mut places = places.iter();
            places.find(|(name, _)| record.value(*name).is_some())
        };
        let is_split = |record: &Record| {
            find(record)
                .is_some_and(|(name, members)| elements_of(record, *name, members).is_some())
        };
        if !batch.records().iter().any(is_split) {
            return 0;
        }
        let mut parts = Vec::with_capacity(batch.len());
        let mut empty_count = 0;
        for record in batch.records() {
            let place = find(record).and_then(|(name, members)| {
                let elements = elements_of(record, *name, members)?;
                Some((*name, members, elements))
            });
            let Some((name, members, elements)) = place else {
                parts.push(record.clone());
                continue;
            };
            if elements.is_empty() {
                empty_count += 1;
            }
            let mut rest = record.clone();
            replace(&mut rest, name, members, &Value::Null);
            if let Err(reason) = check_size(&rest, batch.names(), elements.len()) {
                reject_record(record, batch.names(), reason, rejects);
                continue;
            }
            parts.extend(elements.iter().map(|element| {
                let mut part = rest.clone();
                replace(&mut part, name, members, element);
                part
            }));
        }
        batch.take_results(&mut parts);
        empty_count
    }

    /// The fields that may have the array, each with the members that lead to it there: the field
    /// whose name is the whole path, and that of its first part.
    fn find(&self, names: &Names) -> Vec<(Name, Vec<&str>)> {
        let whole = names.name(&self.path).map(|name| (name, Vec::new()));
        let path = self.path.split_once('/').and_then(|(first, rest)| {
            let members = rest.split('/').collect();
            Some((names.name(first)?, members))
        });
        whole.into_iter().chain(path).collect()
    }
}

/// The array of a record at the path.
fn elements_of<'a>(record: &'a Record, name: Name, members: &[&str]) -> Option<&'a [Value]> {
    array_of(record.value(name)?, members)
}

fn array_of<'a>(value: &'a Value, members: &[&str]) -> Option<&'a [Value]> {
    match (value, members) {
        (Value::Array(elements), []) => Some(elements),
        (Value::Object(object), [member, rest @ ..]) => array_of(object.member(member)?, rest),
        _ => None,
    }
}

/// Replaces the value at the end of the path.
fn replace(record: &mut Record, name: Name, members: &[&str], new: &Value) {
    let value = record.value_mut(name).expect("the record has an array");
    *value = replaced(value, members, new);
}

fn replaced(value: &Value, members: &[&str], new: &Value) -> Value {
    let (Value::Object(object), [member, rest @ ..]) = (value, members) else {
        return new.clone();
    };
    let inner = object.member(member).unwrap_or(&Value::Null);
    let inner = replaced(inner, rest, new);
    let mut object = Object::clone(object);
    object.insert(Text::from(*member), inner);
    Value::Object(Arc::new(object))
}

/// Refuses a record whose parts would be too large.
fn check_size(rest: &Record, names: &Names, count: usize) -> std::result::Result<(), String> {
    let mut json = String::new();
    write_json_record(rest, names, &mut json);
    if json.len().saturating_mul(count) <= SIZE_MAX {
        return Ok(());
    }
    Err(format!(
        "the other fields with each of {count} elements are more than {} MiB",
        SIZE_MAX >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, FormatOptions, InputFormat};
    use lookaside_value::NameTable;

    /// The records that lines of JSON become, as JSON, the number of empty arrays, and the rejects.
    fn split(path: &str, lines: &str) -> (Vec<String>, u64, Rejects) {
        let format = InputFormat::new("json", &FormatOptions::new()).unwrap();
        let names = Arc::new(NameTable::new());
        let (mut batch, mut rejects) = (Batch::new(names.clone()), Rejects::new());
        let mut decoder = format.decoder(&names);
        decoder.decode(&Chunk::new(lines.as_bytes(), 1), &mut batch, &mut rejects);
        let empty_count = SplitPath::new(path)
            .unwrap()
            .apply(&mut batch, &mut rejects);
        let records = batch.records().iter().map(|record| {
            let mut json = format!("{} ", record.line);
            write_json_record(record, batch.names(), &mut json);
            json.trim_end().to_owned()
        });
        (records.collect(), empty_count, rejects)
    }

    #[test]
    fn each_element_becomes_a_record_with_the_other_fields() {
        for (path, lines, expected) in [
            (
                "a",
                r#"{"x":1,"a":[1,{"b":2},[3]],"y":2}"#,
                &[
                    r#"1 {"x":1,"a":1,"y":2}"#,
                    r#"1 {"x":1,"a":{"b":2},"y":2}"#,
                    r#"1 {"x":1,"a":[3],"y":2}"#,
                ][..],
            ),
            // The order of the input is kept, and what has no such array.
            (
                "a",
                "{\"a\":[1,2]}\n{\"b\":1}\n{\"a\":\"t\"}\n{\"a\":[3]}",
                &[
                    r#"1 {"a":1}"#,
                    r#"1 {"a":2}"#,
                    r#"2 {"b":1}"#,
                    r#"3 {"a":"t"}"#,
                    r#"4 {"a":3}"#,
                ],
            ),
            (
                "o/i",
                r#"{"o":{"i":[1,2],"k":0}}"#,
                &[r#"1 {"o":{"i":1,"k":0}}"#, r#"1 {"o":{"i":2,"k":0}}"#],
            ),
            ("o/i", r#"{"o":{"k":0}}"#, &[r#"1 {"o":{"k":0}}"#]),
            (
                "o/i",
                r#"{"o/i":[1],"o":{"i":[2,3]}}"#,
                &[r#"1 {"o/i":1,"o":{"i":[2,3]}}"#],
            ),
            ("z", r#"{"a":[1]}"#, &[r#"1 {"a":[1]}"#]),
            // Each record by itself, whatever fields the others have.
            (
                "o/i",
                "{\"o/i\":0}\n{\"o\":{\"i\":[1,2]}}",
                &[r#"1 {"o/i":0}"#, r#"2 {"o":{"i":1}}"#, r#"2 {"o":{"i":2}}"#],
            ),
        ] {
            let (records, empty_count, rejects) = split(path, lines);
            assert_eq!(records, expected, "{path} {lines}");
            assert_eq!((empty_count, rejects.count()), (0, 0));
        }
        let (records, empty_count, _) = split("a", "{\"a\":[]}\n{\"a\":[7]}\n{\"a\":[]}");
        assert_eq!(
            (&records[..], empty_count),
            (&[r#"2 {"a":7}"#.to_owned()][..], 2)
        );
    }

    #[test]
    fn a_record_that_would_fill_the_memory_is_rejected() {
        let elements = vec!["0"; 20_000].join(",");
        let line = |size: usize| format!(r#"{{"a":[{elements}],"t":"{}"}}"#, "x".repeat(size));
        let (records, _, rejects) = split("a", &format!("{}\n{}", line(500), line(1000)));
        assert_eq!((records.len(), rejects.count()), (20_000, 1));
        let reason = &rejects.first()[0].reason;
        assert_eq!(
            *reason,
            "the other fields with each of 20000 elements are more than 16 MiB"
        );
    }
}
