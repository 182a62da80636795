//! The batch interface of a session, through which a language queries rows.

use lookaside_value::{
    Answers, BatchQuery, Extent, Lookup, LookupError, ParamBatch, RowSet, StatementId, Text, Value,
};

use super::Session;
use super::bound::Bound;
use crate::Result;
use crate::error::Error;
use crate::generation::Prepared;
use crate::plan::Probe;
use crate::policy::Policy;
use crate::statement::Origin;

impl Lookup for Session {
    fn prepare(
        &mut self,
        sql: &str,
        params: &[Text],
    ) -> std::result::Result<StatementId, LookupError> {
        self.renew();
        let (_, natural) = self.generation.read(sql)?;
        let statement = self.register(sql, params, &natural, Origin::Prepared)?;
        statement.0.pin();
        Ok(statement.id())
    }

    /// Empty for a statement that is not yet prepared in the generation of this session; preparing
    /// it with this session changes that.
    fn columns(&self, statement: StatementId) -> &[Text] {
        self.generation
            .prepared(statement)
            .map_or(&[], Prepared::columns)
    }

    fn answer(&mut self, query: BatchQuery, params: &ParamBatch, answers: &mut Answers) {
        answers.clear();
        self.renew();
        if let Err(error) = self.answer_batch(query, params, answers) {
            // A failure of the whole batch, before any set was answered.
            let error = LookupError::from(error);
            for _ in answers.len()..params.len() {
                answers.push_failed(error.clone());
            }
        }
    }
}

impl Session {
    fn answer_batch(
        &mut self,
        query: BatchQuery,
        params: &ParamBatch,
        answers: &mut Answers,
    ) -> Result<()> {
        let id = query.statement;
        let statement = self.engine.registry().statement(id).cloned();
        let statement = statement.ok_or_else(|| Error::statement_unknown(id.index()))?;
        statement.0.check_count(params.width())?;
        let mut bound = self.bind(&statement)?;
        if let Some(provider) = bound.context.provider() {
            let limit = bound.resolver.limit(&bound.context, query.contract);
            let sets = (params, &query);
            (bound.resolver).resolve_batch(&bound.context, provider, sets, &limit, answers);
            return Ok(());
        }
        if query.extent == Extent::All {
            for set in params.iter() {
                match all_rows(bound.reborrow(), set, &query) {
                    Ok(rows) => answers.push_all(rows),
                    Err(error) => answers.push_failed(error),
                }
            }
            return Ok(());
        }
        let (context, plan, resolver) = (&bound.context, bound.plan, bound.resolver);
        // All rows of the plan are kept alive by one entry, made for the first hit.
        let mut plan_rows = None;
        let (mut hit_count, mut absent_count) = (0, 0);
        for set in params.iter() {
            match plan.first(set) {
                Probe::Row(index) => {
                    let rows = *plan_rows.get_or_insert_with(|| {
                        let rows = plan.rows();
                        answers.add_rows(rows.expect("a plan that finds rows has them").clone())
                    });
                    answers.push_row(rows, index);
                    hit_count += 1;
                }
                Probe::Absent => {
                    answers.push_absent();
                    absent_count += 1;
                }
                Probe::Fallback => {
                    match resolver.rows(context, set, Extent::First, Policy::Global) {
                        Ok(rows) => answers.push_first(rows),
                        Err(error) => answers.push_failed(error.into()),
                    }
                }
            }
        }
        resolver.counters.native_hits.add(hit_count);
        resolver.counters.native_absent.add(absent_count);
        Ok(())
    }
}

/// All rows for one parameter set, copied only if there are not too many.
fn all_rows(
    bound: Bound<'_, '_>,
    set: &[Value],
    query: &BatchQuery,
) -> std::result::Result<RowSet, LookupError> {
    let rows = bound.all(set, Policy::Global)?;
    query.check_row_count(rows.len())?;
    Ok(rows.to_row_set())
}
