//! Reports of running a program.

use lookaside_value::LookupError;

/// The number of failures that are kept with their errors; further ones are only counted.
pub const FAILURE_KEPT_MAX: usize = 5;

/// Counters over any number of batches, the first failed lookups with their errors, and all that
/// reject their records.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// Records that were evaluated.
    pub record_count: u64,
    /// Records that `drop` removed, and that no lookup has rejected.
    pub dropped_count: u64,
    /// Lookups of statements, one per record.
    pub lookup_count: u64,
    /// Parameter sets that were queried for them; records of a batch share equal sets.
    pub lookup_asked_count: u64,
    /// Lookups without a row, including those that were not queried because they had no input.
    pub lookup_absent_count: u64,
    /// Lookups that failed and leave their targets absent; without those in [`Self::rejected`].
    pub lookup_failed_count: u64,
    /// Values that `Time::parse` could not read, and those of other types that `Time::format`,
    /// `Time::truncate` and `Time::since` got; without absent, null and ignored ones and empty text.
    pub time_failure_count: u64,
    failures: Vec<LookupFailure>,
    rejected: Vec<LookupFailure>,
}

/// A lookup that failed, and for which record.
#[derive(Clone, Debug)]
pub struct LookupFailure {
    /// The line of the record, 0 if it has none.
    pub line: u64,
    /// Line and column of the statement in its model.
    pub position: (usize, usize),
    /// Why it failed.
    pub error: LookupError,
}

impl RunReport {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// The failures of the earliest lines, at most [`FAILURE_KEPT_MAX`].
    pub fn failures(&self) -> &[LookupFailure] {
        &self.failures
    }

    /// The failed lookups whose records must not be used, as
    /// [`OnLookupFailure`](lookaside_value::OnLookupFailure) says, in any order. A record can have
    /// several of them.
    pub fn rejected(&self) -> &[LookupFailure] {
        &self.rejected
    }

    pub(crate) fn fail(&mut self, line: u64, position: (usize, usize), error: &LookupError) {
        self.lookup_failed_count += 1;
        if self.failures.len() < FAILURE_KEPT_MAX {
            let error = error.clone();
            self.failures.push(LookupFailure {
                line,
                position,
                error,
            });
        }
    }

    /// All are kept, since each record has to be removed.
    pub(crate) fn reject(&mut self, line: u64, position: (usize, usize), error: &LookupError) {
        self.rejected.push(LookupFailure {
            line,
            position,
            error: error.clone(),
        });
    }

    /// Whether a lookup has rejected the records of this line.
    pub(crate) fn has_rejected(&self, line: u64) -> bool {
        self.rejected.iter().any(|failure| failure.line == line)
    }

    /// Adds the report of another worker.
    pub fn merge(&mut self, other: Self) {
        self.record_count += other.record_count;
        self.dropped_count += other.dropped_count;
        self.lookup_count += other.lookup_count;
        self.lookup_asked_count += other.lookup_asked_count;
        self.lookup_absent_count += other.lookup_absent_count;
        self.lookup_failed_count += other.lookup_failed_count;
        self.time_failure_count += other.time_failure_count;
        self.rejected.extend(other.rejected);
        self.failures.extend(other.failures);
        self.failures
            .sort_by_key(|failure| (failure.line, failure.position));
        self.failures.truncate(FAILURE_KEPT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use lookaside_value::LookupErrorKind;

    use super::*;

    #[test]
    fn the_earliest_failures_stay() {
        let error = LookupError::new(LookupErrorKind::Unavailable, "gone");
        let report = |lines: [u64; 4]| {
            let mut report = RunReport::new();
            for line in lines {
                report.fail(line, (3, 1), &error);
            }
            report.record_count = 4;
            report
        };
        let mut all = report([2, 4, 6, 8]);
        all.merge(report([1, 3, 5, 7]));
        let lines: Vec<u64> = all.failures().iter().map(|failure| failure.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        assert_eq!((all.lookup_failed_count, all.record_count), (8, 8));
    }
}
