//! Answers that need no database: those of native plans and those that are kept.

use lookaside_value::{Row, RowSet, Value};

use super::{Policy, Session};
use crate::Result;
use crate::ask::{Ask, Asker};
use crate::cache::Extent;
use crate::generation::Prepared;
use crate::plan::{Probe, ProbeAll};
use crate::rows::Rows;
use crate::statement::{Params, Query};

/// A question whose statement was asked before, and what may answer it.
struct AtHand<'a> {
    ask: Ask<'a>,
    prepared: &'a Prepared,
    /// In the order of the statement.
    params: &'a [Value],
    asker: &'a mut Asker,
    picks: &'a mut Vec<usize>,
}

impl Session {
    /// The first row, or why there is none, if that needs no database.
    pub(crate) fn first_at_hand(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        policy: &mut Policy<'_>,
    ) -> Option<Result<Option<Row>>> {
        self.with_known(query, params, |it| {
            Some(match it.prepared.plan.first(it.params) {
                Probe::Row(index) => {
                    it.asker.counters.native(true);
                    let rows = it.prepared.plan.rows();
                    let rows = rows.expect("a plan that finds rows has them");
                    Some(rows.shared_row(index))
                }
                Probe::Absent => {
                    it.asker.counters.native(false);
                    None
                }
                Probe::AskSqlite => {
                    let kept = it.asker.kept(&it.ask, it.params, Extent::First, policy);
                    kept?.first()
                }
            })
        })
    }

    /// All rows, or why there are none, if that needs no database.
    pub(crate) fn all_at_hand(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        policy: &mut Policy<'_>,
    ) -> Option<Result<RowSet>> {
        self.with_known(query, params, |it| {
            it.picks.clear();
            if let Some(set) = it.prepared.plan.rows()
                && it.prepared.plan.all(it.params, it.picks) == ProbeAll::Rows
            {
                it.asker.counters.native(!it.picks.is_empty());
                return Some(Rows::picked(set, it.picks).to_row_set());
            }
            let kept = it.asker.kept(&it.ask, it.params, Extent::All, policy);
            kept.cloned()
        })
    }

    /// What `answer` makes of a question whose statement was asked before; nothing if it was not.
    #[inline]
    fn with_known<T>(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        answer: impl FnOnce(AtHand<'_>) -> Option<T>,
    ) -> Option<Result<T>> {
        let found;
        let statement = match query {
            Query::Statement(statement) => statement,
            Query::Text(sql) => {
                found = self.engine.registry().find_text(sql).cloned()?;
                &found
            }
        };
        self.renew();
        let Self {
            engine,
            generation,
            asker,
            picks,
        } = self;
        if statement.0.engine != engine.number {
            return None;
        }
        let prepared = generation.prepared(statement.id())?;
        let params = match statement.0.place(params) {
            Ok(params) => params,
            Err(error) => return Some(Err(error)),
        };
        let ask = Ask {
            engine,
            generation,
            info: &statement.0,
            description: &prepared.description,
        };
        let answer = answer(AtHand {
            ask,
            prepared,
            params: &params,
            asker,
            picks,
        });
        answer.map(Ok)
    }
}
