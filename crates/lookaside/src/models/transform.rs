//! A model as the transform of a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_knowledge::{CancelHandle, Session};
use lookaside_oml::{Evaluator, LookupFailure, RunReport};
use lookaside_stream::{Report, Transform};
use lookaside_value::{Batch, Lookup};

use super::routes::Router;
use super::waiting::{Outages, WaitingLookup};

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

    /// Why a lookup failed, as the summary of the run or a client gets it.
    fn reason(&self, failure: &LookupFailure, file_name: &str) -> String {
        let (line, column) = failure.position;
        format!("{file_name}:{line}:{column}: {}", failure.error)
    }
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
pub(crate) struct ModelTransform<L> {
    evaluator: Evaluator,
    lookup: L,
    cancel: CancelHandle,
    observer: Arc<dyn Observer>,
    /// The model's file, for messages.
    file_name: Arc<str>,
    /// Assigns the events to outputs, if outputs have conditions.
    router: Option<Router>,
}

impl ModelTransform<Session> {
    /// No lookup waits for an unavailable database: with [`OnLookupFailure::Wait`], its event is
    /// rejected.
    ///
    /// [`OnLookupFailure::Wait`]: lookaside_value::OnLookupFailure::Wait
    pub(crate) fn new(
        evaluator: Evaluator,
        session: Session,
        observer: Arc<dyn Observer>,
        file_name: Arc<str>,
    ) -> Self {
        Self {
            evaluator,
            cancel: session.cancel_handle(),
            lookup: session,
            observer,
            file_name,
            router: None,
        }
    }
}

impl ModelTransform<WaitingLookup<Session>> {
    /// Lookups wait where their policy says so.
    pub(crate) fn waiting(
        evaluator: Evaluator,
        session: Session,
        outages: Arc<Outages>,
        observer: Arc<dyn Observer>,
        file_name: Arc<str>,
    ) -> Self {
        let cancel = session.cancel_handle();
        Self {
            evaluator,
            lookup: WaitingLookup::new(session, cancel.clone(), outages),
            cancel,
            observer,
            file_name,
            router: None,
        }
    }
}

impl<L> ModelTransform<L> {
    /// Assigns the events to outputs.
    pub(crate) fn with_router(mut self, router: Option<Router>) -> Self {
        self.router = router;
        self
    }
}

impl<L: Lookup + Send> Transform for ModelTransform<L> {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        let mut run = RunReport::new();
        self.evaluator.run(batch, &mut self.lookup, &mut run);
        let has_failures = run.lookup_failed_count > 0 || !run.rejected().is_empty();
        if has_failures && self.cancel.is_cancelled() {
            // Events whose lookups failed must not be taken for complete ones, nor for rejected ones.
            return report.abandon();
        }
        for failure in run.failures() {
            report.fail(failure.line, self.observer.reason(failure, &self.file_name));
        }
        // Only the first few failures have a text; the others are only counted.
        for _ in run.failures().len() as u64..run.lookup_failed_count {
            report.fail(0, "");
        }
        for failure in run.rejected() {
            report.reject(failure.line, self.observer.reason(failure, &self.file_name));
        }
        report.count_dropped(run.dropped_count);
        if let Some(router) = &mut self.router {
            let mut rejected: Vec<u64> = run.rejected().iter().map(|it| it.line).collect();
            rejected.sort_unstable();
            router.assign(batch, &rejected, report);
        }
        self.observer.observe(&run);
    }
}
