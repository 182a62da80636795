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
    first_failure: OnceLock<LookupFailure>,
}

impl LookupsSeen {
    pub(super) fn new(model: Arc<BoundModel>, counts: Arc<LookupCounts>, index: usize) -> Self {
        Self {
            model,
            counts,
            index,
            first_failure: OnceLock::new(),
        }
    }

    /// The line of the first event whose lookup failed, and the problem. The place in the model is
    /// part of the cause, since it names a file.
    pub(super) fn first_failure(&self) -> Option<(u64, Problem)> {
        let failure = self.first_failure.get()?;
        let cause = format!("{}: {}", self.place(failure), chain(&failure.error));
        let problem = Problem::of_lookup_error(&failure.error).cause(cause);
        Some((failure.line, problem))
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
        let failed = report.lookup_failed_count;
        let absent = report.lookup_absent_count;
        let found = report.lookup_count.saturating_sub(absent + failed);
        self.counts.add_many(self.index, found, absent);
        if failed == 0 {
            return;
        }
        self.counts.add_failed(self.index, failed);
        let first = report.failures().iter().min_by_key(|failure| failure.line);
        if let Some(failure) = first
            && self.first_failure.set(failure.clone()).is_ok()
        {
            self.tell(failure);
            if let Some((line, problem)) = self.first_failure() {
                self.counts
                    .set_last_failure(at_line(line, &problem.line(true)));
            }
        }
    }
}
