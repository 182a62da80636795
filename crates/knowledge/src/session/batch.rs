//! The batch interface of a session, through which a language queries rows.

use std::ptr;

use lookaside_value::{
    Answers, BatchQuery, Extent, Lookup, LookupError, ParamBatch, RowSet, StatementId, Text,
};

use super::Session;
use crate::Result;
use crate::error::Error;
use crate::generation::Prepared;
use crate::index::BLOCK_SIZE;
use crate::plan::{Probe, StoredRows};
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
                let bound = bound.reborrow();
                match bound.all_checked(set, |count| query.check_row_count(count)) {
                    Ok(rows) => answers.push_all(rows),
                    Err(error) => answers.push_failed(error),
                }
            }
            return Ok(());
        }
        let (context, plan, resolver) = (&bound.context, bound.plan, bound.resolver);
        // Rows of one set are kept alive by one entry, made for the first hit.
        let mut shared: Option<(*const StoredRows, u32)> = None;
        let mut entry_of = |stored: &StoredRows, rows: &RowSet, answers: &mut Answers| match shared
        {
            Some((of, entry)) if ptr::eq(of, stored) => entry,
            _ => {
                let entry = answers.add_rows(rows.clone());
                shared = Some((stored, entry));
                entry
            }
        };
        let (mut hit_count, mut absent_count) = (0, 0);
        let mut block = [None; BLOCK_SIZE];
        for start in (0..params.len()).step_by(BLOCK_SIZE) {
            let range = start..params.len().min(start + BLOCK_SIZE);
            let found = &mut block[..range.len()];
            if let Some(stored) = plan.first_of_each(params, range.clone(), found) {
                match stored {
                    StoredRows::Set(rows) => {
                        let entry = entry_of(stored, rows, answers);
                        answers.push_rows(entry, found);
                    }
                    StoredRows::Packed(rows) => {
                        let have_row = found.iter().map(Option::is_some);
                        answers.push_copies(rows.columns().len(), have_row, |values| {
                            rows.push_each(found, values);
                        });
                    }
                }
                let block_hit_count = found.iter().flatten().count();
                hit_count += block_hit_count as u64;
                absent_count += (found.len() - block_hit_count) as u64;
                continue;
            }
            for set in range.map(|index| params.set(index)) {
                match plan.first(set) {
                    Probe::Row(position) => {
                        match plan.row(position) {
                            (stored @ StoredRows::Set(rows), row) => {
                                let entry = entry_of(stored, rows, answers);
                                answers.push_row(entry, row);
                            }
                            (StoredRows::Packed(rows), row) => {
                                answers.push_values(|values| rows.push_values(row, values));
                            }
                        }
                        hit_count += 1;
                    }
                    Probe::Absent => {
                        answers.push_absent();
                        absent_count += 1;
                    }
                    Probe::Refused | Probe::Fallback => {
                        match resolver.rows(context, set, Extent::First, Policy::Global) {
                            Ok(rows) => answers.push_first(rows),
                            Err(error) => answers.push_failed(error.into()),
                        }
                    }
                }
            }
        }
        resolver.counters.native_hits.add(hit_count);
        resolver.counters.native_absent.add(absent_count);
        Ok(())
    }
}
