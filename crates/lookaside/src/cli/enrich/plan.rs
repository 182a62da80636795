//! The settings of a run: from flags first, then from the project's `[enrich]` section, then
//! defaults.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use lookaside_connect::ConnectUrl;
use lookaside_knowledge::Contract;
use lookaside_oml::Options;
use lookaside_stream::{
    Checkpoint, Extent, FieldType, Flow, InputFormat, Mark, OutputFormat, Rotation, Sink, Source,
    SplitPath, StopFlag, Strictness, TcpOptions, worker_count,
};
use lookaside_value::{NameTable, OnLookupFailure};
use tracing::warn;

use super::EnrichArguments;
use super::connectors::{self, Input};
use super::formats::{format_failure, format_of_name, merged};
use super::named::{self, NamedOutput, named_outputs};
use super::places::Places;
use crate::cli::output::{check_stdin, check_stdout};
use crate::config::DRAIN_TIMEOUT;
use crate::failure::Failure;
use crate::models::Wanted;
use crate::models::options::timezone;
use crate::models::routes::{Routes, Unmatched};
use crate::project::{LoadOptions, Project, is_url};
use crate::webhook::{self, WebhookOptions};

/// A larger thread count is taken for a typing error.
pub(super) const WORKER_COUNT_MAX: usize = 1024;

/// Everything about a run that is known before a table is loaded.
#[derive(Debug)]
pub(super) struct EnrichPlan {
    input: Vec<String>,
    /// The input, if it is one of HTTP.
    webhook: Option<WebhookOptions>,
    follow: bool,
    checkpoint: Option<PathBuf>,
    tcp: TcpOptions,
    rotation: RotationChoice,
    input_format: InputFormat,
    output_format: OutputFormat,
    choice: Choice,
    pub(super) timezone: TimeZone,
    output: String,
    pub(super) named: Vec<NamedOutput>,
    /// What happens to events for which no output has a condition that holds, and to those without a
    /// model; `None` if there can be neither.
    pub(super) unmatched: Option<Unmatched>,
    reject: Option<String>,
    /// Whose elements become events.
    pub(super) split: Option<SplitPath>,
    pub(super) strictness: Strictness,
    pub(super) worker_count: usize,
    pub(super) event_limit: Option<NonZero<u64>>,
    pub(super) load: LoadOptions,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) is_quiet: bool,
    /// How long the run may take to end after the first signal.
    pub(super) drain_timeout: Duration,
    /// What answers of providers have to include.
    pub(super) contract: Contract,
    /// What happens to an event whose lookup fails, unless the model sets it.
    pub(super) on_lookup_failure: OnLookupFailure,
}

/// Whether output files are rotated.
#[derive(Clone, Copy, Debug)]
enum RotationChoice {
    None,
    /// By a setting of the project, which does not apply to other outputs than files that are appended
    /// to.
    IfPossible(Rotation),
    /// By a flag, which is an error if no output can be rotated.
    Required(Rotation),
}

#[derive(Debug)]
enum Choice {
    Model(String),
    Key(String),
    /// The field whose value selects the model of each event, and the names of the models, if they
    /// are named.
    Each(String, Vec<String>),
}

impl EnrichPlan {
    pub(super) fn new(arguments: &EnrichArguments, project: &Project) -> Result<Self, Failure> {
        let settings = &project.settings;
        let input = input(arguments, project)?;
        let connector = connectors::url(&input[0])?;
        let webhook = connector.as_ref().filter(|url| WebhookOptions::is_of(url));
        let webhook = webhook.map(WebhookOptions::new).transpose()?;
        let json = "json".to_owned();
        let format = arguments.format.as_ref().or(settings.format.as_ref());
        let format = format.or(connector.is_some().then_some(&json));
        let format = format.ok_or_else(|| {
            Failure::usage("the format of the input is not specified")
                .with_help("name the format with --format, or as `format` in the [enrich] section")
        })?;
        // Options belong to a format: those of the file do not apply to another format.
        let options = match &arguments.format {
            Some(other) if Some(other) != settings.format.as_ref() => &[][..],
            _ => &settings.options,
        };
        let is_flag = arguments.format.is_some() || !arguments.option.is_empty();
        let format_options = merged(options, &arguments.option).advised_as("--option ");
        let timezone = timezone(arguments.timezone.as_ref().or(settings.timezone.as_ref()))?;
        let input_format = InputFormat::new(format, &format_options)
            .map_err(|error| format_failure(&error, is_flag))?
            .with_types(types(arguments, project), &timezone);
        let output = given(arguments.output.as_ref(), settings.output.as_ref(), project)
            .unwrap_or_else(|| "-".to_owned());
        let reject = given(arguments.reject.as_ref(), settings.reject.as_ref(), project);
        let named = named_outputs(arguments, project)?;
        let choice = choice(arguments, project, format, &input[0]);
        let has_keys = matches!(choice, Choice::Each(..));
        let unmatched = named::unmatched(project, &named, has_keys)?;
        if let Some((key, message)) = named::unreachable(&settings.outputs) {
            return Err(named::at_key(project, &key, &message));
        }
        let output_format = output_format(arguments, project, &output)?;
        connectors::check_table(&output, &output_format)?;
        reject
            .as_ref()
            .map_or(Ok(()), |reject| connectors::refuse_table(reject))?;
        let worker_count = match arguments.workers.map(NonZero::get).or(settings.workers) {
            Some(count) if count > WORKER_COUNT_MAX => {
                let message = format!("{count} workers are more than {WORKER_COUNT_MAX}");
                return Err(Failure::usage(message));
            }
            Some(count) => count,
            None => worker_count(),
        };
        let is_strict = arguments.strict || settings.strict;
        check_exactly_once(arguments, &input, &output)?;
        let checkpoint = checkpoint(arguments, &input)?;
        let plan = Self {
            choice,
            follow: arguments.follow,
            checkpoint,
            tcp: tcp_options(arguments, project),
            rotation: rotation(arguments, project)?,
            timezone,
            output,
            named,
            unmatched,
            reject,
            split: split(arguments, project)?,
            strictness: if is_strict {
                Strictness::Strict
            } else {
                Strictness::Lenient
            },
            worker_count,
            event_limit: arguments.limit,
            load: LoadOptions {
                watch: arguments.watch || settings.watch,
                telemetry: arguments.metrics.is_some(),
            },
            metrics: arguments.metrics,
            is_quiet: arguments.quiet,
            drain_timeout: settings.drain_timeout.unwrap_or(DRAIN_TIMEOUT),
            contract: settings.contract,
            on_lookup_failure: on_lookup_failure(
                arguments,
                project,
                match connector {
                    // An event that is acknowledged without its rows would be lost for good.
                    Some(_) => OnLookupFailure::Wait,
                    None => OnLookupFailure::Emit,
                },
            ),
            input,
            webhook,
            input_format,
            output_format,
        };
        let mut places = Places::of_inputs(&plan.input)?;
        plan.outputs().try_for_each(|output| places.add(output))?;
        plan.flow(NameTable::new())?;
        Ok(plan)
    }

    /// The formats of the run, whose batches start from `names`.
    pub(super) fn flow(&self, names: NameTable) -> Result<Flow, Failure> {
        let input_format = self.input_format.clone();
        let input_format = input_format.on_warning(|warning| warn!("{warning}"));
        let flow = Flow::with_names(names, input_format, self.output_format.clone());
        named::add_to(flow, &self.named)
    }

    /// The conditions of the outputs, or none if there are only events without a model to be
    /// assigned. Before a model is bound.
    pub(super) fn bind_routes(
        &self,
        project: &Project,
        names: &mut NameTable,
        options: &Options,
    ) -> Option<Arc<Routes>> {
        let unmatched = self.unmatched.clone()?;
        let outputs = project.settings.outputs.iter();
        let routes = outputs.filter_map(|output| Some((&*output.name, output.when.as_ref()?)));
        Some(Arc::new(Routes::bind(routes, unmatched, names, options)))
    }

    /// The models to run.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        match &self.choice {
            Choice::Model(name) => Wanted::Name(name),
            Choice::Key(key) => Wanted::Key(key),
            Choice::Each(_, names) => Wanted::Each(names),
        }
    }

    /// The field whose value selects the model of each event, if there can be several models.
    pub(super) fn rule_key(&self) -> Option<&str> {
        match &self.choice {
            Choice::Each(key, _) => Some(key),
            Choice::Model(_) | Choice::Key(_) => None,
        }
    }

    /// Whether clients wait for answers, so that only a signal or a limit is a normal end.
    pub(super) fn is_service(&self) -> bool {
        self.webhook.is_some()
    }

    /// All outputs, also that of the rejects.
    pub(super) fn outputs(&self) -> impl Iterator<Item = &String> {
        let named = self.named.iter().map(|named| &named.target);
        std::iter::once(&self.output)
            .chain(named)
            .chain(&self.reject)
    }

    pub(super) fn open_checkpoint(&self) -> Result<Option<Checkpoint>, Failure> {
        let (Some(path), Some(followed)) = (&self.checkpoint, self.input.last()) else {
            return Ok(None);
        };
        Checkpoint::open(path, followed.as_ref())
            .map(Some)
            .map_err(|error| Failure::from_error(&error))
    }

    /// Opens the inputs, a followed one at the mark of an earlier run, if any, and the output. `stop`
    /// is raised when the run is to end.
    pub(super) fn open(
        &self,
        mark: Option<Mark>,
        stop: &StopFlag,
    ) -> Result<(Input, Sink), Failure> {
        if let Some(options) = &self.webhook {
            // The output first: requests are received when everything else is ready.
            let sink = self.open_output(&self.output, Extent::Endless)?;
            let is_json = self.input_format.name() == "json";
            let opened = webhook::open(options, is_json, stop.clone())?;
            return Ok((Input::of_webhook(options.name(), opened), sink));
        }
        let urls = (
            connectors::url(&self.input[0])?,
            connectors::url(&self.output)?,
        );
        if let (Some(input), Some(output)) = urls {
            return connectors::open_pair(&input, &output);
        }
        if let (Some(path), (_, Some(output))) = (self.followed(), urls) {
            // The sink may know where the file is continued.
            let (sink, stored) = connectors::open_sink_of_followed(&output, path.as_ref())?;
            return Ok((self.open_source(stored.or(mark))?, sink));
        }
        let input = self.open_source(mark)?;
        let sink = self.open_output(&self.output, input.source.extent())?;
        Ok((input, sink))
    }

    /// The followed file.
    fn followed(&self) -> Option<&String> {
        self.input.last().filter(|_| self.follow)
    }

    fn open_source(&self, mark: Option<Mark>) -> Result<Input, Failure> {
        if let Some(url) = connectors::url(&self.input[0])? {
            return connectors::open_source(&url);
        }
        let cannot = |error| Failure::from_error(&error);
        let followed = self.followed();
        let plain = &self.input[..self.input.len() - usize::from(followed.is_some())];
        if plain.iter().any(|text| text == "-") {
            check_stdin()?;
        }
        let source = Source::open(plain).map_err(cannot)?;
        match followed {
            Some(path) => source.with_followed_from(path, mark).map_err(cannot),
            None => Ok(source),
        }
        .map(Input::from)
    }

    fn open_output(&self, text: &str, extent: Extent) -> Result<Sink, Failure> {
        if let Some(url) = connectors::url(text)? {
            return connectors::open_sink(&url);
        }
        if text == "-" {
            check_stdout()?;
        }
        Sink::open_with(text, extent, self.tcp).map_err(|error| Failure::from_error(&error))
    }

    /// Whether events are written on the terminal that a progress bar would be drawn on.
    pub(super) fn writes_to_terminal(&self) -> bool {
        let mut named = self.named.iter();
        let has_stdout = self.output == "-" || named.any(|named| named.target == "-");
        has_stdout && io::stdout().is_terminal()
    }

    /// Opens the other outputs beside that of the results.
    pub(super) fn open_others(&self, output: Sink, extent: Extent) -> Result<SinksOfRun, Failure> {
        let open = |text: &String| self.open_output(text, extent);
        let named = self.named.iter().map(|named| open(&named.target));
        self.rotate(SinksOfRun {
            output,
            named: named.collect::<Result<_, _>>()?,
            rejects: self.reject.as_ref().map(open).transpose()?,
        })
    }

    /// Sets the rotation of those outputs that can be rotated, of which `output` is the first one.
    fn rotate(&self, sinks: SinksOfRun) -> Result<SinksOfRun, Failure> {
        let is_possible = sinks.iter().any(Sink::is_appended_to);
        let rotation = match self.rotation {
            RotationChoice::None => return Ok(sinks),
            RotationChoice::IfPossible(_) if !is_possible => return Ok(sinks),
            RotationChoice::IfPossible(rotation) | RotationChoice::Required(rotation) => rotation,
        };
        // If there is none, the error is about the output.
        let rotating = |sink: Sink| match sink.is_appended_to() || !is_possible {
            true => sink
                .rotating(rotation)
                .map_err(|error| Failure::from_error(&error)),
            false => Ok(sink),
        };
        Ok(SinksOfRun {
            output: rotating(sinks.output)?,
            named: sinks
                .named
                .into_iter()
                .map(rotating)
                .collect::<Result<_, _>>()?,
            rejects: sinks.rejects.map(rotating).transpose()?,
        })
    }
}

/// The open outputs of a run.
pub(super) struct SinksOfRun {
    pub(super) output: Sink,
    /// In the order of the named outputs.
    pub(super) named: Vec<Sink>,
    pub(super) rejects: Option<Sink>,
}

impl SinksOfRun {
    fn iter(&self) -> impl Iterator<Item = &Sink> {
        std::iter::once(&self.output)
            .chain(&self.named)
            .chain(&self.rejects)
    }
}

/// When output files are rotated.
fn rotation(arguments: &EnrichArguments, project: &Project) -> Result<RotationChoice, Failure> {
    let settings = &project.settings;
    let rotation = Rotation {
        size: arguments.rotate_size.or(settings.rotate_size),
        every: arguments.rotate_every.or(settings.rotate_every),
        keep: arguments.rotate_keep.or(settings.rotate_keep),
    };
    let is_flag = arguments.rotate_size.is_some() || arguments.rotate_every.is_some();
    match rotation {
        Rotation {
            size: None,
            every: None,
            keep: None,
        } => Ok(RotationChoice::None),
        Rotation {
            size: None,
            every: None,
            ..
        } => Err(
            Failure::usage("rotated files are to be kept, but files are not rotated").with_help(
                "add --rotate-size or --rotate-every, or a key of that name to [enrich]",
            ),
        ),
        rotation if is_flag => Ok(RotationChoice::Required(rotation)),
        rotation => Ok(RotationChoice::IfPossible(rotation)),
    }
}

/// Whose elements become events, if it is set.
fn split(arguments: &EnrichArguments, project: &Project) -> Result<Option<SplitPath>, Failure> {
    let path = arguments.split.as_ref().or(project.settings.split.as_ref());
    let path = path.map(|path| SplitPath::new(path)).transpose();
    path.map_err(|error| match arguments.split {
        Some(_) => Failure::usage(error.to_string()),
        None => Failure::from_error(&error),
    })
}

/// The types of fields: a flag replaces the setting of its field.
fn types(arguments: &EnrichArguments, project: &Project) -> Vec<(String, FieldType)> {
    let flags = &arguments.types;
    let mut types = project.settings.types.clone();
    types.retain(|(name, _)| flags.iter().all(|(other, _)| other != name));
    types.extend(flags.iter().cloned());
    types
}

/// Refuses what contradicts an output that stores the position in the followed file.
fn check_exactly_once(
    arguments: &EnrichArguments,
    input: &[String],
    output: &str,
) -> Result<(), Failure> {
    if !arguments.follow || !connectors::is_exactly_once(output)? {
        return Ok(());
    }
    if arguments.checkpoint.is_some() {
        let message = "--checkpoint and delivery=exactly-once both store the position";
        return Err(Failure::usage(message)
            .with_help("omit --checkpoint: the position is stored with the results"));
    }
    if input.len() > 1 {
        let message =
            "delivery=exactly-once requires a single followed file, and there are other inputs";
        return Err(
            Failure::usage(message).with_help("read the others first, in a run without --follow")
        );
    }
    Ok(())
}

/// The file that stores the position in the followed file.
fn checkpoint(arguments: &EnrichArguments, input: &[String]) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = &arguments.checkpoint else {
        return Ok(None);
    };
    if input.len() > 1 {
        let message = "--checkpoint requires a single followed file, and there are other inputs";
        return Err(Failure::usage(message)
            .with_help("read the others first, in a run without --follow and --checkpoint"));
    }
    Ok(Some(path.clone()))
}

/// What happens to an event whose lookup fails; `default` is that of the source.
fn on_lookup_failure(
    arguments: &EnrichArguments,
    project: &Project,
    default: OnLookupFailure,
) -> OnLookupFailure {
    let given = arguments.on_lookup_failure;
    given
        .or(project.settings.on_lookup_failure)
        .unwrap_or(default)
}

fn tcp_options(arguments: &EnrichArguments, project: &Project) -> TcpOptions {
    let settings = &project.settings;
    let default = TcpOptions::default();
    let timeout = arguments
        .reconnect_timeout_ms
        .or(settings.reconnect_timeout_ms);
    TcpOptions {
        replay_bytes: arguments
            .replay_bytes
            .or(settings.replay_bytes)
            .unwrap_or(default.replay_bytes),
        reconnect_timeout: timeout.map_or(default.reconnect_timeout, |timeout| {
            Duration::from_millis(timeout as u64)
        }),
    }
}

/// The value of a flag unchanged, or else the project's setting, relative to its folder.
fn given(flag: Option<&String>, setting: Option<&String>, project: &Project) -> Option<String> {
    flag.cloned()
        .or_else(|| setting.map(|text| project.resolve(text)))
}

fn input(arguments: &EnrichArguments, project: &Project) -> Result<Vec<String>, Failure> {
    let flags: Vec<_> = arguments.input.iter().chain(&arguments.input_url).collect();
    let input: Vec<String> = if flags.is_empty() {
        let named = project.settings.input.iter();
        named.map(|text| project.resolve(text)).collect()
    } else {
        flags.into_iter().cloned().collect()
    };
    if input.len() > 1
        && let Some(text) = input.iter().find(|text| ConnectUrl::is_one(text))
    {
        let is_http = connectors::url(text)?.is_some_and(|url| WebhookOptions::is_of(&url));
        let (what, help) = match is_http {
            true => (
                "an address for HTTP requests",
                "start a run for each address, or read the other inputs in another run",
            ),
            false => (
                "a topic",
                "name several topics in one URL, separated by commas",
            ),
        };
        let message = format!("{what} is the only input of a run, and there are others");
        return Err(Failure::usage(message).with_help(help));
    }
    let Some(last) = input.last() else {
        return Err(Failure::usage("no input is specified").with_help(
            "name files after the folder, `-` for standard input, or `input` in [enrich]",
        ));
    };
    let is_file = last != "-" && !is_url(last);
    if arguments.follow && !is_file {
        return Err(Failure::usage(format!(
            "--follow requires a file, and {} is not one",
            connectors::shown(last)
        )));
    }
    Ok(input)
}

fn output_format(
    arguments: &EnrichArguments,
    project: &Project,
    output: &str,
) -> Result<OutputFormat, Failure> {
    let settings = &project.settings;
    let setting = match (&settings.output_format, &arguments.output_format) {
        (Some(setting), _) => setting.as_str(),
        (None, Some(_)) => "json",
        (None, None) => format_of_name(output)?,
    };
    let name = arguments.output_format.as_deref().unwrap_or(setting);
    let options = if name == setting {
        settings.output_options.as_slice()
    } else {
        &[]
    };
    let is_flag = arguments.output_format.is_some() || !arguments.output_option.is_empty();
    OutputFormat::new(name, &merged(options, &arguments.output_option))
        .map_err(|error| format_failure(&error, is_flag))
}

fn choice(arguments: &EnrichArguments, project: &Project, format: &str, input: &str) -> Choice {
    let settings = &project.settings;
    match (&arguments.model, &arguments.rule) {
        (Some(name), _) => return Choice::Model(name.clone()),
        (None, Some(key)) => return Choice::Key(key.clone()),
        (None, None) => {}
    }
    if let Some(key) = arguments.rule_key.as_ref().or(settings.rule_key.as_ref()) {
        return Choice::Each(key.clone(), settings.models.clone());
    }
    match (settings.models.first(), &settings.rule) {
        (Some(name), _) => Choice::Model(name.clone()),
        (None, Some(key)) => Choice::Key(key.clone()),
        (None, None) => Choice::Key(default_key(format, input)),
    }
}

/// The default key of an input.
pub(super) fn default_key(format: &str, input: &str) -> String {
    format!("/{format}/{}", stem(input))
}

/// A file's name up to its first dot: `access` for `logs/access.log.1.gz`.
fn stem(input: &str) -> String {
    if input == "-" {
        return "stdin".to_owned();
    }
    if let Some((scheme @ ("tcp" | "udp"), _)) = input.split_once("://") {
        return scheme.to_owned();
    }
    if let Ok(Some(url)) = connectors::url(input) {
        // The first topic; its name may contain dots.
        return url.paths().first().cloned().unwrap_or_default();
    }
    let name = Path::new(input)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    // A hidden file's first dot is part of its name.
    let dot = name.char_indices().skip(1).find(|(_, char)| *char == '.');
    name[..dot.map_or(name.len(), |(at, _)| at)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_name_what_a_file_is_about() {
        for (input, expected) in [
            ("-", "stdin"),
            ("tcp://127.0.0.1:1", "tcp"),
            ("udp://127.0.0.1:1", "udp"),
            ("logs/access.log.1.gz", "access"),
            ("access", "access"),
            ("./.hidden.log", ".hidden"),
            ("..", ""),
            ("é.log", "é"),
            ("kafka://a:1,b:2/shop.clicks,views?group=g", "shop.clicks"),
        ] {
            assert_eq!(stem(input), expected, "{input}");
        }
    }
}
