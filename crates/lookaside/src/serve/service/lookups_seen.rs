//! Counts and logs the results of one event stream's lookups while it runs.

use std::sync::{Arc, OnceLock};

use lookaside_oml::{LookupFailure, RunReport};
use lookaside_value::LookupErrorKind;
use tracing::warn;

use super::super::counts::LookupCounts;
use super::super::models::BoundModel;
use super::super::problem::{Problem, chain};
use crate::models::transform::Observer;

pub(super) fn at_line(line: u64, reason: &str) -> String {
    format!("line {line}: {reason}")
}

/// The lookups of one stream.
pub(super) struct LookupsSeen {
    model: Arc<BoundModel>,
    /// The counts of the model, over all its streams.
    counts: Arc<LookupCounts>,
    /// The I/O thread that received the request.
    index: usize,
    /// The first that left its targets absent.
    first_failure: OnceLock<LookupFailure>,
    /// The first, including those that rejected their events.
    first: OnceLock<LookupFailure>,
    /// Whether clients see the causes of failures.
    error_detail: bool,
}

impl LookupsSeen {
    pub(super) fn new(
        model: Arc<BoundModel>,
        counts: Arc<LookupCounts>,
        index: usize,
        error_detail: bool,
    ) -> Self {
        Self {
            model,
            counts,
            index,
            first_failure: OnceLock::new(),
            first: OnceLock::new(),
            error_detail,
        }
    }

    /// The line of the first event that was written although its lookup failed, and the problem.
    pub(super) fn first_failure(&self) -> Option<(u64, Problem)> {
        let failure = self.first_failure.get()?;
        Some((failure.line, self.problem(failure)))
    }

    /// The line of the first event whose lookup failed, and the problem.
    pub(super) fn first(&self) -> Option<(u64, Problem)> {
        let failure = self.first.get()?;
        Some((failure.line, self.problem(failure)))
    }

    /// The place in the model is part of the cause, since it names a file.
    fn problem(&self, failure: &LookupFailure) -> Problem {
        let cause = format!("{}: {}", self.place(failure), chain(&failure.error));
        Problem::of_lookup_error(&failure.error).cause(cause)
    }

    fn place(&self, failure: &LookupFailure) -> String {
        let (line, column) = failure.position;
        format!("{}:{line}:{column}", self.model.file_name)
    }

    /// Logs the first failure of a stream. Failures of an unavailable provider are logged at a limited
    /// rate.
    fn tell(&self, failure: &LookupFailure) {
        if failure.error.kind() != LookupErrorKind::Unavailable || self.counts.is_log_due(true) {
            let (model, place) = (&self.model.name, self.place(failure));
            let error = chain(&failure.error);
            warn!(model, place, event = failure.line, error, "a lookup failed");
        }
    }
}

impl Observer for LookupsSeen {
    fn observe(&self, report: &RunReport) {
        let rejected = report.rejected();
        let failed = report.lookup_failed_count + rejected.len() as u64;
        let absent = report.lookup_absent_count;
        let found = report.lookup_count.saturating_sub(absent + failed);
        self.counts.add_many(self.index, found, absent);
        if failed == 0 {
            return;
        }
        self.counts.add_failed(self.index, failed);
        let failures = report.failures().iter();
        if let Some(failure) = failures.clone().min_by_key(|failure| failure.line) {
            // A later batch has no earlier one.
            let _ = self.first_failure.set(failure.clone());
        }
        let first = failures.chain(rejected).min_by_key(|failure| failure.line);
        if let Some(failure) = first
            && self.first.set(failure.clone()).is_ok()
        {
            self.tell(failure);
            let reason = at_line(failure.line, &self.problem(failure).line(true));
            self.counts.set_last_failure(reason);
        }
    }

    fn reason(&self, failure: &LookupFailure, _: &str) -> String {
        self.problem(failure).line(self.error_detail).into_owned()
    }
}
