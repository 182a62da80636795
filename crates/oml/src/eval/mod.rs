//! Evaluation: a model is bound once to names and a database, and then runs over batches.
//!
//! Statement *k* runs over all records of a batch before statement *k + 1*, so that a SQL statement
//! can query for all of them at once. Data never causes an error: a value that cannot be computed
//! is absent or ignored, and a failed lookup is counted, or its record is rejected, in the
//! [`RunReport`].

mod bind;
mod conditions;
mod context;
mod depth;
mod distinct;
mod drops;
mod expr;
mod lookup;
mod moves;
mod plan;
mod report;
mod test;

use std::fmt;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lookaside_value::{Batch, Lookup, NameTable, Names, OnLookupFailure, Record, Value};

use crate::Model;
use crate::diagnostic::Diagnostics;
use crate::functions::{Clock, Intranet};

use self::context::{Context, PatternMemo, World};
use self::lookup::LookupScratch;
use self::moves::NameSet;
use self::plan::Statement;

pub use self::conditions::Conditions;
pub use self::report::{FAILURE_KEPT_MAX, LookupFailure, RunReport};

/// Settings that are not part of a model.
#[derive(Clone)]
pub struct Options {
    /// The time zone of times without an offset. UTC by default, as any other zone would be a
    /// guess.
    pub timezone: TimeZone,
    /// The wall clock of `Now::time()` and similar functions, by default the system's local time;
    /// read once per batch.
    pub clock: Arc<dyn Fn() -> DateTime + Send + Sync>,
    /// The internal networks.
    pub intranet: Intranet,
    /// What happens to a record whose lookup fails, unless the model sets it.
    pub on_lookup_failure: OnLookupFailure,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timezone: TimeZone::UTC,
            clock: Arc::new(|| jiff::Zoned::now().datetime()),
            intranet: Intranet::default(),
            on_lookup_failure: OnLookupFailure::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timezone", &self.timezone)
            .field("intranet", &self.intranet)
            .field("on_lookup_failure", &self.on_lookup_failure)
            .finish_non_exhaustive()
    }
}

/// A bound model that is ready to run: shared by all workers; a clone is one increment of a
/// reference counter.
#[derive(Clone, Debug)]
pub struct Program(Arc<ModelPlan>);

#[derive(Debug)]
struct ModelPlan {
    statements: Vec<Statement>,
    memo_count: usize,
    temporaries: bool,
    has_metadata: bool,
    options: Options,
}

impl Program {
    /// Binds a model: its names to a table, its SQL to a database.
    ///
    /// # Errors
    /// All errors: SQL that the database refuses, and constants without a value.
    pub fn bind(
        model: &Model,
        names: &mut NameTable,
        lookup: &mut dyn Lookup,
        options: &Options,
    ) -> Result<Self, Diagnostics> {
        let bound = bind::bind(model, names, lookup, options);
        let bound = bound.map_err(|faults| model.diagnostics(faults))?;
        Ok(Self(Arc::new(ModelPlan {
            statements: bound.statements,
            memo_count: bound.memo_count,
            temporaries: bound.temporaries,
            has_metadata: bound.has_metadata,
            options: options.clone(),
        })))
    }

    /// Creates an evaluator, which one worker needs to run the program.
    pub fn evaluator(&self) -> Evaluator {
        Evaluator {
            plan: Arc::clone(&self.0),
            results: Vec::new(),
            memos: (0..self.0.memo_count)
                .map(|_| PatternMemo::default())
                .collect(),
            temporary: PatternMemo::default(),
            metadata: self.0.has_metadata.then(PatternMemo::default),
            known: NameSet::default(),
            lookup: LookupScratch::default(),
            text: String::new(),
        }
    }
}

/// Runs a [`Program`], with its own buffers, which it reuses for each batch.
#[derive(Debug)]
pub struct Evaluator {
    plan: Arc<ModelPlan>,
    results: Vec<Record>,
    memos: Vec<PatternMemo>,
    temporary: PatternMemo,
    metadata: Option<PatternMemo>,
    known: NameSet,
    lookup: LookupScratch,
    text: String,
}

impl Evaluator {
    /// Replaces each record by the model's result for it, in the same order, without those that the
    /// model drops.
    ///
    /// The batch's names must start from the table that the program was bound with, or from one
    /// that was made from it by adding names. Records of rejected lookups stay in the batch;
    /// [`RunReport::rejected`] has their lines.
    pub fn run(&mut self, batch: &mut Batch, lookup: &mut dyn Lookup, report: &mut RunReport) {
        debug_assert!(self.results.is_empty(), "given to the batch after each run");
        batch.new_results(&mut self.results);
        let (names, sources) = batch.split_mut();
        report.record_count += sources.len() as u64;
        self.run_statements(names, sources, None, lookup, report);
        batch.take_results(&mut self.results);
    }

    /// As [`Self::run`], for some records of a batch with these names. `results` has an empty record
    /// for each source, with its line, and then the results; `positions` is replaced by the position
    /// among the sources of each result.
    pub fn run_part(
        &mut self,
        names: &Names,
        sources: &mut [Record],
        results: &mut Vec<Record>,
        positions: &mut Vec<usize>,
        lookup: &mut dyn Lookup,
        report: &mut RunReport,
    ) {
        assert_eq!(results.len(), sources.len(), "each source has a result");
        positions.clear();
        positions.extend(0..sources.len());
        std::mem::swap(&mut self.results, results);
        report.record_count += sources.len() as u64;
        self.run_statements(names, sources, Some(positions), lookup, report);
        std::mem::swap(&mut self.results, results);
    }

    fn run_statements(
        &mut self,
        names: &Names,
        mut sources: &mut [Record],
        mut positions: Option<&mut Vec<usize>>,
        lookup: &mut dyn Lookup,
        report: &mut RunReport,
    ) {
        for memo in &mut self.memos {
            memo.clear();
        }
        if let Some(memo) = &mut self.metadata {
            memo.clear();
        }
        let plan = &*self.plan;
        let results = &mut self.results;
        let mut world = World {
            names,
            intranet: &plan.options.intranet,
            clock: Clock::new(&*plan.options.clock),
            memos: &mut self.memos,
            metadata: self.metadata.as_mut(),
            text: &mut self.text,
            time_failure_count: 0,
        };
        let world = &mut world;
        for statement in &plan.statements {
            match statement {
                Statement::Assign { target, value } => {
                    for (source, result) in sources.iter_mut().zip(results.iter_mut()) {
                        if let Some(value) = value.eval(&mut Context {
                            source,
                            result,
                            world,
                        }) {
                            result.push(target.name, target.conversion.apply(value));
                        }
                    }
                }
                Statement::Move(pick) => {
                    for (source, result) in sources.iter_mut().zip(results.iter_mut()) {
                        pick.run(source, result, world, &mut self.known);
                    }
                }
                Statement::Lookup(statement) => {
                    statement.run(sources, results, world, &mut self.lookup, lookup, report);
                }
                Statement::Drop(test) => {
                    let positions = positions.as_deref_mut();
                    let kept_count = drops::run(test, sources, (results, positions), world, report);
                    sources = &mut sources[..kept_count];
                }
            }
        }
        report.time_failure_count += world.time_failure_count;
        if plan.temporaries {
            self.temporary.clear();
            for field in results.iter_mut().flat_map(Record::iter_mut) {
                let is_temporary = |text: &str| text.starts_with(bind::TEMPORARY);
                if self.temporary.matches(field.name, names, is_temporary) {
                    field.value = Value::Ignore;
                }
            }
        }
    }
}

/// Programs are shared between workers, and evaluators are sent to them.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn owned<T: Send>() {}
    shared::<Program>();
    owned::<Evaluator>();
};
