//! The outputs of a run beside the default one.

use lookaside_stream::{Flow, OutputFormat};

use super::EnrichArguments;
use super::connectors;
use super::formats::{format_failure, format_of_name, merged};
use crate::config::NamedOutputSettings;
use crate::failure::Failure;
use crate::project::Project;

/// An output that records are written to whose model names it.
#[derive(Debug)]
pub(super) struct NamedOutput {
    name: String,
    /// A file, a connection, a topic or a table.
    pub(super) target: String,
    pub(super) format: OutputFormat,
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
    let mut outputs = Vec::new();
    for NamedOutputSettings {
        name,
        output,
        format,
        options,
    } in settings
    {
        let target = project.resolve(output);
        let format = match format {
            Some(format) => format,
            None => format_of_name(&target)?,
        };
        let format = OutputFormat::new(format, &merged(options, &[]))
            .map_err(|error| format_failure(&error, false))?;
        outputs.push(NamedOutput {
            name: name.clone(),
            target,
            format,
        });
    }
    for (name, target) in flags {
        let format = OutputFormat::new(format_of_name(target)?, &merged(&[], &[]))
            .map_err(|error| format_failure(&error, true))?;
        outputs.push(NamedOutput {
            name: name.clone(),
            target: target.clone(),
            format,
        });
    }
    for NamedOutput { target, format, .. } in &outputs {
        connectors::check_table(target, format)?;
    }
    Ok(outputs)
}

/// Adds the outputs to a flow.
pub(super) fn add_to(flow: Flow, outputs: &[NamedOutput]) -> Result<Flow, Failure> {
    let mut outputs = outputs.iter();
    outputs
        .try_fold(flow, |flow, NamedOutput { name, format, .. }| {
            flow.with_named_output(name, format.clone())
        })
        .map_err(|error| Failure::from_error(&error))
}

/// What was written to each output, for the summary.
pub(super) fn counted(outputs: &[NamedOutput], counts: &[u64]) -> Vec<(String, u64)> {
    let names = outputs.iter().map(|output| output.name.clone());
    names.zip(counts.iter().copied()).collect()
}
