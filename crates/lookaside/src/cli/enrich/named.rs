//! The outputs of a run beside the default one.

use lookaside_stream::{Flow, OutputFormat};

use super::EnrichArguments;
use super::connectors;
use super::formats::{format_failure, format_of_name, merged};
use crate::config::{ENRICH, EnrichSettings, OutputSettings};
use crate::failure::{Exit, Failure};
use crate::models::routes::Unmatched;
use crate::project::Project;
use crate::suggestion::did_you_mean;

/// The output of events that no other output is chosen for.
const DEFAULT: &str = "default";

/// The name in place of an output for events that are not written.
const NONE: &str = "none";

/// An output that records are written to whose model names it, or for which its condition holds.
#[derive(Debug)]
pub(super) struct NamedOutput {
    name: String,
    /// A file, a connection, a topic or a table.
    pub(super) target: String,
    format: OutputFormat,
    origin: Origin,
}

/// Where an output is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Settings,
    Flag,
}

/// The outputs of the project, with those of the flags in place of outputs with the same name.
pub(super) fn named_outputs(
    arguments: &EnrichArguments,
    project: &Project,
) -> Result<Vec<NamedOutput>, Failure> {
    let flags = &arguments.named_output;
    let is_replaced =
        |settings: &OutputSettings| flags.iter().any(|(name, _)| *name == settings.name);
    let settings = project.settings.outputs.iter();
    let settings = settings.filter(|settings| !is_replaced(settings));
    settings
        .map(|settings| NamedOutput::of_settings(settings, project))
        .chain(flags.iter().map(NamedOutput::of_flag))
        .collect()
}

impl NamedOutput {
    pub(super) fn of_settings(
        settings: &OutputSettings,
        project: &Project,
    ) -> Result<Self, Failure> {
        let OutputSettings {
            name,
            target,
            format,
            options,
            ..
        } = settings;
        let format = match format {
            Some(format) => format,
            None => format_of_name(target).map_err(|failure| advise(failure, name, target))?,
        };
        let options = merged(options, &[]).advised_as("");
        let format =
            OutputFormat::new(format, &options).map_err(|error| format_failure(&error, false))?;
        let target = project.resolve(target);
        connectors::check_table(&target, &format)?;
        refuse_exactly_once(name, &target)?;
        Ok(Self {
            name: name.clone(),
            target,
            format,
            origin: Origin::Settings,
        })
    }

    fn of_flag((name, target): &(String, String)) -> Result<Self, Failure> {
        let format = format_of_name(target).map_err(|failure| advise(failure, name, target))?;
        let format = OutputFormat::new(format, &merged(&[], &[]).advised_as(""))
            .map_err(|error| format_failure(&error, true))?;
        refuse_exactly_once(name, target)?;
        Ok(Self {
            name: name.clone(),
            target: target.clone(),
            format,
            origin: Origin::Flag,
        })
    }

    /// Adds the output to a flow.
    pub(super) fn add_to(&self, flow: Flow) -> Result<Flow, Failure> {
        let added = flow.with_named_output(&self.name, self.format.clone());
        added.map_err(|error| {
            let failure = Failure::from_error(&error);
            let failure = match self.origin {
                Origin::Settings => failure,
                Origin::Flag => failure.with_exit(Exit::Usage),
            };
            match self.format.is_ready() {
                true => failure,
                false => advise(failure, &self.name, &self.target),
            }
        })
    }
}

/// Refuses to store positions with the results of a named output.
fn refuse_exactly_once(name: &str, target: &str) -> Result<(), Failure> {
    if connectors::is_exactly_once(target)? {
        let message = format!("delivery=exactly-once is not possible for the named output {name}");
        return Err(Failure::usage(message)
            .with_help("set it for the default output, whose results have the positions"));
    }
    Ok(())
}

/// Adds the hint how an output gets a format, or options, which its flag cannot set.
fn advise(failure: Failure, name: &str, target: &str) -> Failure {
    let format = match target.rsplit('.').next() {
        Some("csv") => "options = { columns = [\"a\", \"b\"] }",
        Some("tsv") => {
            "format = \"csv\", options = { delimiter = \"tab\", columns = [\"a\", \"b\"] }"
        }
        _ => "format = \"json\"",
    };
    failure.with_help(format!(
        "add it to [enrich] of knowdb.toml: output = [{{ name = {name:?}, target = {target:?}, \
         {format} }}]"
    ))
}

/// What happens to events that are not assigned, if outputs have conditions or events select their
/// models.
pub(super) fn unmatched(
    project: &Project,
    outputs: &[NamedOutput],
    has_keys: bool,
) -> Result<Option<Unmatched>, Failure> {
    let settings = &project.settings;
    let has_conditions = settings.outputs.iter().any(|output| output.when.is_some());
    let applies = has_conditions || has_keys;
    let Some(text) = &settings.unmatched else {
        return Ok(applies.then_some(Unmatched::Reject));
    };
    // A flag can select one model for all events.
    if !applies && settings.rule_key.is_some() {
        return Ok(None);
    }
    if !applies {
        let message = "`unmatched` has no effect, because no output has `when`, and `rule_key` is \
                       not set";
        return Err(
            at_key(project, "unmatched", message).with_help("remove it, or set one of them")
        );
    }
    let unmatched = Unmatched::of_setting(text);
    if let Unmatched::Output(name) = &unmatched {
        let known = outputs.iter().map(|output| &*output.name);
        let known: Vec<&str> = known.chain([DEFAULT, NONE]).collect();
        if !known.contains(&&**name) {
            let words = known.iter().copied().chain(["pass", "reject"]);
            let hint = did_you_mean(name, words);
            let message = format!("`unmatched` is {name:?}, which is not an output{hint}");
            let help = format!("it is pass, reject, or one of {}", known.join(", "));
            return Err(at_key(project, "unmatched", &message).with_help(help));
        }
    }
    Ok(Some(unmatched))
}

/// Describes the conditions of the outputs in the order in which they are tested, each as a line.
pub(super) fn conditions(settings: &EnrichSettings) -> Vec<String> {
    let outputs = settings.outputs.iter();
    let outputs = outputs.filter_map(|output| Some((&output.name, output.when.as_ref()?)));
    let mut lines: Vec<String> = outputs
        .map(|(name, when)| format!("output {name}: {}", when.text()))
        .collect();
    if !lines.is_empty() || settings.rule_key.is_some() {
        let unmatched = settings.unmatched.as_deref().unwrap_or("reject");
        lines.push(format!("unmatched events: {unmatched}"));
    }
    lines
}

/// A failure at a key of `[enrich]`.
pub(super) fn at_key(project: &Project, key: &str, message: &str) -> Failure {
    let config = &project.config;
    let line = config.section_line(&format!("{ENRICH}.{key}")).unwrap_or(1);
    Failure::new(format!("{}:{line}: {message}", config.file.display()))
}

/// Refuses an output whose events are all selected by an output before it; returns its key, and why
/// it is refused.
pub(super) fn unreachable(outputs: &[OutputSettings]) -> Option<(String, String)> {
    let mut before: Vec<&OutputSettings> = Vec::new();
    for output in outputs.iter().filter(|output| output.when.is_some()) {
        let covers = |it: &&&OutputSettings| match (&it.when, &output.when) {
            (Some(earlier), Some(when)) => earlier.covers(when),
            _ => false,
        };
        if let Some(earlier) = before.iter().find(covers) {
            let message = format!(
                "the output `{}` gets no events, because `{}` before it gets all that its `when` \
                 selects; change their order or their conditions",
                output.name, earlier.name
            );
            return Some((format!("{}.when", output.key), message));
        }
        before.push(output);
    }
    None
}

/// Adds the outputs to a flow.
pub(super) fn add_to(flow: Flow, outputs: &[NamedOutput]) -> Result<Flow, Failure> {
    let mut outputs = outputs.iter();
    outputs.try_fold(flow, |flow, output| output.add_to(flow))
}

/// The names of all outputs, the default one first.
pub(super) fn names(outputs: &[NamedOutput]) -> Vec<String> {
    let named = outputs.iter().map(|output| output.name.clone());
    std::iter::once(DEFAULT.to_owned()).chain(named).collect()
}

/// What was written to each output, for the summary.
pub(super) fn counted(outputs: &[NamedOutput], counts: &[u64]) -> Vec<(String, u64)> {
    let names = outputs.iter().map(|output| output.name.clone());
    names.zip(counts.iter().copied()).collect()
}
