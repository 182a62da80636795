//! `[[enrich.output]]`: the outputs of a run, each with the condition of its events.

use std::fs;

use lookaside_oml::Condition;
use toml::Value;

use super::entry::{ENRICH, Entry};
use crate::failure::Failure;
use crate::models::model_failure;
use crate::suggestion::did_you_mean;

/// The name of the output for events that no other output is chosen for.
const DEFAULT: &str = "default";

/// Values of `unmatched` that are not outputs.
const RESERVED: [&str; 2] = ["pass", "reject"];

const KEYS: [&str; 5] = ["name", "target", "format", "options", "when"];

/// An output of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputSettings {
    /// Its key in the section, for messages: `output.0`.
    pub(crate) key: String,
    pub(crate) name: String,
    /// A file, a connection, a topic or a table.
    pub(crate) target: String,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    /// Which events are written to it, if the model does not set it.
    pub(crate) when: Option<Condition>,
}

/// Reads the list: the default output, if it is among them, and the others.
pub(super) fn read(
    entry: &Entry<'_>,
) -> Result<(Option<OutputSettings>, Vec<OutputSettings>), Failure> {
    let mut default = None;
    let mut others: Vec<OutputSettings> = Vec::new();
    let items = entry.value.as_array().map_or(&[][..], Vec::as_slice);
    for (index, value) in items.iter().enumerate() {
        let key = format!("{}.{index}", entry.key);
        let output = output(&entry.at(&key, value))?;
        let is_default = output.name == DEFAULT;
        if is_default && default.is_some() || others.iter().any(|it| it.name == output.name) {
            let message = format!("two outputs are named `{}`", output.name);
            return Err(entry.at(&format!("{key}.name"), value).failure(&message));
        }
        match is_default {
            true => default = Some(output),
            false => others.push(output),
        }
    }
    Ok((default, others))
}

fn output(entry: &Entry<'_>) -> Result<OutputSettings, Failure> {
    let Value::Table(members) = entry.value else {
        return Err(entry.wanted("a table"));
    };
    let mut output = OutputSettings {
        key: entry.key.to_owned(),
        ..OutputSettings::default()
    };
    let mut name = None;
    for (member, value) in members {
        let key = format!("{}.{member}", entry.key);
        let entry = entry.at(&key, value);
        match member.as_str() {
            "name" => name = Some(self::name(&entry)?),
            "target" => output.target = entry.string()?,
            "format" => output.format = Some(entry.string()?),
            "options" => output.options = entry.options()?,
            "when" => output.when = Some(condition(&entry)?),
            _ => {
                let hint = did_you_mean(member, KEYS);
                let help = format!("the keys of [[{ENRICH}.output]] are {}", KEYS.join(", "));
                let message = format!("unknown key {ENRICH}.{key}{hint}");
                return Err(entry.failure(&message).with_help(help));
            }
        }
    }
    let path = format!("{ENRICH}.{}", entry.key);
    output.name = name.ok_or_else(|| entry.failure(&format!("{path} has no `name`")))?;
    if output.target.is_empty() {
        let message = format!("{path} has no `target`, which is where its events are written");
        return Err(entry.failure(&message));
    }
    if output.name == DEFAULT && output.when.is_some() {
        let key = format!("{}.when", entry.key);
        let failure = entry.at(&key, entry.value);
        return Err(failure
            .failure("the output `default` has no `when`")
            .with_help(
                "set `unmatched = \"default\"` in [enrich] to write all other events to it",
            ));
    }
    Ok(output)
}

fn name(entry: &Entry<'_>) -> Result<String, Failure> {
    let name = entry.string()?;
    match RESERVED.contains(&&*name) {
        true => Err(entry.failure(&format!(
            "an output cannot be named `{name}`, which is a value of `unmatched`"
        ))),
        false => Ok(name),
    }
}

/// Parses a condition; an error shows it at its place in the file, and nothing else of the file,
/// which may contain passwords.
fn condition(entry: &Entry<'_>) -> Result<Condition, Failure> {
    let text = entry.string()?;
    let path = &entry.config.file;
    let file = fs::read_to_string(path).unwrap_or_default();
    let line = entry.line();
    let line_start = line_start(&file, line);
    // A string with escapes is not in the file as it is, and is shown from the first column on.
    let place = file[line_start..].find(&text).map(|at| line_start + at);
    let (line_index, column) = match place {
        Some(at) => {
            let before = &file[..at];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let line_index = before.matches('\n').count();
            (line_index, before[line_start..].chars().count())
        }
        None => (line - 1, 0),
    };
    let blank = "\n".repeat(line_index) + &" ".repeat(column);
    let range = blank.len()..blank.len() + text.len();
    Condition::parse_within(&path.display().to_string(), &(blank + &text), range)
        .map_err(|errors| model_failure(&[errors]))
}

/// The position of a line, counted from 1.
fn line_start(file: &str, line: usize) -> usize {
    let ends = file.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).nth(line - 1).unwrap_or(0)
}
