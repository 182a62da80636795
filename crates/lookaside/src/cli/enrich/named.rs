//! The outputs of a run beside the default one.

use lookaside_stream::{Flow, OutputFormat};

use super::EnrichArguments;
use super::connectors;
use super::formats::{format_failure, format_of_name, merged};
use crate::config::NamedOutputSettings;
use crate::failure::{Exit, Failure};
use crate::project::Project;

/// An output that records are written to whose model names it.
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
        |settings: &NamedOutputSettings| flags.iter().any(|(name, _)| *name == settings.name);
    let settings = project.settings.named_outputs.iter();
    let settings = settings.filter(|settings| !is_replaced(settings));
    settings
        .map(|settings| NamedOutput::of_settings(settings, project))
        .chain(flags.iter().map(NamedOutput::of_flag))
        .collect()
}

impl NamedOutput {
    pub(super) fn of_settings(
        settings: &NamedOutputSettings,
        project: &Project,
    ) -> Result<Self, Failure> {
        let NamedOutputSettings {
            name,
            output,
            format,
            options,
        } = settings;
        let format = match format {
            Some(format) => format,
            None => format_of_name(output).map_err(|failure| advise(failure, name, output))?,
        };
        let options = merged(options, &[]).advised_as("");
        let format =
            OutputFormat::new(format, &options).map_err(|error| format_failure(&error, false))?;
        let target = project.resolve(output);
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
        "set it in [enrich.named_outputs] of knowdb.toml: {name} = {{ output = {target:?}, {format} }}"
    ))
}

/// Adds the outputs to a flow.
pub(super) fn add_to(flow: Flow, outputs: &[NamedOutput]) -> Result<Flow, Failure> {
    let mut outputs = outputs.iter();
    outputs.try_fold(flow, |flow, output| output.add_to(flow))
}

/// What was written to each output, for the summary.
pub(super) fn counted(outputs: &[NamedOutput], counts: &[u64]) -> Vec<(String, u64)> {
    let names = outputs.iter().map(|output| output.name.clone());
    names.zip(counts.iter().copied()).collect()
}
