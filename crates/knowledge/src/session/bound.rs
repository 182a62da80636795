//! A statement bound to a session: answered by its native plan first, then by the resolver.

use lookaside_value::{Extent, LookupError, Row, RowSet, Value};

use super::Session;
use super::plan_answer::PlanAnswer;
use crate::Result;
use crate::engine::Engine;
use crate::error::Error;
use crate::freshness::Freshness;
use crate::generation::{Generation, Prepared};
use crate::plan::{LookupPlan, Probe};
use crate::policy::Policy;
use crate::provenance::Provenance;
use crate::resolver::{AgeLimit, Resolved, Resolver, StatementContext};
use crate::rows::Rows;
use crate::statement::{Statement, StatementInfo};

/// A statement bound to a session. Answers borrow from the session (`'a`) and not from the
/// statement (`'s`).
pub(super) struct Bound<'a, 's> {
    pub(super) context: StatementContext<'s>,
    pub(super) plan: &'a LookupPlan,
    pub(super) resolver: &'a mut Resolver,
    plan_answer: &'a mut PlanAnswer,
}

/// Rows and their origin.
pub(super) enum Answer<'a> {
    Planned(Rows<'a>),
    Resolved(Resolved<'a>),
}

impl<'a> Answer<'a> {
    pub(super) fn rows(&self) -> Rows<'a> {
        match self {
            Self::Planned(rows) => *rows,
            Self::Resolved(resolved) => Rows::whole(resolved.rows()),
        }
    }

    pub(super) fn provenance(&self) -> Provenance {
        match self {
            Self::Planned(_) => Provenance::native(),
            Self::Resolved(resolved) => resolved.provenance(),
        }
    }
}

impl Session {
    /// The statement in the newest generation, prepared now if this is its first use there.
    #[inline]
    pub(super) fn bind<'a: 's, 's>(
        &'a mut self,
        statement: &'s Statement,
    ) -> Result<Bound<'a, 's>> {
        self.enter(statement)?;
        let Self {
            engine,
            generation,
            resolver,
            plan_answer,
        } = self;
        let prepared = resolver.prepared(generation, &statement.0)?;
        let parts = (&**engine, &**generation, &*statement.0, prepared);
        Ok(Bound::new(parts, resolver, plan_answer))
    }

    /// [`Self::bind`] for a statement that is already prepared in the newest generation. Does not
    /// block.
    #[inline]
    pub(super) fn bind_prepared<'a: 's, 's>(
        &'a mut self,
        statement: &'s Statement,
    ) -> Result<Option<Bound<'a, 's>>> {
        self.enter(statement)?;
        let Self {
            engine,
            generation,
            resolver,
            plan_answer,
        } = self;
        let prepared = generation.prepared(statement.id());
        Ok(prepared.map(|prepared| {
            let parts = (&**engine, &**generation, &*statement.0, prepared);
            Bound::new(parts, resolver, plan_answer)
        }))
    }

    /// Switches to the newest generation and checks that the statement belongs to this engine.
    #[inline]
    pub(super) fn enter(&mut self, statement: &Statement) -> Result<()> {
        self.renew();
        if statement.0.engine == self.engine.number {
            Ok(())
        } else {
            Err(Error::foreign_statement(statement.sql()))
        }
    }
}

impl<'a: 's, 's> Bound<'a, 's> {
    #[inline]
    fn new(
        (engine, generation, info, prepared): (
            &'a Engine,
            &'a Generation,
            &'s StatementInfo,
            &'a Prepared,
        ),
        resolver: &'a mut Resolver,
        plan_answer: &'a mut PlanAnswer,
    ) -> Self {
        Self {
            context: StatementContext {
                engine,
                generation,
                info,
                description: &prepared.description,
            },
            plan: &prepared.plan,
            resolver,
            plan_answer,
        }
    }

    /// Reborrows, for one query of several.
    pub(super) fn reborrow(&mut self) -> Bound<'_, '_> {
        Bound {
            context: self.context,
            plan: self.plan,
            resolver: self.resolver,
            plan_answer: self.plan_answer,
        }
    }

    /// The first row. As this is the most frequent query, it fills no list of positions.
    #[inline]
    pub(super) fn first(self, params: &[Value], policy: Policy<'_>) -> Result<Option<&'a [Value]>> {
        match self.plan.first(params) {
            Probe::Row(position) => {
                self.resolver.counters.native(true);
                Ok(Some(self.plan_answer.values(self.plan, position)))
            }
            Probe::Absent => {
                self.resolver.counters.native(false);
                Ok(None)
            }
            Probe::Refused | Probe::Fallback => {
                // A copy, so that the context is in memory only where it is needed.
                let (context, first) = (self.context, Extent::First);
                let rows = self.resolver.rows(&context, params, first, policy)?;
                Ok((!rows.is_empty()).then(|| rows.row(0)))
            }
        }
    }

    /// The first row, kept alive by sharing its set.
    pub(super) fn first_row(self, params: &[Value], policy: Policy<'_>) -> Result<Option<Row>> {
        let bound = match self.planned(params, Extent::First) {
            Ok(answer) => return Ok(answer.rows().first_shared()),
            Err(bound) => bound,
        };
        let rows = (bound.resolver).rows(&bound.context, params, Extent::First, policy)?;
        Ok(rows.first())
    }

    /// All rows.
    pub(super) fn all(self, params: &[Value], policy: Policy<'_>) -> Result<Rows<'a>> {
        let all = Extent::All;
        let bound = match self.planned(params, all) {
            Ok(answer) => return Ok(answer.rows()),
            Err(bound) => bound,
        };
        let rows = (bound.resolver).rows(&bound.context, params, all, policy)?;
        Ok(Rows::whole(rows))
    }

    /// All rows, if `check` accepts their number; it is called before rows are copied.
    pub(super) fn all_checked(
        self,
        params: &[Value],
        check: impl Fn(usize) -> std::result::Result<(), LookupError>,
    ) -> std::result::Result<RowSet, LookupError> {
        if let Some(row_count) = self.plan_answer.find(self.plan, params, Extent::All) {
            self.resolver.counters.native(row_count > 0);
            check(row_count)?;
            return Ok(self.plan_answer.rows(self.plan).to_row_set());
        }
        let policy = Policy::Global;
        let rows = (self.resolver).rows(&self.context, params, Extent::All, policy)?;
        check(rows.len())?;
        Ok(rows.clone())
    }

    /// The answer.
    pub(super) fn answer(
        self,
        params: &[Value],
        extent: Extent,
        policy: Policy<'_>,
        freshness: Freshness,
    ) -> Result<Answer<'a>> {
        let bound = match self.planned(params, extent) {
            Ok(answer) => return Ok(answer),
            Err(bound) => bound,
        };
        let limit = AgeLimit::of(&bound.context, freshness);
        let resolved = (bound.resolver).resolve(&bound.context, params, extent, policy, &limit);
        resolved.map(Answer::Resolved)
    }

    /// The answer, if the plan or a cache of the policy has it. Does not block.
    pub(super) fn try_local(
        self,
        params: &[Value],
        extent: Extent,
        policy: &mut Policy<'_>,
        freshness: Freshness,
    ) -> Option<Answer<'a>> {
        let bound = match self.planned(params, extent) {
            Ok(answer) => return Some(answer),
            Err(bound) => bound,
        };
        let limit = AgeLimit::of(&bound.context, freshness);
        let cached = (bound.resolver).try_cached(&bound.context, params, extent, policy, &limit);
        cached.map(Answer::Resolved)
    }

    /// The answer of the native plan, or the statement back if the plan has none.
    #[inline]
    fn planned(self, params: &[Value], extent: Extent) -> std::result::Result<Answer<'a>, Self> {
        let Some(row_count) = self.plan_answer.find(self.plan, params, extent) else {
            return Err(self);
        };
        self.resolver.counters.native(row_count > 0);
        Ok(Answer::Planned(self.plan_answer.rows(self.plan)))
    }
}
