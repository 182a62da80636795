//! A model as the middle of a stream's run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_knowledge::{CancelHandle, Session};
use lookaside_oml::{Evaluator, RunReport};
use lookaside_stream::{Report, Transform};
use lookaside_value::Batch;

/// What the model wanted from the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LookupFigures {
    /// One a lookup statement and event.
    pub(crate) wanted: u64,
    /// Those that were asked; equal ones of a batch are asked once.
    pub(crate) asked: u64,
    /// Those without a row.
    pub(crate) absent: u64,
}

/// What the workers of a run counted together.
///
/// `Relaxed` throughout: sums order nothing, and who reads them during a run may be a batch behind.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    wanted: AtomicU64,
    asked: AtomicU64,
    absent: AtomicU64,
}

/// Is told what each batch of a run came to, by any of its workers.
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
            // Events without what they looked up must not pass for whole ones.
            return report.abandon();
        }
        for failure in run.failures() {
            let (line, column) = failure.position;
            let place = format!("{}:{line}:{column}", self.file_name);
            report.fail(failure.line, format!("{place}: {}", failure.error));
        }
        // Beyond the first few a failure is only counted.
        for _ in run.failures().len() as u64..run.lookup_failed_count {
            report.fail(0, "");
        }
        self.observer.observe(&run);
    }
}
