//! The `[enrich]` section of `knowdb.toml`: what `lookaside enrich` does unless flags override it.

use std::num::NonZero;
use std::time::Duration;

use lookaside_knowledge::{Config, Contract};
use lookaside_stream::FieldType;
use lookaside_value::OnLookupFailure;

use super::entry::{ENRICH, Entry};
use super::outputs::{self, OutputSettings};
use crate::failure::Failure;
use crate::suggestion::did_you_mean;

/// Values of `[enrich]`, each `None` if the file does not set it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnrichSettings {
    pub(crate) input: Vec<String>,
    pub(crate) format: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    /// The types of fields, by their names.
    pub(crate) types: Vec<(String, FieldType)>,
    pub(crate) rule: Option<String>,
    /// The name of the model; several names only if each event selects one of them.
    pub(crate) models: Vec<String>,
    /// The field whose value selects the model of each event.
    pub(crate) rule_key: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) output_format: Option<String>,
    pub(crate) output_options: Vec<(String, String)>,
    /// The outputs beside the default one.
    pub(crate) outputs: Vec<OutputSettings>,
    /// What happens to events for which no output has a condition that holds.
    pub(crate) unmatched: Option<String>,
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

const KEYS: [&str; 25] = [
    "input",
    "format",
    "options",
    "types",
    "rule",
    "rule_key",
    "model",
    "output",
    "output_format",
    "output_options",
    "unmatched",
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
        let mut default = None;
        if let (Some(value), true) = (section.get("rule"), section.contains_key("rule_key")) {
            let entry = Entry {
                config,
                key: "rule",
                value,
            };
            let message = format!("{ENRICH}.rule is one key for all events, and `rule_key` is set");
            return Err(entry.failure(&message).with_help("remove one of them"));
        }
        for (key, value) in section {
            let entry = Entry { config, key, value };
            match key.as_str() {
                "input" => settings.input = entry.strings()?,
                "format" => settings.format = Some(entry.string()?),
                "options" => settings.options = entry.options()?,
                "types" => settings.types = entry.types()?,
                "rule" => settings.rule = Some(entry.string()?),
                "model" => settings.models = entry.strings()?,
                "rule_key" => settings.rule_key = Some(entry.string()?),
                "output" if value.is_array() => {
                    (default, settings.outputs) = outputs::read(&entry)?
                }
                "output" => settings.output = Some(entry.string()?),
                "output_format" => settings.output_format = Some(entry.string()?),
                "output_options" => settings.output_options = entry.options()?,
                "unmatched" => settings.unmatched = Some(entry.string()?),
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
        if let (Some(value), None, true) = (
            section.get("model"),
            &settings.rule_key,
            settings.models.len() > 1,
        ) {
            let key = "model";
            let message = format!("{ENRICH}.model names several models, and `rule_key` is not set");
            return Err(Entry { config, key, value }
                .failure(&message)
                .with_help("set `rule_key` to the field that selects the model of each event"));
        }
        if let Some(default) = default {
            for key in ["output_format", "output_options"] {
                let Some(value) = section.get(key) else {
                    continue;
                };
                let message = format!("{ENRICH}.{key} is also set for the output `default`");
                return Err(Entry { config, key, value }
                    .failure(&message)
                    .with_help("set `format` and `options` in its table only"));
            }
            settings.output = Some(default.target);
            settings.output_format = default.format;
            settings.output_options = default.options;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lookaside_stream::FieldKind;
    use lookaside_value::TimeReader;

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
    fn the_default_output_may_be_in_the_list() {
        let settings = read(
            "[[enrich.output]]\nname = 'a'\ntarget = 'a.csv'\noptions = { columns = ['x', 'y'] }\n\
             when = 'read(x) = digit(1)'\n\
             [[enrich.output]]\nname = 'default'\ntarget = 'x.out'\nformat = 'kv'\n\
             options = { sep = 1 }\n",
        );
        let settings = settings.unwrap();
        assert_eq!(settings.output.as_deref(), Some("x.out"));
        assert_eq!(settings.output_format.as_deref(), Some("kv"));
        assert_eq!(
            settings.output_options,
            [("sep".to_owned(), "1".to_owned())]
        );
        let [output] = &settings.outputs[..] else {
            panic!("{settings:?}");
        };
        assert_eq!(
            (&*output.key, &*output.name, &*output.target),
            ("output.0", "a", "a.csv")
        );
        assert_eq!(output.options, [("columns".to_owned(), "x,y".to_owned())]);
        assert!(output.when.is_some());
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
                "[enrich]\nmodel = ['a', 'b']",
                "error: FILE:3: enrich.model names several models, and `rule_key` is not set",
            ),
            (
                "[enrich]\nrule_key = 'a'\nrule = '/x'",
                "error: FILE:4: enrich.rule is one key for all events, and `rule_key` is set",
            ),
            (
                "[enrich]\noutput = 1",
                "error: FILE:3: enrich.output must be a string, not a whole number",
            ),
            (
                "[enrich]\noutput = ['x']",
                "error: FILE:3: enrich.output.0 must be a table, not a string",
            ),
            (
                "[[enrich.output]]\ntarget = 'x'",
                "error: FILE:2: enrich.output.0 has no `name`",
            ),
            (
                "[[enrich.output]]\nname = 'x'",
                "error: FILE:2: enrich.output.0 has no `target`, which is where its events are written",
            ),
            (
                "[[enrich.output]]\nname = 'a'\ntarget = 'x'\n[[enrich.output]]\nname = 'a'\ntarget = 'y'",
                "error: FILE:6: two outputs are named `a`",
            ),
            (
                "[[enrich.output]]\nname = 'reject'\ntarget = 'x'",
                "error: FILE:3: an output cannot be named `reject`, which is a value of `unmatched`",
            ),
            (
                "[[enrich.output]]\nname = 'a'\ntarget = 'x'\nwhne = ''",
                "error: FILE:5: unknown key enrich.output.0.whne; did you mean \"when\"?",
            ),
            (
                "[[enrich.output]]\nname = 'default'\ntarget = 'x'\nwhen = 'read(a) = digit(1)'",
                "error: FILE:5: the output `default` has no `when`",
            ),
            (
                "[enrich]\noutput_format = 'json'\n[[enrich.output]]\nname = 'default'\ntarget = 'x'",
                "error: FILE:3: enrich.output_format is also set for the output `default`",
            ),
            (
                "[[enrich.output]]\nname = 'a'\ntarget = 'x'\nwhen = 'read(a) > 1'",
                "error: FILE cannot be used",
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
