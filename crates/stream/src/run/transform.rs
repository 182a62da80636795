//! What happens to the records between input and output.

use std::borrow::Cow;

use lookaside_value::Batch;

use crate::Rejects;

/// Changes batches of records; each worker has its own.
pub trait Transform: Send {
    /// Changes the records of a batch, drops some or adds others, and reports what failed.
    fn transform(&mut self, batch: &mut Batch, report: &mut Report);
}

/// Leaves records as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Transform for Identity {
    fn transform(&mut self, _: &mut Batch, _: &mut Report) {}
}

/// Failures that concern a record and leave the run alone, such as a lookup without an answer.
#[derive(Debug, Default)]
pub struct Report {
    pub(crate) failures: Rejects,
    pub(crate) is_abandoned: bool,
}

impl Report {
    /// No failures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a failure for the record of that line; the first five of a run are shown.
    pub fn fail(&mut self, line: u64, reason: impl Into<Cow<'static, str>>) {
        self.failures.push(line, reason, b"");
    }

    /// Gives the batch up: neither its events nor those behind it are written, and the run ends as
    /// one that was stopped. For a transform that is told to end and could only write events that
    /// lack something.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// How many failures were reported.
    pub fn count(&self) -> u64 {
        self.failures.count()
    }
}
