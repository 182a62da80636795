//! Transforms of records between input and output.

use std::borrow::Cow;
use std::mem;

use lookaside_value::{Batch, Record};

use crate::Rejects;

/// Changes batches of records; each worker has its own.
pub trait Transform: Send {
    /// Changes the records of a batch, drops or adds records, and reports failures. A record that is
    /// added has the line of the record that it comes from: that one is acknowledged when all of its
    /// results are delivered.
    fn transform(&mut self, batch: &mut Batch, report: &mut Report);
}

/// Leaves records unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Transform for Identity {
    fn transform(&mut self, _: &mut Batch, _: &mut Report) {}
}

/// Failures that concern a record and do not end the run, such as a failed lookup.
#[derive(Debug, Default)]
pub struct Report {
    pub(crate) failures: Rejects,
    /// Lines whose records are rejected, in any order and possibly several times, with the reasons.
    pub(crate) rejected: Vec<(u64, Cow<'static, str>)>,
    /// Records that the transform removed on purpose.
    pub(crate) dropped_count: u64,
    pub(crate) is_abandoned: bool,
}

impl Report {
    /// No failures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a failure for the record of this line; the first five of a run are shown.
    pub fn fail(&mut self, line: u64, reason: impl Into<Cow<'static, str>>) {
        self.failures.push(line, reason, b"");
    }

    /// Rejects the records of this line: they are not written, and the line is among the rejected
    /// ones. Of several reasons, the first is shown.
    pub fn reject(&mut self, line: u64, reason: impl Into<Cow<'static, str>>) {
        self.rejected.push((line, reason.into()));
    }

    /// Counts records that the transform has removed from the batch because they are not wanted.
    pub fn count_dropped(&mut self, count: u64) {
        self.dropped_count += count;
    }

    /// The lines that were rejected so far, with the reasons, in the order of the calls.
    pub fn rejected(&self) -> impl Iterator<Item = (u64, &str)> {
        let rejected = self.rejected.iter();
        rejected.map(|(line, reason)| (*line, &**reason))
    }

    /// Abandons the batch: neither its events nor later ones are written, and the run ends as if it
    /// was stopped. For a transform that is told to end and could only produce incomplete events.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Removes the rejected records from a batch, and returns their lines in ascending order, each
    /// with its first reason.
    pub(crate) fn take_rejected(&mut self, batch: &mut Batch) -> Vec<(u64, Cow<'static, str>)> {
        let mut rejected = mem::take(&mut self.rejected);
        if !rejected.is_empty() {
            // The sort is stable, so that of several reasons for a line the first remains.
            rejected.sort_by_key(|(line, _)| *line);
            rejected.dedup_by_key(|(line, _)| *line);
            let is_rejected = |record: &Record| {
                let found = rejected.binary_search_by_key(&record.line, |(line, _)| *line);
                found.is_ok()
            };
            batch.retain(|record| !is_rejected(record));
        }
        rejected
    }

    /// How many failures were reported.
    pub fn count(&self) -> u64 {
        self.failures.count()
    }
}
