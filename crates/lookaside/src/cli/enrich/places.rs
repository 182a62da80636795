//! Where results may be written.

use std::fs;
use std::path::PathBuf;

use lookaside_connect::ConnectUrl;
use lookaside_stream::Sink;

use super::connectors::{self, refuse_same_topic};
use crate::failure::Failure;
use crate::project::is_path;

/// The places of a run that are known so far.
pub(super) struct Places<'a> {
    inputs: Vec<&'a str>,
    /// The input, if it is a topic.
    topic: Option<ConnectUrl>,
    outputs: Vec<&'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of_inputs(inputs: &'a [String]) -> Result<Self, Failure> {
        let topic = inputs.first().map(|text| connectors::url(text));
        let files = inputs.iter().filter(|text| is_path(text));
        Ok(Self {
            inputs: files.map(String::as_str).collect(),
            topic: topic.transpose()?.flatten(),
            outputs: Vec::new(),
        })
    }

    /// Adds an output, before it is opened; refuses one that cannot be written to, and one that is
    /// also an input or another output.
    pub(super) fn add(&mut self, output: &'a str) -> Result<(), Failure> {
        if let Some(url) = connectors::url(output)? {
            return match &self.topic {
                Some(topic) => refuse_same_topic(topic, &url),
                None => Ok(()),
            };
        }
        Sink::check_place(output, &self.inputs, &self.outputs)
            .map_err(|error| Failure::from_error(&error))?;
        if is_path(output) {
            self.outputs.push(output);
        }
        Ok(())
    }
}

/// Refuses outputs that are files of the project: a typing error must not overwrite a table.
pub(super) fn refuse_to_replace<'a>(
    outputs: impl IntoIterator<Item = &'a String>,
    files: impl IntoIterator<Item = PathBuf>,
) -> Result<(), Failure> {
    // Only existing files can be replaced.
    let outputs: Vec<_> = outputs
        .into_iter()
        .filter_map(|name| Some((name, fs::canonicalize(name).ok()?)))
        .collect();
    for file in files {
        let Ok(path) = fs::canonicalize(file) else {
            continue;
        };
        if let Some((name, _)) = outputs.iter().find(|(_, output)| *output == path) {
            let message = format!("output {name} is a file of the project");
            return Err(Failure::new(message).with_help("write to another file"));
        }
    }
    Ok(())
}
