//! Models as the transform of a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_knowledge::{CancelHandle, Session};
use lookaside_oml::{Evaluator, LookupFailure, RunReport};
use lookaside_stream::{Report, Transform};
use lookaside_value::{Batch, Lookup, Record};

use super::choice::{Chooser, Divided, Part};
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

/// Counts of a model's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelFigures {
    /// The name of the model.
    pub(crate) name: String,
    pub(crate) events: u64,
    /// Those that the model dropped.
    pub(crate) dropped: u64,
}

/// The counts of all workers for a model.
///
/// `Relaxed` throughout: the counters synchronize nothing else, and a reader during a run may lag
/// by a batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    events: AtomicU64,
    dropped: AtomicU64,
    wanted: AtomicU64,
    asked: AtomicU64,
    absent: AtomicU64,
    time_failures: AtomicU64,
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
        self.events
            .fetch_add(report.record_count, Ordering::Relaxed);
        self.dropped
            .fetch_add(report.dropped_count, Ordering::Relaxed);
        self.wanted
            .fetch_add(report.lookup_count, Ordering::Relaxed);
        self.asked
            .fetch_add(report.lookup_asked_count, Ordering::Relaxed);
        self.absent
            .fetch_add(report.lookup_absent_count, Ordering::Relaxed);
        self.time_failures
            .fetch_add(report.time_failure_count, Ordering::Relaxed);
    }
}

/// The tallies of the models of a run, with their names.
pub(crate) struct Tallies(pub(crate) Vec<(String, Arc<Tally>)>);

impl Tallies {
    /// The lookups of all models.
    pub(crate) fn lookups(&self) -> LookupFigures {
        let mut sum = LookupFigures::default();
        for (_, tally) in &self.0 {
            let figures = tally.figures();
            sum.wanted += figures.wanted;
            sum.asked += figures.asked;
            sum.absent += figures.absent;
        }
        sum
    }

    /// The values that functions of times could not use, of all models.
    pub(crate) fn time_failures(&self) -> u64 {
        let tallies = self.0.iter().map(|(_, tally)| tally);
        let failures = tallies.map(|tally| tally.time_failures.load(Ordering::Relaxed));
        failures.sum()
    }

    /// The events of each model.
    pub(crate) fn models(&self) -> Vec<ModelFigures> {
        let models = self.0.iter().map(|(name, tally)| ModelFigures {
            name: name.clone(),
            events: tally.events.load(Ordering::Relaxed),
            dropped: tally.dropped.load(Ordering::Relaxed),
        });
        models.collect()
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

/// Runs models over batches; each worker has its own.
pub(crate) struct ModelTransform<L> {
    /// One, unless each event selects its model.
    models: Box<[WorkerModel]>,
    chooser: Option<Chooser>,
    lookup: L,
    cancel: CancelHandle,
    /// Assigns the events to outputs, if outputs have conditions or events select their models.
    router: Option<Router>,
    buffers: Buffers,
}

/// A model of a worker.
pub(crate) struct WorkerModel {
    pub(crate) evaluator: Evaluator,
    pub(crate) observer: Arc<dyn Observer>,
    /// The model's file, for messages.
    pub(crate) file_name: Arc<str>,
}

/// Memory that is reused for each batch.
#[derive(Default)]
struct Buffers {
    results: Vec<Record>,
    positions: Vec<usize>,
    /// The lines of the events that lookups have rejected.
    rejected: Vec<u64>,
}

impl ModelTransform<Session> {
    /// No lookup waits for an unavailable database: with [`OnLookupFailure::Wait`], its event is
    /// rejected.
    ///
    /// [`OnLookupFailure::Wait`]: lookaside_value::OnLookupFailure::Wait
    pub(crate) fn new(model: WorkerModel, session: Session) -> Self {
        Self {
            models: [model].into(),
            chooser: None,
            cancel: session.cancel_handle(),
            lookup: session,
            router: None,
            buffers: Buffers::default(),
        }
    }
}

impl ModelTransform<WaitingLookup<Session>> {
    /// Lookups wait where their policy says so. Without a chooser, there is one model.
    pub(crate) fn waiting(
        models: Box<[WorkerModel]>,
        chooser: Option<Chooser>,
        router: Option<Router>,
        session: Session,
        outages: Arc<Outages>,
    ) -> Self {
        assert!(
            chooser.is_some() || models.len() == 1,
            "events select one of several models"
        );
        let cancel = session.cancel_handle();
        Self {
            models,
            chooser,
            lookup: WaitingLookup::new(session, cancel.clone(), outages),
            cancel,
            router,
            buffers: Buffers::default(),
        }
    }
}

impl<L: Lookup + Send> Transform for ModelTransform<L> {
    fn transform(&mut self, batch: &mut Batch, report: &mut Report) {
        self.buffers.rejected.clear();
        let chosen = match &mut self.chooser {
            None => Some(0),
            Some(chooser) => chooser.choose(batch),
        };
        let is_complete = match chosen {
            Some(model) => self.run_one(model, batch, report),
            None => self.run_each(batch, report),
        };
        if !is_complete {
            return report.abandon();
        }
        if let Some(router) = &mut self.router {
            self.buffers.rejected.sort_unstable();
            router.assign(batch, &self.buffers.rejected, report);
        }
    }
}

impl<L: Lookup + Send> ModelTransform<L> {
    /// Runs a model over the whole batch; returns false if its results are incomplete.
    fn run_one(&mut self, model: usize, batch: &mut Batch, report: &mut Report) -> bool {
        let mut run = RunReport::new();
        let model = &mut self.models[model];
        model.evaluator.run(batch, &mut self.lookup, &mut run);
        let rejected = &mut self.buffers.rejected;
        model.report(&run, &self.cancel, rejected, report)
    }

    /// Runs each model over the records that have selected it, and returns the results to the order
    /// of the records; returns false if they are incomplete.
    fn run_each(&mut self, batch: &mut Batch, report: &mut Report) -> bool {
        let chooser = self.chooser.as_mut().expect("there are several models");
        let Divided { parts, mut results } = chooser.divide(batch, report);
        let Buffers {
            results: part_results,
            positions,
            rejected,
        } = &mut self.buffers;
        for (
            model,
            Part {
                mut sources,
                places,
            },
        ) in self.models.iter_mut().zip(parts)
        {
            if sources.is_empty() {
                continue;
            }
            part_results.extend(sources.iter().map(|source| {
                let mut result = batch.new_record();
                result.line = source.line;
                result
            }));
            let mut run = RunReport::new();
            model.evaluator.run_part(
                batch.names(),
                &mut sources,
                part_results,
                positions,
                &mut self.lookup,
                &mut run,
            );
            for (result, position) in part_results.drain(..).zip(&*positions) {
                results[places[*position]] = Some(result);
            }
            sources.into_iter().for_each(|source| batch.recycle(source));
            if !model.report(&run, &self.cancel, rejected, report) {
                return false;
            }
        }
        batch.take_results(&mut results.into_iter().flatten().collect());
        true
    }
}

impl WorkerModel {
    /// Adds the report of a run; returns false if it was cancelled, so that its results are
    /// incomplete.
    fn report(
        &self,
        run: &RunReport,
        cancel: &CancelHandle,
        rejected: &mut Vec<u64>,
        report: &mut Report,
    ) -> bool {
        let has_failures = run.lookup_failed_count > 0 || !run.rejected().is_empty();
        if has_failures && cancel.is_cancelled() {
            // Events whose lookups failed must not be taken for complete ones, nor for rejected ones.
            return false;
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
            rejected.push(failure.line);
        }
        report.count_dropped(run.dropped_count);
        self.observer.observe(run);
        true
    }
}
