//! The test files of models.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// The suffix of test files: `models/a.test.jsonl` tests `models/a.oml`.
pub(crate) const SUFFIX: &str = ".test.jsonl";

/// The message for a value that does not name outputs.
const TO: &str = "`to` must be the name of an output or a list of names";

/// One line of a test file.
pub(crate) struct Test {
    pub(crate) name: Option<String>,
    pub(crate) input: Value,
    /// The expected event; `None` if the model drops it.
    pub(crate) output: Option<Map<String, Value>>,
    /// The names of the outputs that the event is expected to be written to.
    pub(crate) to: Option<Vec<String>>,
}

impl Test {
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let object: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| format!("this is not a JSON object: {error}"))?;
        let (mut name, mut input, mut output, mut to) = (None, None, None, None);
        for (key, value) in object {
            match (key.as_str(), value) {
                ("name", Value::String(text)) => name = Some(text),
                ("input", value @ (Value::Object(_) | Value::String(_))) => input = Some(value),
                ("output", Value::Object(object)) => output = Some(Some(object)),
                ("output", Value::Null) => output = Some(None),
                ("to", value) => to = Some(names(value)?),
                ("name", _) => return Err("`name` must be a string".to_owned()),
                ("input", _) => return Err("`input` must be an object or a string".to_owned()),
                ("output", _) => {
                    return Err(
                        "`output` must be an object, or null for a dropped event".to_owned()
                    );
                }
                _ => {
                    return Err(format!(
                        "unknown key `{key}`; a test has `input`, `output`, `to` and `name`"
                    ));
                }
            }
        }
        let input = input.ok_or("the test has no `input`")?;
        let output = output.ok_or("the test has no `output`")?;
        if output.is_none() && to.is_some() {
            return Err("a dropped event is not written, so its test has no `to`".to_owned());
        }
        Ok(Self {
            name,
            input,
            output,
            to,
        })
    }
}

/// The names of outputs: a string or a list of strings.
fn names(value: Value) -> Result<Vec<String>, String> {
    let texts = match value {
        Value::String(name) => return Ok(vec![name]),
        Value::Array(names) => names.into_iter().map(|name| match name {
            Value::String(name) => Some(name),
            _ => None,
        }),
        _ => return Err(TO.to_owned()),
    };
    texts.collect::<Option<_>>().ok_or_else(|| TO.to_owned())
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
                "unknown key `inputs`; a test has `input`, `output`, `to` and `name`",
            ),
            (
                r#"{"input":{},"output":{},"to":[1]}"#,
                "`to` must be the name of an output or a list of names",
            ),
            (
                r#"{"input":{},"output":null,"to":"a"}"#,
                "a dropped event is not written, so its test has no `to`",
            ),
        ] {
            assert_eq!(Test::parse(line).err().as_deref(), Some(expected), "{line}");
        }
    }
}
