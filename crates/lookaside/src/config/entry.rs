//! The values of a section's keys.

use std::num::NonZero;
use std::time::Duration;

use lookaside_knowledge::Config;
use lookaside_stream::{FieldKind, FieldType};
use lookaside_value::{TimeReader, parse_zone};
use toml::Value;

use super::reader::kind_of;
use crate::failure::Failure;
use crate::suggestion::did_you_mean;
use crate::units;

/// The name of the section.
pub(crate) const ENRICH: &str = "enrich";

/// One key of the section; messages name its line.
pub(super) struct Entry<'a> {
    pub(super) config: &'a Config,
    pub(super) key: &'a str,
    pub(super) value: &'a Value,
}

impl Entry<'_> {
    /// The line of the key, counted from 1.
    pub(super) fn line(&self) -> usize {
        let path = format!("{ENRICH}.{}", self.key);
        self.config.section_line(&path).unwrap_or(1)
    }

    pub(super) fn failure(&self, message: &str) -> Failure {
        let (file, line) = (self.config.file.display(), self.line());
        Failure::new(format!("{file}:{line}: {message}"))
    }

    pub(super) fn wanted(&self, wanted: &str) -> Failure {
        self.failure(&format!(
            "{ENRICH}.{} must be {wanted}, not {}",
            self.key,
            kind_of(self.value)
        ))
    }

    pub(super) fn string(&self) -> Result<String, Failure> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(self.wanted("a string")),
        }
    }

    pub(super) fn strings(&self) -> Result<Vec<String>, Failure> {
        const WANTED: &str = "a string or a list of strings";
        match self.value {
            Value::String(text) => Ok(vec![text.clone()]),
            Value::Array(values) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
                let texts: Option<Vec<_>> = texts.collect();
                texts
                    .ok_or_else(|| self.failure(&format!("{ENRICH}.{} must be {WANTED}", self.key)))
            }
            _ => Err(self.wanted(WANTED)),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, Failure> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wanted("true or false"))
    }

    /// A number of bytes, with or without a unit.
    pub(super) fn size(&self) -> Result<NonZero<u64>, Failure> {
        let size = match self.value {
            Value::Integer(integer) => u64::try_from(*integer).ok().and_then(NonZero::new),
            Value::String(text) => units::size(text),
            _ => return Err(self.wanted(units::SIZE)),
        };
        size.ok_or_else(|| self.not(units::SIZE))
    }

    /// A time with a unit.
    pub(super) fn time(&self) -> Result<Duration, Failure> {
        units::time(&self.string()?).ok_or_else(|| self.not(units::TIME))
    }

    fn not(&self, wanted: &str) -> Failure {
        self.failure(&format!(
            "{ENRICH}.{} must be {wanted}, not {}",
            self.key, self.value
        ))
    }

    pub(super) fn count(&self) -> Result<usize, Failure> {
        self.number(1)
    }

    pub(super) fn number(&self, min: usize) -> Result<usize, Failure> {
        let Value::Integer(integer) = self.value else {
            return Err(self.wanted("a number"));
        };
        let number = usize::try_from(*integer)
            .ok()
            .filter(|number| *number >= min);
        number.ok_or_else(|| {
            self.failure(&format!(
                "{ENRICH}.{} must be at least {min}, not {integer}",
                self.key
            ))
        })
    }

    /// Types by the names of fields, each a string or a table.
    pub(super) fn types(&self) -> Result<Vec<(String, FieldType)>, Failure> {
        let Value::Table(types) = self.value else {
            return Err(self.wanted("a table of types"));
        };
        types
            .iter()
            .map(|(name, value)| {
                let key = format!("{}.{name}", self.key);
                Ok((name.clone(), self.at(&key, value).field_type()?))
            })
            .collect()
    }

    fn field_type(&self) -> Result<FieldType, Failure> {
        const MEMBERS: [&str; 4] = ["type", "format", "zone", "required"];
        let mut field_type = FieldType {
            kind: FieldKind::Chars,
            is_required: false,
        };
        let members = match self.value {
            Value::String(_) => {
                field_type.kind = self.field_kind()?;
                return Ok(field_type);
            }
            Value::Table(members) => members,
            _ => return Err(self.wanted("a string or a table")),
        };
        let keys: Vec<String> = members
            .keys()
            .map(|member| format!("{}.{member}", self.key))
            .collect();
        let entries = members.iter().zip(&keys);
        let entries = entries.map(|((member, value), key)| (member.as_str(), self.at(key, value)));
        let entries: Vec<_> = entries.collect();
        let Some((_, kind)) = entries.iter().find(|(member, _)| *member == "type") else {
            return Err(self.failure(&format!("{ENRICH}.{} names no type", self.key)));
        };
        field_type.kind = kind.field_kind()?;
        for (member, entry) in &entries {
            match (*member, &mut field_type.kind) {
                ("type", _) => {}
                ("required", _) => field_type.is_required = entry.boolean()?,
                ("format", FieldKind::Time { reader, .. }) => {
                    let format = entry.string()?;
                    *reader = TimeReader::new(&format).map_err(|error| {
                        let key = entry.key;
                        entry.failure(&format!(
                            "{ENRICH}.{key} is {format:?}, which is not a format of times: {error}"
                        ))
                    })?;
                }
                ("zone", FieldKind::Time { zone, .. }) => {
                    let name = entry.string()?;
                    let found = parse_zone(&name);
                    let message = format!("unknown time zone {name}");
                    *zone = Some(found.ok_or_else(|| entry.failure(&message))?);
                }
                ("format" | "zone", _) => {
                    let key = entry.key;
                    return Err(entry.failure(&format!("{ENRICH}.{key} is only for times")));
                }
                (other, _) => {
                    let hint = did_you_mean(other, MEMBERS);
                    let message = format!("unknown key {ENRICH}.{}{hint}", entry.key);
                    return Err(entry.failure(&message));
                }
            }
        }
        Ok(field_type)
    }

    fn field_kind(&self) -> Result<FieldKind, Failure> {
        let name = self.string()?;
        FieldKind::by_name(&name).ok_or_else(|| {
            let hint = did_you_mean(&name, FieldKind::NAMES);
            let help = format!("the types are {}", FieldKind::NAMES.join(", "));
            self.failure(&format!("unknown type {name}{hint}"))
                .with_help(help)
        })
    }

    /// An entry within this one.
    pub(super) fn at<'a>(&'a self, key: &'a str, value: &'a Value) -> Entry<'a> {
        Entry {
            config: self.config,
            key,
            value,
        }
    }

    /// The options of a format, as text in the form that their flags take.
    pub(super) fn options(&self) -> Result<Vec<(String, String)>, Failure> {
        let Value::Table(options) = self.value else {
            return Err(self.wanted("a table of options"));
        };
        options
            .iter()
            .map(|(name, value)| {
                let key = format!("{}.{name}", self.key);
                let entry = self.at(&key, value);
                const WANTED: &str = "a string, a number, true or false, or a list of them";
                let text = option_text(value).ok_or_else(|| entry.wanted(WANTED))?;
                Ok((name.clone(), text))
            })
            .collect()
    }
}

fn option_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Float(float) => Some(float.to_string()),
        Value::Boolean(boolean) => Some(boolean.to_string()),
        // A list is joined by commas, as on the command line.
        Value::Array(values) => {
            let parts: Option<Vec<_>> = values.iter().map(option_text).collect();
            Some(parts?.join(","))
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}
