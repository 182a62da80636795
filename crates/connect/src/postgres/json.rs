//! Results, which are JSON objects, as fields of `COPY` in the text format.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::table::ColumnKind;

/// The most dimensions of an array: `MAXDIM` of the server.
const DIMENSION_COUNT_MAX: usize = 6;

/// Calls `take` with each member of a JSON object and its value as it is written.
///
/// # Errors
/// When the payload is not an object.
pub(super) fn read_object<'p>(
    payload: &'p [u8],
    take: impl FnMut(&str, &'p str),
) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_slice(payload);
    let read = deserializer
        .deserialize_map(Members(take))
        .and_then(|()| deserializer.end());
    read.map_err(|error| format!("the result is not a JSON object: {error}"))
}

struct Members<F>(F);

impl<'p, F: FnMut(&str, &'p str)> Visitor<'p> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'p>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<String, &'p RawValue>()? {
            (self.0)(&name, value.get());
        }
        Ok(())
    }
}

/// Appends a value as a field of `COPY`: `\N` for null, the text of a string, and everything else
/// as it is written, unless the column is an array. Whether it fits the type is decided by the
/// server.
///
/// # Errors
/// When a value cannot become an array.
pub(super) fn push_field(text: &mut Vec<u8>, kind: ColumnKind, value: &str) -> Result<(), String> {
    match (value.as_bytes()[0], kind) {
        (b'n', _) => text.extend_from_slice(b"\\N"),
        (_, ColumnKind::Json) => push_escaped(text, value),
        (b'"', _) => push_escaped(text, &unquoted(value)),
        (b'[', ColumnKind::Array | ColumnKind::JsonArray) => {
            let mut array = String::new();
            push_array(&mut array, kind, value, 1)?;
            push_escaped(text, &array);
        }
        _ => push_escaped(text, value),
    }
    Ok(())
}

fn unquoted(value: &str) -> String {
    match value.contains('\\') {
        true => serde_json::from_str(value).expect("the string was read before"),
        false => value[1..value.len() - 1].to_owned(),
    }
}

/// Escapes what ends or begins something in the text format of `COPY`.
fn push_escaped(text: &mut Vec<u8>, field: &str) {
    for byte in field.bytes() {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\t' => text.extend_from_slice(b"\\t"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            byte => text.push(byte),
        }
    }
}

/// Appends a JSON array as the text of an array: `{1,"two",NULL}`.
fn push_array(
    array: &mut String,
    kind: ColumnKind,
    value: &str,
    dimension: usize,
) -> Result<(), String> {
    if dimension > DIMENSION_COUNT_MAX {
        return Err(format!(
            "an array has more than {DIMENSION_COUNT_MAX} dimensions"
        ));
    }
    let elements: Vec<&RawValue> = serde_json::from_str(value).expect("the array was read before");
    array.push('{');
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            array.push(',');
        }
        let element = element.get();
        match (element.as_bytes()[0], kind) {
            (b'n', _) => array.push_str("NULL"),
            (_, ColumnKind::JsonArray) => push_quoted(array, element),
            (b'[', _) => push_array(array, kind, element, dimension + 1)?,
            (b'"', _) => push_quoted(array, &unquoted(element)),
            _ => push_quoted(array, element),
        }
    }
    array.push('}');
    Ok(())
}

fn push_quoted(array: &mut String, element: &str) {
    array.push('"');
    for char in element.chars() {
        if matches!(char, '"' | '\\') {
            array.push('\\');
        }
        array.push(char);
    }
    array.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ColumnKind, value: &str, expected: &str) {
        let mut text = Vec::new();
        push_field(&mut text, kind, value).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{value}");
    }

    #[test]
    fn values_become_fields() {
        use ColumnKind::{Array, Json, JsonArray, Plain};
        for (kind, value, expected) in [
            (Plain, "null", "\\N"),
            (Json, "null", "\\N"),
            (Array, "null", "\\N"),
            (Plain, "1.50", "1.50"),
            (Plain, "true", "true"),
            (Plain, r#""a\tb\\c\nd\re""#, r"a\tb\\c\nd\re"),
            (Plain, r#""\\N""#, r"\\N"),
            (Plain, r#""\\.""#, r"\\."),
            (Plain, "\"é😀\"", "é😀"),
            (Plain, r#""\u0000""#, "\0"),
            (Plain, r#"{"a":"b\n"}"#, r#"{"a":"b\\n"}"#),
            (Json, r#""a\n""#, r#""a\\n""#),
            (Json, r#"[1,{"a":null}]"#, r#"[1,{"a":null}]"#),
            (
                Array,
                r#"[1,null,"a\"b\\",[2]]"#,
                r#"{"1",NULL,"a\\"b\\\\",{"2"}}"#,
            ),
            (Array, r#""{1,2}""#, "{1,2}"),
            (Array, "[]", "{}"),
            (JsonArray, r#"[[1],"x"]"#, r#"{"[1]","\\"x\\""}"#),
        ] {
            check(kind, value, expected);
        }
        let deep = "[".repeat(7) + &"]".repeat(7);
        let error = push_field(&mut Vec::new(), Array, &deep).unwrap_err();
        assert!(error.contains("6 dimensions"), "{error}");
    }

    #[test]
    fn only_an_object_is_a_result() {
        let mut members = Vec::new();
        let payload = br#"{"a":1,"b":{"c":[]},"d\n":"e"}"#;
        read_object(payload, |name, value| {
            members.push((name.to_owned(), value))
        })
        .unwrap();
        let expected = [("a", "1"), ("b", r#"{"c":[]}"#), ("d\n", r#""e""#)];
        assert_eq!(
            members,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        for payload in ["", "1", "[]", "{\"a\"", "{}x", "{\"a\":1}{}"] {
            let error = read_object(payload.as_bytes(), |_, _| {}).unwrap_err();
            assert!(error.contains("not a JSON object"), "{error}");
        }
        // Nested deeper than a parser that recurses could follow.
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = read_object(deep.as_bytes(), |_, _| {});
    }
}
