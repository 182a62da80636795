//! Runs the examples of the reference.
//!
//! An example is a fenced block that is tagged `oml`. Lines with `// in:` are the input, one with
//! `// out:` is the output, and lines with `// error:` are the messages of loading.

use lookaside_oml::Model;

use crate::format::formatted;
use crate::harness::run;

const REFERENCE: &str = include_str!("../../../../docs/OML.md");

/// The examples with the lines that they begin in.
fn examples(text: &str) -> Vec<(usize, String)> {
    let mut examples = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line) {
            (None, "```oml") => open = Some((index + 1, String::new())),
            (Some(_), "```") => examples.extend(open.take()),
            (Some((_, example)), line) => {
                example.push_str(line);
                example.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    examples
}

fn tagged(example: &str, tag: &str) -> Vec<String> {
    let lines = example.lines().filter_map(|line| line.strip_prefix(tag));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn every_example_gives_what_it_says() {
    let examples = examples(REFERENCE);
    assert!(examples.len() > 20, "the examples were found");
    for (line, example) in &examples {
        let input = tagged(example, "// in:").join("\n");
        let (out, errors) = (tagged(example, "// out:"), tagged(example, "// error:"));
        match run(example, &input) {
            Ok(found) => assert_eq!([found], out[..], "the example in line {line}"),
            Err(found) => {
                let found: Vec<_> = found.lines().collect();
                assert!(!errors.is_empty(), "the example in line {line}: {found:#?}");
                assert_eq!(
                    found.len(),
                    errors.len(),
                    "the example in line {line}: {found:#?}"
                );
                for (found, expected) in found.iter().zip(&errors) {
                    assert!(
                        found.ends_with(expected),
                        "the example in line {line}: {found}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_example_is_formatted() {
    for (line, example) in examples(REFERENCE) {
        let is_whole = example.lines().any(|line| line.starts_with("name :"));
        let header = if is_whole { "" } else { "name : t\n---\n" };
        let text = format!("{header}{example}");
        // The others show errors.
        if Model::parse("model", &text).is_ok() {
            assert_eq!(formatted(&text), text, "the example in line {line}");
        }
    }
}
