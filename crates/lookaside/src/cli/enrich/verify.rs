//! Checks the values of `[enrich]`, for `lookaside check`.

use std::path::{Path, PathBuf};

use lookaside_connect::ConnectUrl;
use lookaside_stream::{Flow, FormatOptions, InputFormat, OutputFormat, Sink, SplitPath};

use super::connectors::{self, shown};
use super::formats::{format_of_name, merged};
use super::named::{self, NamedOutput};
use super::places::{Places, refuse_to_replace};
use super::plan::{WORKER_COUNT_MAX, default_key};
use crate::config::{ENRICH, EnrichSettings};
use crate::failure::Failure;
use crate::models::options::timezone;
use crate::models::{Models, Wanted};
use crate::project::{Project, is_path};

/// The result of checking the section.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The problems, each a line that begins with its position.
    pub(crate) problems: Vec<String>,
    /// The model that would run, if the section determines it.
    pub(crate) choice: Option<String>,
    /// What was found at the brokers that the section names, each a line.
    pub(crate) connectors: Vec<String>,
    /// The conditions of the outputs, each a line.
    pub(crate) routes: Vec<String>,
}

/// Checks everything that could fail in a run without flags.
pub(crate) fn verify(project: &Project, models: &Models) -> Verdict {
    let mut verdict = Verdict::default();
    let settings = &project.settings;
    let input = settings.format.as_ref().map(|format| {
        let known = InputFormat::NAMES.contains(&format.as_str());
        let found = InputFormat::new(format, &merged(&settings.options, &[]));
        (if known { "options" } else { "format" }, found.err())
    });
    if let Some((key, Some(error))) = input {
        verdict.add(project, key, &error.to_string());
    }
    let output = settings.output.as_deref().unwrap_or("-");
    let named = settings.output_format.as_deref();
    let name = format_name(output, named).unwrap_or_else(|message| {
        verdict.add(project, "output", &message);
        named.unwrap_or("json")
    });
    if let Err(error) = OutputFormat::new(name, &merged(&settings.output_options, &[])) {
        let known = OutputFormat::NAMES.contains(&name);
        let key = if known {
            "output_options"
        } else {
            "output_format"
        };
        verdict.add(project, key, &error.to_string());
    }
    verdict.check_named(project);
    verdict.check_places(project, models);
    if let Some(Err(error)) = settings.split.as_ref().map(|path| SplitPath::new(path)) {
        verdict.add(project, "split", &error.to_string());
    }
    if let Some(name) = &settings.timezone
        && timezone(Some(name)).is_err()
    {
        verdict.add(project, "timezone", &format!("unknown time zone {name}"));
    }
    if let Some(count) = settings.workers.filter(|count| *count > WORKER_COUNT_MAX) {
        let message = format!("{count} workers are more than {WORKER_COUNT_MAX}");
        verdict.add(project, "workers", &message);
    }
    let rotates = settings.rotate_size.is_some() || settings.rotate_every.is_some();
    let named = settings.outputs.iter().map(|named| &named.target);
    let mut outputs = settings.output.iter().chain(&settings.reject).chain(named);
    let has_file = outputs.any(|text| is_path(text));
    if rotates && !has_file {
        let key = match settings.rotate_size {
            Some(_) => "rotate_size",
            None => "rotate_every",
        };
        let message = format!(
            "output {} cannot be rotated; only a file can be",
            shown(output)
        );
        verdict.add(project, key, &message);
    }
    if settings.rotate_keep.is_some() && !rotates {
        let message = "rotate_keep needs rotate_size or rotate_every";
        verdict.add(project, "rotate_keep", message);
    }
    verdict.connect(project);
    for text in settings.input.iter().filter(|text| is_path(text)) {
        let path = project.resolve(text);
        if !Path::new(&path).exists() {
            verdict.add(project, "input", &format!("input {path} does not exist"));
        }
    }
    verdict.choose(project, models);
    verdict
}

impl Verdict {
    fn add(&mut self, project: &Project, key: &str, message: &str) {
        let config = &project.config;
        let line = config.section_line(&format!("{ENRICH}.{key}"));
        let line = line.or_else(|| config.section_line(ENRICH)).unwrap_or(1);
        let file = config.file.display();
        self.problems.push(format!("{file}:{line}: {message}"));
    }

    fn add_failure(&mut self, project: &Project, key: &str, failure: &Failure) {
        self.add(project, key, &shown_line(failure));
    }

    /// Adds each named output to a flow, as a run does.
    fn check_named(&mut self, project: &Project) {
        let json = |error| Failure::from_error(&error);
        let none = FormatOptions::new();
        let formats = InputFormat::new("json", &none).map_err(json);
        let formats =
            formats.and_then(|input| Ok((input, OutputFormat::new("json", &none).map_err(json)?)));
        let Ok((input, output)) = formats else { return };
        let mut flow = Flow::new(input, output);
        let mut outputs = Vec::new();
        for settings in &project.settings.outputs {
            let named = NamedOutput::of_settings(settings, project);
            match named.and_then(|named| Ok((named.add_to(flow.clone())?, named))) {
                Ok((added, named)) => {
                    flow = added;
                    outputs.push(named);
                }
                Err(failure) => self.add_failure(project, &settings.key, &failure),
            }
        }
        // Its name may be that of an output with another fault.
        if outputs.len() == project.settings.outputs.len()
            && let Err(failure) =
                named::unmatched(project, &outputs, project.settings.rule_key.is_some())
        {
            self.problems.push(shown_line(&failure));
        }
        self.routes = named::conditions(&project.settings);
        if let Some((key, message)) = named::unreachable(&project.settings.outputs) {
            self.add(project, &key, &message);
        }
    }

    /// Checks that the outputs can be written to; their names and URLs are checked elsewhere.
    fn check_places(&mut self, project: &Project, models: &Models) {
        let settings = &project.settings;
        let inputs = settings.input.iter().map(|text| project.resolve(text));
        let inputs: Vec<_> = inputs.collect();
        let named = settings.outputs.iter();
        let named = named.map(|named| (named.key.clone(), &named.target));
        let default = settings
            .output
            .iter()
            .map(|text| ("output".to_owned(), text));
        let reject = settings
            .reject
            .iter()
            .map(|text| ("reject".to_owned(), text));
        let outputs = default.chain(named).chain(reject);
        let outputs: Vec<_> = outputs
            .filter(|(_, text)| connectors::url(text).is_ok() && Sink::check_name(text).is_ok())
            .map(|(key, text)| (key, project.resolve(text)))
            .collect();
        let Ok(mut places) = Places::of_inputs(&inputs) else {
            return;
        };
        let made_of = models.iter().map(|model| model.file_name().into());
        let files: Vec<PathBuf> = made_of.chain(project.config.watched_files()).collect();
        for (key, output) in &outputs {
            let checked = places
                .add(output)
                .and_then(|()| refuse_to_replace([output], files.iter().cloned()));
            if let Err(failure) = checked {
                self.add_failure(project, key, &failure);
            }
        }
    }

    /// Connects to the brokers of the input and the outputs.
    fn connect(&mut self, project: &Project) {
        let settings = &project.settings;
        type Check = fn(&ConnectUrl) -> Result<String, Failure>;
        let inputs = settings.input.iter();
        let inputs = inputs.map(|text| {
            let check = connectors::check_source as Check;
            ("input".to_owned(), text, check)
        });
        let sinks = [("output", &settings.output), ("reject", &settings.reject)];
        let sinks = sinks
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), text.as_ref()?)));
        let named = settings.outputs.iter();
        let named = named.map(|named| (named.key.clone(), &named.target));
        let sinks = sinks
            .chain(named)
            .map(|(key, text)| (key, text, connectors::check_sink as Check));
        for (key, text, check) in inputs.chain(sinks) {
            if !ConnectUrl::is_one(text) {
                continue;
            }
            let url = text.parse().map_err(|error| Failure::of_connector(&error));
            match url.and_then(|url| check(&url)) {
                Ok(found) => self.connectors.push(format!("{key}: {found}")),
                Err(failure) => self.add_failure(project, &key, &failure),
            }
        }
    }

    fn choose(&mut self, project: &Project, models: &Models) {
        let settings = &project.settings;
        let named = settings.models.first();
        let (key, rule) = match (&settings.rule_key, named, &settings.rule) {
            (Some(_), None, _) => ("rule_key", String::new()),
            (_, Some(_), _) => ("model", String::new()),
            (None, None, Some(rule)) => ("rule", rule.clone()),
            (None, None, None) => match (format_of(settings), settings.input.first()) {
                (Some(format), Some(input)) => ("input", default_key(format, input)),
                // Flags are needed to choose the model.
                _ => return,
            },
        };
        let chosen = match (&settings.rule_key, named) {
            (Some(_), _) => models.choose(Wanted::Each(&settings.models)),
            (None, Some(name)) => models.choose(Wanted::Name(name)),
            (None, None) => models.choose(Wanted::Key(&rule)),
        };
        match (chosen, &settings.rule_key) {
            (Err(failure), _) => self.add(project, key, failure.message()),
            (Ok(chosen), Some(field)) => {
                let names: Vec<&str> = chosen.iter().map(|model| model.name().as_str()).collect();
                let names = names.join(", ");
                self.choice = Some(format!(
                    "models: {field} of each event selects one of {names}"
                ));
            }
            (Ok(chosen), None) => {
                let why = match named {
                    Some(_) => "by its name".to_owned(),
                    None => format!("for {rule}"),
                };
                self.choice = chosen.first().map(|model| {
                    let file = Path::new(model.file_name());
                    let file = file.strip_prefix(project.models_folder()).unwrap_or(file);
                    format!("models: {} runs {why}", file.display())
                });
            }
        }
    }
}

/// A failure and its hint as one line.
fn shown_line(failure: &Failure) -> String {
    let help = failure.help().map(|help| format!("; {help}"));
    format!("{}{}", failure.line(), help.unwrap_or_default())
}

/// The format of an output: the one that is set, or that of its name.
fn format_name<'a>(output: &str, set: Option<&'a str>) -> Result<&'a str, String> {
    match set {
        Some(name) => Ok(name),
        None => format_of_name(output).map_err(|failure| failure.message().to_owned()),
    }
}

/// The format of the input; messages are JSON by default.
fn format_of(settings: &EnrichSettings) -> Option<&str> {
    let mut inputs = settings.input.iter();
    let has_messages = inputs.any(|input| ConnectUrl::is_one(input));
    let default = has_messages.then_some("json");
    settings.format.as_deref().or(default)
}
