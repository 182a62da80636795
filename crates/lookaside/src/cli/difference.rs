//! Differences of two JSON objects, field by field.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The lines of a diff from `expected` to `found`, empty if they are equal: `-` marks an expected
/// line, `+` a found one. The order of fields is not a difference, nor is `1` versus `1.0`.
pub(crate) fn difference(expected: &Map<String, Value>, found: &Map<String, Value>) -> String {
    let mut lines = String::new();
    for (name, expected) in expected {
        match found.get(name) {
            Some(found) if found == expected => {}
            Some(found) => {
                write_line('-', name, expected, &mut lines);
                write_line('+', name, found, &mut lines);
            }
            None => write_line('-', name, expected, &mut lines),
        }
    }
    for (name, found) in found {
        if !expected.contains_key(name) {
            write_line('+', name, found, &mut lines);
        }
    }
    lines
}

fn write_line(sign: char, name: &str, value: &Value, lines: &mut String) {
    writeln!(lines, "  {sign} {}: {value}", Value::from(name)).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, found: &str, lines: &str) {
        let [expected, found] =
            [expected, found].map(|text| serde_json::from_str(text).expect("an object"));
        assert_eq!(difference(&expected, &found), lines);
    }

    #[test]
    fn differences_are_told_field_by_field() {
        check(
            r#"{"a":1,"b":[1,{"c":null}]}"#,
            r#"{"b":[1,{"c":null}],"a":1}"#,
            "",
        );
        check(
            r#"{"a":1,"b":"x","gone":true}"#,
            r#"{"a":1.0,"b":"x","new":"\n"}"#,
            "  - \"a\": 1\n  + \"a\": 1.0\n  - \"gone\": true\n  + \"new\": \"\\n\"\n",
        );
    }
}
