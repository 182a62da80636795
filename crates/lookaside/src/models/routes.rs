//! Which output an event is written to, by the conditions of the outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lookaside_oml::{Condition, Conditions, Options};
use lookaside_stream::Report;
use lookaside_value::{Batch, Field, Name, NameTable, Record, Value};

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

/// The outputs that have conditions, and what happens to other events: shared by all workers.
#[derive(Debug)]
pub(crate) struct Routes {
    conditions: Conditions,
    /// The names of the outputs, in the order of the conditions.
    outputs: Box<[Value]>,
    field: Name,
    unmatched: Unmatched,
    unmatched_count: AtomicU64,
}

impl Routes {
    /// Binds the conditions, each with the name of its output. A model has to be bound after
    /// [`OUTPUT`] is in the table: then it does not move the field of this name from the input.
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
            unmatched_count: AtomicU64::new(0),
        }
    }

    /// How many events were unmatched so far, and what happened to them.
    pub(crate) fn unmatched(&self) -> (u64, &Unmatched) {
        // Relaxed: the counter synchronizes nothing else.
        let count = self.unmatched_count.load(Ordering::Relaxed);
        (count, &self.unmatched)
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
            unmatched_count,
        } = &*self.routes;
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
                report.reject(record.line, "the model gives the event no fields");
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
        unmatched_count.fetch_add(count, Ordering::Relaxed);
    }
}

/// Sets a field whose value is ignored, if it has one.
fn set(record: &mut Record, name: Name, value: Value) {
    match record.value_mut(name) {
        Some(ignored) => *ignored = value,
        None => record.push(name, value),
    }
}
