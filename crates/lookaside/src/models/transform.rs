//! A model as the transform of a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_knowledge::{CancelHandle, Session};
use lookaside_oml::{Evaluator, RunReport};
use lookaside_stream::{Report, Transform};
use lookaside_value::Batch;

/// Counts of a model's lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LookupFigures {
    /// One for each lookup statement and event.
    pub(crate) wanted: u64,
    /// Those that were queried; equal ones of a batch are queried once.
    pub(crate) asked: u64,
    /// Those without a row.
    pub(crate) absent: u64,
}

/// The counts of all workers of a run.
///
/// `Relaxed` throughout: the counters synchronize nothing else, and a reader during a run may lag
/// by a batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    wanted: AtomicU64,
    asked: AtomicU64,
    absent: AtomicU64,
}

/// Receives the report of each batch of a run, from any of its workers.
pub(crate) trait Observer: Send + Sync {
    fn observe(&self, report: &RunReport);
}

impl Observer for Tally {
    fn observe(&self, report: &RunReport) {
        self.wanted
            .fetch_add(report.lookup_count, Ordering::Relaxed);
        self.asked
            .fetch_add(report.lookup_asked_count, Ordering::Relaxed);
        self.absent
            .fetch_add(report.lookup_absent_count, Ordering::Relaxed);
    }
}

impl Tally {
    pub(crate) fn figures(&self) -> LookupFigures {
        LookupFigures {
            wanted: self.wanted.load(Ordering::Relaxed),
            asked: self.asked.load(Ordering::Relaxed),
            absent: self.absent.load(Ordering::Relaxed),
        }
    }
}

/// Runs a model over batches; each worker has its own.
pub(crate) struct ModelTransform {
    evaluator: Evaluator,
    session: Session,
    cancel: CancelHandle,
    observer: Arc<dyn Observer>,
    /// The model's file, for messages.
    file_name: Arc<str>,
}

impl ModelTransform {
    pub(crate) fn new(
        evaluator: Evaluator,
        session: Session,
        observer: Arc<dyn Observer>,
        file_name: Arc<str>,
    ) -> Self {
        Self {
            evaluator,
            cancel: session.cancel_handle(),
            session,
            observer,
            file_name,
        }
    }
}

impl Transform for ModelTransform {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let mut run = RunReport::new();
        self.evaluator.run(batch, &mut self.session, &mut run);
        if run.lookup_failed_count > 0 && self.cancel.is_cancelled() {
            // Events whose lookups failed must not be taken for complete ones.
            return report.abandon();
        }
        for failure in run.failures() {
            let (line, column) = failure.position;
            let place = format!("{}:{line}:{column}", self.file_name);
            report.fail(failure.line, format!("{place}: {}", failure.error));
        }
        // Only the first few failures have a text; the others are only counted.
        for _ in run.failures().len() as u64..run.lookup_failed_count {
            report.fail(0, "");
        }
        self.observer.observe(&run);
    }
}
