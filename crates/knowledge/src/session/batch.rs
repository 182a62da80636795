//! The batch interface of a session, through which a language queries rows.

use lookaside_value::{Answers, Contract, Lookup, LookupError, ParamBatch, StatementId, Text};

use super::Session;
use crate::Result;
use crate::cache::Extent;
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

    fn answer(
        &mut self,
        statement: StatementId,
        contract: Contract,
        params: &ParamBatch,
        answers: &mut Answers,
    ) {
        answers.clear();
        self.renew();
        if let Err(error) = self.answer_batch(statement, contract, params, answers) {
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
        id: StatementId,
        contract: Contract,
        params: &ParamBatch,
        answers: &mut Answers,
    ) -> Result<()> {
        let statement = self.engine.registry().statement(id).cloned();
        let statement = statement.ok_or_else(|| Error::statement_unknown(id.index()))?;
        statement.0.check_count(params.width())?;
        let bound = self.bind(&statement)?;
        let (context, plan, resolver) = (&bound.context, bound.plan, bound.resolver);
        if let Some(provider) = context.provider() {
            let limit = resolver.limit(context, contract);
            resolver.resolve_batch(context, provider, params, &limit, answers);
            return Ok(());
        }
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
