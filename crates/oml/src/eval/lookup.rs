//! SQL statements: evaluates the parameters of a whole batch, queries them at once, and fills the
//! answers into the results.

use lookaside_value::{
    Answers, BatchQuery, Extent, Lookup as Database, LookupError, Object, OnLookupFailure,
    ParamBatch, Record, RowSet, Value,
};

use crate::eval::RunReport;
use crate::eval::context::{Context, World};
use crate::eval::distinct::Distinct;
use crate::eval::plan::{Lookup, LookupResults};

/// Buffers that lookups reuse.
#[derive(Debug, Default)]
pub(crate) struct LookupScratch {
    params: ParamBatch,
    answers: Answers,
    distinct: Distinct,
    /// For each record the position of its parameter set, or [`NOT_ASKED`].
    positions: Vec<u32>,
}

/// Marks a record that had no input to query with.
const NOT_ASKED: u32 = u32::MAX;

impl Lookup {
    /// Queries for all records at once and appends the answers to their results.
    pub(crate) fn run(
        &self,
        sources: &mut [Record],
        results: &mut [Record],
        world: &mut World<'_>,
        scratch: &mut LookupScratch,
        database: &mut dyn Database,
        report: &mut RunReport,
    ) {
        self.gather(sources, results, world, scratch);
        let params = &scratch.params;
        report.lookup_count += sources.len() as u64;
        report.lookup_asked_count += params.len() as u64;
        if params.is_empty() {
            report.lookup_absent_count += sources.len() as u64;
            return;
        }
        let answers = &mut scratch.answers;
        let query = self.query();
        match self.on_failure {
            OnLookupFailure::Wait => database.answer_when_available(query, params, answers),
            OnLookupFailure::Reject | OnLookupFailure::Emit => {
                database.answer(query, params, answers);
            }
        }
        assert_eq!(
            scratch.answers.len(),
            params.len(),
            "a lookup answers each set"
        );
        for (result, position) in results.iter_mut().zip(&scratch.positions) {
            if *position == NOT_ASKED {
                report.lookup_absent_count += 1;
                continue;
            }
            match self.fill(result, &scratch.answers, *position as usize) {
                Ok(true) => {}
                Ok(false) => report.lookup_absent_count += 1,
                Err(error) => match self.on_failure {
                    OnLookupFailure::Emit => report.fail(result.line, self.position, error),
                    // After waiting, what still fails would fail again.
                    OnLookupFailure::Wait | OnLookupFailure::Reject => {
                        report.reject(result.line, self.position, error);
                    }
                },
            }
        }
        // Rows of a replaced table must not be kept alive by an idle worker.
        scratch.answers.clear();
    }

    fn query(&self) -> BatchQuery {
        let (extent, rows_max) = match self.results {
            LookupResults::First(_) => (Extent::First, usize::MAX),
            LookupResults::All { rows_max, .. } => (Extent::All, rows_max),
        };
        BatchQuery {
            statement: self.statement,
            extent,
            rows_max,
            contract: self.contract,
        }
    }

    /// Appends the answer at a position to a result; returns whether there is a row.
    fn fill<'a>(
        &self,
        result: &mut Record,
        answers: &'a Answers,
        position: usize,
    ) -> Result<bool, &'a LookupError> {
        match &self.results {
            LookupResults::First(targets) => {
                let Some(row) = answers.row(position)? else {
                    return Ok(false);
                };
                for (target, value) in targets.iter().zip(row) {
                    result.push(target.name, target.conversion.apply(value.clone()));
                }
                Ok(true)
            }
            LookupResults::All { target, .. } => {
                let rows = answers.all(position)?;
                result.push(*target, Value::from(rows.map_or_else(Vec::new, objects)));
                Ok(rows.is_some())
            }
        }
    }

    /// Evaluates the parameters of all records, each distinct set once.
    ///
    /// A missing input is NULL, so that no row matches it; a record without any input is not
    /// queried.
    fn gather(
        &self,
        sources: &mut [Record],
        results: &[Record],
        world: &mut World<'_>,
        scratch: &mut LookupScratch,
    ) {
        let LookupScratch {
            params,
            distinct,
            positions,
            ..
        } = scratch;
        params.reset(self.params.len());
        distinct.clear();
        positions.clear();
        for (source, result) in sources.iter_mut().zip(results) {
            let mut context = Context {
                source,
                result,
                world,
            };
            let mut has_input = self.params.is_empty();
            params.push(self.params.iter().map(|param| {
                let mut value = param.eval(&mut context).unwrap_or_default();
                if matches!(value, Value::Ignore) {
                    value = Value::Null;
                }
                has_input |= !matches!(value, Value::Null);
                value
            }));
            if has_input {
                positions.push(distinct.deduplicate_last(params));
            } else {
                params.pop();
                positions.push(NOT_ASKED);
            }
        }
    }
}

/// The rows as objects with the names of their columns.
fn objects(rows: &RowSet) -> Vec<Value> {
    let object = |row: &[Value]| {
        let members = rows.columns().iter().cloned().zip(row.iter().cloned());
        Value::from(members.collect::<Object>())
    };
    rows.iter().map(object).collect()
}
