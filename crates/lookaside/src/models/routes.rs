//! Which output an event is written to, by the conditions of the outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_oml::{Condition, Conditions, Options};
use lookaside_stream::Report;
use lookaside_value::{Batch, Field, Name, NameTable, Names, Record, Value};

/// The field whose value names the outputs of an event.
pub(crate) const OUTPUT: &str = "@meta/output";

/// What the names of all metadata begin with.
const METADATA: &str = "@meta/";

/// What happens to an event that is not assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// It continues: one without a model has its fields as they were read, one without an output is
    /// written to the default output.
    Pass,
    /// Its line is rejected.
    Reject,
    /// It is written to the output of this name.
    Output(Box<str>),
}

impl Unmatched {
    /// The value of the setting; any word that has no other meaning is the name of an output.
    pub(crate) fn of_setting(text: &str) -> Self {
        match text {
            "pass" => Self::Pass,
            "reject" => Self::Reject,
            name => Self::Output(name.into()),
        }
    }
}

/// The outputs that have conditions, if any, and what happens to events that are not assigned: shared
/// by all workers.
#[derive(Debug)]
pub(crate) struct Routes {
    conditions: Conditions,
    /// The names of the outputs, in the order of the conditions.
    outputs: Box<[Value]>,
    field: Name,
    unmatched: Unmatched,
    without_model_count: AtomicU64,
    without_output_count: AtomicU64,
}

/// How many events were unmatched, and what happened to them.
#[derive(Debug)]
pub(crate) struct UnmatchedFigures<'r> {
    /// Those for whose rule key no model has a rule.
    pub(crate) without_model: u64,
    /// Those for which no output has a condition that holds.
    pub(crate) without_output: u64,
    pub(crate) unmatched: &'r Unmatched,
}

impl Routes {
    /// Binds the conditions, each with the name of its output. Models have to be bound after
    /// [`OUTPUT`] is in the table: then they do not move metadata from the input, whichever model
    /// mentions it.
    pub(crate) fn bind<'r>(
        routes: impl Iterator<Item = (&'r str, &'r Condition)>,
        unmatched: Unmatched,
        names: &mut NameTable,
        options: &Options,
    ) -> Self {
        let (outputs, conditions): (Vec<_>, Vec<_>) = routes.unzip();
        Self {
            conditions: Conditions::bind(conditions, names, options),
            outputs: outputs.into_iter().map(Value::from).collect(),
            field: names.intern(OUTPUT),
            unmatched,
            without_model_count: AtomicU64::new(0),
            without_output_count: AtomicU64::new(0),
        }
    }

    /// The counts so far.
    pub(crate) fn figures(&self) -> UnmatchedFigures<'_> {
        // Relaxed: the counters synchronize nothing else.
        UnmatchedFigures {
            without_model: self.without_model_count.load(Ordering::Relaxed),
            without_output: self.without_output_count.load(Ordering::Relaxed),
            unmatched: &self.unmatched,
        }
    }

    /// Counts an event without a model; returns what is written of it, or `None` if it is rejected:
    /// its fields as they were read, without the metadata of its message.
    pub(super) fn keep_without_model(&self, mut record: Record, names: &Names) -> Option<Record> {
        // Relaxed: as above.
        self.without_model_count.fetch_add(1, Ordering::Relaxed);
        let output = match &self.unmatched {
            Unmatched::Reject => return None,
            Unmatched::Pass => None,
            Unmatched::Output(name) => Some(Value::from(&**name)),
        };
        let metadata = |record: &Record| {
            let mut fields = record.iter();
            let found = fields.find(|field| names.text(field.name).starts_with(METADATA))?;
            Some(found.name)
        };
        while let Some(name) = metadata(&record) {
            record.take(name);
        }
        if let Some(output) = output {
            record.push(self.field, output);
        }
        Some(record)
    }
}

/// Assigns the results of a model to outputs; each worker has its own.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Arc<Routes>,
    found: Vec<Option<usize>>,
}

impl Router {
    pub(crate) fn new(routes: Arc<Routes>) -> Self {
        Self {
            routes,
            found: Vec::new(),
        }
    }

    /// Sets the output of each record whose model has not set it. `rejected` has the lines of the
    /// events that lookups have rejected, in ascending order; they are not counted as unmatched.
    pub(crate) fn assign(&mut self, batch: &mut Batch, rejected: &[u64], report: &mut Report) {
        let Routes {
            conditions,
            outputs,
            field,
            unmatched,
            without_output_count,
            ..
        } = &*self.routes;
        let has_conditions = !outputs.is_empty();
        conditions.first_of_each(batch, &mut self.found);
        let (names, records) = batch.split_mut();
        let mut count = 0;
        for (record, found) in records.iter_mut().zip(&self.found) {
            let is_set = |record: &Record| {
                let set = record.value(*field);
                set.is_some_and(|value| !matches!(value, Value::Ignore))
            };
            if is_set(record) {
                continue;
            }
            let is_metadata = |field: &Field| names.text(field.name).starts_with(METADATA);
            if record.visible().all(is_metadata) {
                report.reject(record.line, "the result has no fields");
                continue;
            }
            if !has_conditions {
                continue;
            }
            if let Some(index) = found {
                set(record, *field, outputs[*index].clone());
                continue;
            }
            if rejected.binary_search(&record.line).is_ok() {
                continue;
            }
            count += 1;
            match unmatched {
                Unmatched::Pass => {}
                Unmatched::Output(name) => set(record, *field, Value::from(&**name)),
                Unmatched::Reject => {
                    report.reject(record.line, "no output has a condition that holds");
                }
            }
        }
        // Relaxed: as above.
        without_output_count.fetch_add(count, Ordering::Relaxed);
    }
}

/// Sets a field whose value is ignored, if it has one.
fn set(record: &mut Record, name: Name, value: Value) {
    match record.value_mut(name) {
        Some(ignored) => *ignored = value,
        None => record.push(name, value),
    }
}
