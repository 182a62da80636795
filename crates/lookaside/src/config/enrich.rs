//! The `[enrich]` section of `knowdb.toml`: what `lookaside enrich` does unless flags override it.

use std::num::NonZero;
use std::time::Duration;

use lookaside_knowledge::{Config, Contract};
use lookaside_stream::{FieldKind, FieldType};
use lookaside_value::{OnLookupFailure, TimeReader, parse_zone};
use toml::Value;

use super::reader::kind_of;
use crate::failure::Failure;
use crate::suggestion::did_you_mean;
use crate::units;

/// The section's name, for the configuration reader.
pub(crate) const ENRICH: &str = "enrich";

/// Values of `[enrich]`, each `None` if the file does not set it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnrichSettings {
    pub(crate) input: Vec<String>,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    /// The types of fields, by their names.
    pub(crate) types: Vec<(String, FieldType)>,
    pub(crate) rule: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) output_format: Option<String>,
    pub(crate) output_options: Vec<(String, String)>,
    pub(crate) named_outputs: Vec<NamedOutputSettings>,
    pub(crate) split: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) reject: Option<String>,
    pub(crate) workers: Option<usize>,
    /// Which changes of providers' rows the answers of lookups have to include.
    pub(crate) contract: Contract,
    /// What happens to an event whose lookup fails, unless the model sets it.
    pub(crate) on_lookup_failure: Option<OnLookupFailure>,
    pub(crate) strict: bool,
    pub(crate) watch: bool,
    pub(crate) replay_bytes: Option<usize>,
    pub(crate) reconnect_timeout_ms: Option<usize>,
    pub(crate) drain_timeout: Option<Duration>,
    /// The size of an output file above which it is rotated, in bytes.
    pub(crate) rotate_size: Option<NonZero<u64>>,
    /// How often output files are rotated.
    pub(crate) rotate_every: Option<Duration>,
    /// How many rotated files are kept.
    pub(crate) rotate_keep: Option<NonZero<usize>>,
}

/// An output beside the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedOutputSettings {
    pub(crate) name: String,
    pub(crate) output: String,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<(String, String)>,
}

const KEYS: [&str; 24] = [
    "input",
    "format",
    "options",
    "types",
    "rule",
    "model",
    "output",
    "output_format",
    "output_options",
    "named_outputs",
    "split",
    "timezone",
    "reject",
    "workers",
    "fresh",
    "on_lookup_failure",
    "strict",
    "watch",
    "replay_bytes",
    "reconnect_timeout_ms",
    "drain_timeout_ms",
    "rotate_size",
    "rotate_every",
    "rotate_keep",
];

impl EnrichSettings {
    /// Reads the section; a file without it gives the defaults.
    pub(crate) fn read(config: &Config) -> Result<Self, Failure> {
        let mut settings = Self::default();
        let Some(section) = config.section(ENRICH) else {
            return Ok(settings);
        };
        for (key, value) in section {
            let entry = Entry { config, key, value };
            match key.as_str() {
                "input" => settings.input = entry.strings()?,
                "format" => settings.format = Some(entry.string()?),
                "options" => settings.options = entry.options()?,
                "types" => settings.types = entry.types()?,
                "rule" => settings.rule = Some(entry.string()?),
                "model" => settings.model = Some(entry.string()?),
                "output" => settings.output = Some(entry.string()?),
                "output_format" => settings.output_format = Some(entry.string()?),
                "output_options" => settings.output_options = entry.options()?,
                "named_outputs" => settings.named_outputs = entry.named_outputs()?,
                "split" => settings.split = Some(entry.string()?),
                "timezone" => settings.timezone = Some(entry.string()?),
                "reject" => settings.reject = Some(entry.string()?),
                "workers" => settings.workers = Some(entry.count()?),
                "fresh" => {
                    let text = entry.string()?;
                    settings.contract = text.parse().map_err(|error| {
                        entry.failure(&format!("{ENRICH}.fresh is {text:?}, but {error}"))
                    })?;
                }
                "on_lookup_failure" => {
                    let text = entry.string()?;
                    let policy = text.parse().map_err(|error| {
                        entry.failure(&format!("{ENRICH}.{key} is {text:?}, but {error}"))
                    })?;
                    settings.on_lookup_failure = Some(policy);
                }
                "strict" => settings.strict = entry.boolean()?,
                "watch" => settings.watch = entry.boolean()?,
                "replay_bytes" => settings.replay_bytes = Some(entry.number(0)?),
                "reconnect_timeout_ms" => {
                    settings.reconnect_timeout_ms = Some(entry.number(0)?);
                }
                "drain_timeout_ms" => {
                    let ms = entry.count()? as u64;
                    settings.drain_timeout = Some(Duration::from_millis(ms));
                }
                "rotate_size" => settings.rotate_size = Some(entry.size()?),
                "rotate_every" => settings.rotate_every = Some(entry.time()?),
                "rotate_keep" => settings.rotate_keep = NonZero::new(entry.count()?),
                _ => {
                    let hint = did_you_mean(key, KEYS);
                    let help = format!("the keys of [{ENRICH}] are {}", KEYS.join(", "));
                    return Err(entry
                        .failure(&format!("unknown key {ENRICH}.{key}{hint}"))
                        .with_help(help));
                }
            }
        }
        Ok(settings)
    }
}

/// One key of the section; messages name its line.
struct Entry<'a> {
    config: &'a Config,
    key: &'a str,
    value: &'a Value,
}

impl Entry<'_> {
    fn failure(&self, message: &str) -> Failure {
        let path = format!("{ENRICH}.{}", self.key);
        let line = self.config.section_line(&path).unwrap_or(1);
        Failure::new(format!("{}:{line}: {message}", self.config.file.display()))
    }

    fn wanted(&self, wanted: &str) -> Failure {
        self.failure(&format!(
            "{ENRICH}.{} must be {wanted}, not {}",
            self.key,
            kind_of(self.value)
        ))
    }

    fn string(&self) -> Result<String, Failure> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(self.wanted("a string")),
        }
    }

    fn strings(&self) -> Result<Vec<String>, Failure> {
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

    fn boolean(&self) -> Result<bool, Failure> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wanted("true or false"))
    }

    /// A number of bytes, with or without a unit.
    fn size(&self) -> Result<NonZero<u64>, Failure> {
        let size = match self.value {
            Value::Integer(integer) => u64::try_from(*integer).ok().and_then(NonZero::new),
            Value::String(text) => units::size(text),
            _ => return Err(self.wanted(units::SIZE)),
        };
        size.ok_or_else(|| self.not(units::SIZE))
    }

    /// A time with a unit.
    fn time(&self) -> Result<Duration, Failure> {
        units::time(&self.string()?).ok_or_else(|| self.not(units::TIME))
    }

    fn not(&self, wanted: &str) -> Failure {
        self.failure(&format!(
            "{ENRICH}.{} must be {wanted}, not {}",
            self.key, self.value
        ))
    }

    fn count(&self) -> Result<usize, Failure> {
        self.number(1)
    }

    fn number(&self, min: usize) -> Result<usize, Failure> {
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

    /// Outputs by their names, each a string or a table.
    fn named_outputs(&self) -> Result<Vec<NamedOutputSettings>, Failure> {
        let Value::Table(outputs) = self.value else {
            return Err(self.wanted("a table of outputs"));
        };
        outputs
            .iter()
            .map(|(name, value)| {
                let key = format!("{}.{name}", self.key);
                self.at(&key, value).named_output(name)
            })
            .collect()
    }

    fn named_output(&self, name: &str) -> Result<NamedOutputSettings, Failure> {
        const MEMBERS: [&str; 3] = ["output", "format", "options"];
        let mut settings = NamedOutputSettings {
            name: name.to_owned(),
            ..NamedOutputSettings::default()
        };
        let members = match self.value {
            Value::String(output) => {
                settings.output.clone_from(output);
                return Ok(settings);
            }
            Value::Table(members) => members,
            _ => return Err(self.wanted("a string or a table")),
        };
        for (member, value) in members {
            let key = format!("{}.{member}", self.key);
            let entry = self.at(&key, value);
            match member.as_str() {
                "output" => settings.output = entry.string()?,
                "format" => settings.format = Some(entry.string()?),
                "options" => settings.options = entry.options()?,
                _ => {
                    let hint = did_you_mean(member, MEMBERS);
                    let message = format!("unknown key {ENRICH}.{key}{hint}");
                    return Err(entry.failure(&message));
                }
            }
        }
        match settings.output.is_empty() {
            true => Err(self.failure(&format!("{ENRICH}.{} names no output", self.key))),
            false => Ok(settings),
        }
    }

    /// Types by the names of fields, each a string or a table.
    fn types(&self) -> Result<Vec<(String, FieldType)>, Failure> {
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
    fn at<'a>(&'a self, key: &'a str, value: &'a Value) -> Entry<'a> {
        Entry {
            config: self.config,
            key,
            value,
        }
    }

    /// The options of a format, as text in the form that their flags take.
    fn options(&self) -> Result<Vec<(String, String)>, Failure> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<EnrichSettings, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("knowdb.toml"),
            format!("version = 2\n{text}"),
        )
        .unwrap();
        let config = Config::open(folder.path(), &[ENRICH]).unwrap();
        EnrichSettings::read(&config).map_err(|failure| {
            let mut out = Vec::new();
            failure.write(&mut out).unwrap();
            let message = String::from_utf8(out).unwrap();
            let file = config.file.display().to_string();
            message.lines().next().unwrap().replace(&file, "FILE")
        })
    }

    #[test]
    fn a_file_may_say_everything_or_nothing() {
        assert_eq!(read(""), Ok(EnrichSettings::default()));
        let settings = read(
            "[enrich]\ninput = 'a.csv'\nformat = 'csv'\nworkers = 3\nstrict = true\n\
             rotate_size = '1MiB'\nrotate_every = '1d'\nrotate_keep = 7\n\
             watch = true\ndrain_timeout_ms = 1500\non_lookup_failure = 'wait'\n\
             [enrich.options]\nheader = false\ncolumns = ['a', 'b']\n",
        )
        .unwrap();
        assert_eq!(settings.input, ["a.csv"]);
        assert_eq!(settings.format.as_deref(), Some("csv"));
        assert_eq!((settings.workers, settings.strict), (Some(3), true));
        assert!(settings.watch);
        assert_eq!(settings.rotate_size, NonZero::new(1 << 20));
        assert_eq!(settings.rotate_every, Some(Duration::from_secs(86_400)));
        assert_eq!(settings.rotate_keep, NonZero::new(7));
        assert_eq!(settings.on_lookup_failure, Some(OnLookupFailure::Wait));
        assert_eq!(settings.drain_timeout, Some(Duration::from_millis(1500)));
        let options = [("columns", "a,b"), ("header", "false")];
        let expected = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.options, expected);
        let settings = read(
            "[enrich.types]\nn = 'digit'\nt = { type = 'time', format = '%F', required = true }",
        );
        let settings = settings.unwrap();
        let time = FieldKind::Time {
            reader: TimeReader::new("%F").unwrap(),
            zone: None,
        };
        let found: Vec<_> = settings
            .types
            .into_iter()
            .map(|(name, found)| (name, found.kind, found.is_required))
            .collect();
        let expected = [
            ("n".to_owned(), FieldKind::Digit, false),
            ("t".to_owned(), time, true),
        ];
        assert_eq!(found, expected);
        let settings = read("[enrich]\nrotate_size = 4096").unwrap();
        assert_eq!(settings.rotate_size, NonZero::new(4096));
        let settings = read("[enrich]\ninput = ['a', 'b']").unwrap();
        assert_eq!(settings.input, ["a", "b"]);
    }

    #[test]
    fn mistakes_name_file_line_and_key() {
        for (text, expected) in [
            (
                "[enrich]\nouput = 'x'",
                "error: FILE:3: unknown key enrich.ouput; did you mean \"output\"?",
            ),
            (
                "[enrich]\nformat = 3",
                "error: FILE:3: enrich.format must be a string, not a whole number",
            ),
            (
                "[enrich]\nworkers = 0",
                "error: FILE:3: enrich.workers must be at least 1, not 0",
            ),
            (
                "[enrich]\n\ninput = [1]",
                "error: FILE:4: enrich.input must be a string or a list of strings",
            ),
            (
                "[enrich]\non_lookup_failure = 'drop'",
                "error: FILE:3: enrich.on_lookup_failure is \"drop\", but must be \"wait\", \
                 \"reject\" or \"emit\"",
            ),
            (
                "[enrich]\nrotate_size = '100MB'",
                "error: FILE:3: enrich.rotate_size must be a number of bytes of at least 1, such as \
                 100MiB; the units are KiB, MiB and GiB, not \"100MB\"",
            ),
            (
                "[enrich]\nrotate_size = 0",
                "error: FILE:3: enrich.rotate_size must be a number of bytes of at least 1, such as \
                 100MiB; the units are KiB, MiB and GiB, not 0",
            ),
            (
                "[enrich]\nrotate_every = 60",
                "error: FILE:3: enrich.rotate_every must be a string, not a whole number",
            ),
            (
                "[enrich]\nrotate_every = '1week'",
                "error: FILE:3: enrich.rotate_every must be a time of at least 1s, such as 1h; the \
                 units are s, m, h and d, not \"1week\"",
            ),
            (
                "[enrich]\nrotate_keep = 0",
                "error: FILE:3: enrich.rotate_keep must be at least 1, not 0",
            ),
            (
                "[enrich.types]\nn = 'digits'",
                "error: FILE:3: unknown type digits; did you mean \"digit\"?",
            ),
            (
                "[enrich.types]\nn = 1",
                "error: FILE:3: enrich.types.n must be a string or a table, not a whole number",
            ),
            (
                "[enrich.types.t]\nformat = '%F'",
                "error: FILE:2: enrich.types.t names no type",
            ),
            (
                "[enrich.types.t]\ntype = 'time'\nformat = '%H'",
                "error: FILE:4: enrich.types.t.format is \"%H\", which is not a format of times: it \
                 has no complete date, such as %Y-%m-%d, %d/%b or %s",
            ),
            (
                "[enrich.types.t]\ntype = 'time'\nzone = 'Mars'",
                "error: FILE:4: unknown time zone Mars",
            ),
            (
                "[enrich.types.t]\ntype = 'ip'\nzone = 'UTC'",
                "error: FILE:4: enrich.types.t.zone is only for times",
            ),
            (
                "[enrich.types.t]\ntype = 'ip'\nrequire = true",
                "error: FILE:4: unknown key enrich.types.t.require; did you mean \"required\"?",
            ),
            (
                "[enrich.options]\nx = { y = 1 }",
                "error: FILE:3: enrich.options.x must be a string, a number, true or false, or a \
                 list of them, not a table",
            ),
        ] {
            assert_eq!(read(text), Err(expected.into()));
        }
    }
}
