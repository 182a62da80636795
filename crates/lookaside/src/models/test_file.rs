//! The test files of models.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// The suffix of test files: `models/a.test.jsonl` tests `models/a.oml`.
pub(crate) const SUFFIX: &str = ".test.jsonl";

/// One line of a test file.
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    pub(crate) input: Value,
    /// The expected event; `None` if the model drops it.
    pub(crate) output: Option<Map<String, Value>>,
}

impl Test {
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let object: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| format!("this is not a JSON object: {error}"))?;
        let (mut name, mut input, mut output) = (None, None, None);
        for (key, value) in object {
            match (key.as_str(), value) {
                ("name", Value::String(text)) => name = Some(text),
                ("input", value @ (Value::Object(_) | Value::String(_))) => input = Some(value),
                ("output", Value::Object(object)) => output = Some(Some(object)),
                ("output", Value::Null) => output = Some(None),
                ("name", _) => return Err("`name` must be a string".to_owned()),
                ("input", _) => return Err("`input` must be an object or a string".to_owned()),
                ("output", _) => {
                    return Err(
                        "`output` must be an object, or null for a dropped event".to_owned()
                    );
                }
                _ => {
                    return Err(format!(
                        "unknown key `{key}`; a test has `input`, `output` and `name`"
                    ));
                }
            }
        }
        Ok(Self {
            name,
            input: input.ok_or("the test has no `input`")?,
            output: output.ok_or("the test has no `output`")?,
        })
    }
}

/// The input of the first test of a model, as a line. `None` if there is none or if the line is not
/// a test, which `lookaside test` reports.
pub(crate) fn first_input(model: &Path) -> Option<String> {
    let tests = model.with_extension("");
    let tests = fs::read_to_string(format!("{}{SUFFIX}", tests.display())).ok()?;
    let first = tests.lines().find(|line| !line.trim().is_empty())?;
    match Test::parse(first).ok()?.input {
        Value::String(line) => Some(line),
        event => Some(event.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_test_is_said() {
        for (line, expected) in [
            ("{}", "the test has no `input`"),
            (r#"{"input":{}}"#, "the test has no `output`"),
            (
                r#"{"input":1,"output":{}}"#,
                "`input` must be an object or a string",
            ),
            (
                r#"{"input":{},"output":[]}"#,
                "`output` must be an object, or null for a dropped event",
            ),
            (
                r#"{"inputs":{}}"#,
                "unknown key `inputs`; a test has `input`, `output` and `name`",
            ),
        ] {
            assert_eq!(Test::parse(line).err().as_deref(), Some(expected), "{line}");
        }
    }
}
