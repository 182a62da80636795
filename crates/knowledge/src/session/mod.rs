//! Sessions: a worker's interface to the engine, with its own connection and cache, and without
//! locks.

mod batch;
mod bound;
mod plan_answer;
mod provider;
mod served;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use lookaside_value::{Contract, Extent, Row, RowSet, Text, Value};

use self::plan_answer::PlanAnswer;
pub(crate) use self::provider::{Backend, ProviderQuery};
pub use self::served::{Coverage, Served};
use crate::Result;
use crate::cancel::CancelHandle;
use crate::depends::StatementDependency;
use crate::description::Answerer;
use crate::engine::Engine;
use crate::freshness::Freshness;
use crate::generation::Generation;
use crate::plan::{Explanation, ProviderPlan, provider_warnings};
use crate::policy::Policy;
use crate::resolver::{Resolver, StatementContext};
use crate::rows::Rows;
use crate::statement::{Admission, Origin, Params, Query, Statement, StatementInfo};
use crate::wait::block_on;

/// Answers queries for one worker.
///
/// A session is made by [`Knowledge::session`](crate::Knowledge::session), costs almost nothing
/// until it is used, and belongs to one thread at a time. Each call checks for a reload and
/// switches to the new tables; within a call, also a batch, all answers come from one state.
///
/// ```
/// use lookaside_knowledge::{Knowledge, Value};
/// # let folder = tempfile::tempdir()?;
/// # let database = folder.path().join("users.sqlite");
/// # rusqlite::Connection::open(&database)?.execute_batch(
/// #     "create table users (id integer primary key, name text);
/// #      insert into users values (1, 'ada'), (2, 'grace');",
/// # )?;
///
/// let knowledge = Knowledge::sqlite_builder(&database).open()?;
/// let mut session = knowledge.session();
/// let by_id = session.prepare("select name from users where id = :id")?;
/// assert_eq!(session.first(&by_id, &[Value::Int(2)])?, Some(&[Value::from("grace")][..]));
/// assert_eq!(session.first(&by_id, &[Value::Int(9)])?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    engine: Arc<Engine>,
    generation: Arc<Generation>,
    resolver: Resolver,
    plan_answer: PlanAnswer,
}

impl Session {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let cancel = CancelHandle::new(&engine.is_cancelled);
        let generation = engine.state();
        Self {
            resolver: Resolver::new(&generation, engine.counters.enter(), cancel),
            generation,
            engine,
            plan_answer: PlanAnswer::default(),
        }
    }

    /// Sets what answers of providers have to include, for queries that do not state it themselves.
    pub fn set_freshness(&mut self, freshness: Freshness) {
        self.resolver.freshness = freshness;
    }

    /// A handle that cancels the queries of this session from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.resolver.cancel().clone()
    }

    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// The number of the generation that the next answer comes from.
    pub fn generation(&mut self) -> u64 {
        self.renew();
        self.generation.number
    }

    /// Prepares a query; its parameters (`:name`) are numbered by their first appearance.
    ///
    /// Preparing the same text again gives the same statement. A statement stays prepared for the
    /// life of the engine; a reload with which it would not work fails.
    ///
    /// # Errors
    /// When the text is not a single query, when SQLite refuses it, or when 65,536 statements are
    /// prepared already.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.renew();
        let (_, params) = self.generation.read(sql)?;
        let statement = self.register(sql, &params, &params, Origin::Prepared)?;
        statement.0.pin();
        Ok(statement)
    }

    /// The first row, with parameters by position, borrowed until the next call.
    ///
    /// This is the fastest query: a native plan or a hit in the session's cache does not allocate
    /// and accesses nothing that other threads write.
    ///
    /// # Errors
    /// When there is not one value per parameter, or the database refuses the query.
    #[inline]
    pub fn first(&mut self, statement: &Statement, params: &[Value]) -> Result<Option<&[Value]>> {
        self.first_with(statement, params, Policy::Global)
    }

    /// [`Self::first`] with another policy.
    ///
    /// # Errors
    /// As [`Self::first`].
    #[inline]
    pub fn first_with(
        &mut self,
        statement: &Statement,
        params: &[Value],
        policy: Policy<'_>,
    ) -> Result<Option<&[Value]>> {
        let bound = self.bind(statement)?;
        statement.0.check_count(params.len())?;
        bound.first(params, policy)
    }

    /// The first row, as a value that keeps its row set alive.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub fn first_row(&mut self, statement: &Statement, params: &[Value]) -> Result<Option<Row>> {
        let bound = self.bind(statement)?;
        statement.0.check_count(params.len())?;
        bound.first_row(params, Policy::Global)
    }

    /// All rows, with parameters by position, borrowed until the next call.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub fn all(&mut self, statement: &Statement, params: &[Value]) -> Result<Rows<'_>> {
        self.all_with(statement, params, Policy::Global)
    }

    /// [`Self::all`] with another policy.
    ///
    /// # Errors
    /// As [`Self::first`].
    pub fn all_with(
        &mut self,
        statement: &Statement,
        params: &[Value],
        policy: Policy<'_>,
    ) -> Result<Rows<'_>> {
        let bound = self.bind(statement)?;
        statement.0.check_count(params.len())?;
        bound.all(params, policy)
    }

    /// The first row of a statement or a SQL text, with parameters by name or by position.
    ///
    /// # Errors
    /// When the text is refused, when a parameter is missing, unknown or given twice, or when the
    /// database refuses.
    pub fn query_first<'a>(
        &mut self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<Option<Row>> {
        self.query_first_with(query, params, Policy::Global)
    }

    /// [`Self::query_first`] with another policy.
    ///
    /// # Errors
    /// As [`Self::query_first`].
    pub fn query_first_with<'a>(
        &mut self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<Option<Row>> {
        match self.admit(query.into())? {
            Admitted::Statement(statement) => {
                let params = statement.0.to_positional(params.into())?;
                self.bind(&statement)?.first_row(&params, policy)
            }
            Admitted::Once(info) => Ok(self.once(&info, params.into(), Extent::First)?.first()),
        }
    }

    /// All rows of a statement or a SQL text, with parameters by name or by position.
    ///
    /// # Errors
    /// As [`Self::query_first`].
    pub fn query_all<'a>(
        &mut self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<RowSet> {
        self.query_all_with(query, params, Policy::Global)
    }

    /// [`Self::query_all`] with another policy.
    ///
    /// # Errors
    /// As [`Self::query_first`].
    pub fn query_all_with<'a>(
        &mut self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<RowSet> {
        match self.admit(query.into())? {
            Admitted::Statement(statement) => {
                let params = statement.0.to_positional(params.into())?;
                Ok(self.all_with(&statement, &params, policy)?.to_row_set())
            }
            Admitted::Once(info) => self.once(&info, params.into(), Extent::All),
        }
    }

    /// The first row, if a native plan or a cache has the answer; or the error.
    pub(crate) fn try_first(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        policy: &mut Policy<'_>,
    ) -> Option<Result<Option<Row>>> {
        let rows = self.try_query(query, params, Extent::First, policy)?;
        Some(rows.map(|rows| rows.first_shared()))
    }

    /// All rows, if a native plan or a cache has the answer; or the error.
    pub(crate) fn try_all(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        policy: &mut Policy<'_>,
    ) -> Option<Result<RowSet>> {
        let rows = self.try_query(query, params, Extent::All, policy)?;
        Some(rows.map(|rows| rows.to_row_set()))
    }

    /// The rows, if the statement is prepared and the answer needs no database. Does not block.
    fn try_query(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        extent: Extent,
        policy: &mut Policy<'_>,
    ) -> Option<Result<Rows<'_>>> {
        let found;
        let statement = match query {
            Query::Statement(statement) => statement,
            Query::Text(sql) => {
                found = self.engine.registry().find_text(sql).cloned()?;
                &found
            }
        };
        // If it belongs to another engine, the actual query reports that.
        let bound = self.bind_prepared(statement).ok()??;
        let params = match bound.context.info.to_positional(params) {
            Ok(params) => params,
            Err(error) => return Some(Err(error)),
        };
        let freshness = bound.resolver.freshness;
        let answer = bound.try_local(&params, extent, policy, freshness)?;
        Some(Ok(answer.rows()))
    }

    /// Whether this session reads the newest state.
    pub(crate) fn is_current(&self) -> bool {
        self.generation.number == self.engine.generation()
    }

    /// The tables and views that can be queried, sorted.
    pub(crate) fn tables(&mut self) -> Result<Vec<String>> {
        self.renew();
        self.resolver.reader(&self.generation)?.tables()
    }

    /// How a statement is answered, without registering it.
    ///
    /// # Errors
    /// When the statement is refused.
    pub fn explain(&mut self, sql: &str) -> Result<Explanation> {
        self.renew();
        let (route, params) = self.generation.read(sql)?;
        let info = StatementInfo::unregistered(self.engine.number, sql, params);
        let Self {
            generation,
            resolver,
            ..
        } = self;
        let prepared = resolver.describe(generation, &info)?;
        let mut explanation = prepared.plan.explain();
        explanation.columns = prepared.columns().to_vec();
        match &prepared.description.answerer {
            Answerer::Store(statement) => {
                let tables = generation.tables();
                match generation.expansion(route.sql.as_deref().unwrap_or(sql))? {
                    None => explanation.look_at(statement.sql(&info), tables),
                    Some((names, expansion)) => {
                        explanation.look_at_first_of(names, &expansion, tables);
                    }
                }
            }
            Answerer::Remote { remote, statement } => {
                let dialect = generation.names().dialect(route.target);
                explanation.warnings = provider_warnings(sql, dialect);
                explanation.provider = Some(ProviderPlan {
                    name: remote.name().into(),
                    server: remote.config.kind(),
                    sql: statement.sql(Extent::All).to_string(),
                    first_row_sql: statement.sql(Extent::First).to_string(),
                    params: statement.param_types(),
                    column_types: statement.description.column_types.to_vec(),
                });
                explanation.dependency = block_on(remote.dependency(statement));
            }
        }
        Ok(explanation)
    }

    /// What a change feed of a publication would do for the answers to a statement, without
    /// registering it; `None` if no PostgreSQL provider answers it.
    ///
    /// # Errors
    /// When the statement is refused.
    pub fn dependency(
        &mut self,
        sql: &str,
        publication: &str,
    ) -> Result<Option<StatementDependency>> {
        self.renew();
        let (_, params) = self.generation.read(sql)?;
        let info = StatementInfo::unregistered(self.engine.number, sql, params);
        let prepared = self.resolver.describe(&self.generation, &info)?;
        Ok(match &prepared.description.answerer {
            Answerer::Store(_) => None,
            Answerer::Remote { remote, statement } => {
                block_on(remote.dependency_in(statement, publication))
            }
        })
    }

    #[inline]
    fn renew(&mut self) {
        if self.generation.number != self.engine.generation() {
            self.change_over();
        }
    }

    #[cold]
    fn change_over(&mut self) {
        // The connection is dropped before the store that it reads.
        let next = self.engine.state();
        self.resolver.enter(&next);
        self.generation = next;
    }

    /// The statement with this text and parameters, with its plan; new ones are checked first, so
    /// that a refused text is not registered.
    ///
    /// `natural` are the parameters in the order of their first appearance.
    fn register(
        &mut self,
        sql: &str,
        params: &[Text],
        natural: &[Text],
        origin: Origin,
    ) -> Result<Statement> {
        let known = self.engine.registry().find(sql, params).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let info = StatementInfo::unregistered(self.engine.number, sql, params.to_vec());
                self.resolver.describe(&self.generation, &info)?;
                let mut registry = self.engine.registry_mut();
                registry.add(self.engine.number, sql, params, natural, origin)?
            }
        };
        // A reload may have happened meanwhile, without the statement.
        self.renew();
        self.resolver.prepared(&self.generation, &statement.0)?;
        Ok(statement)
    }

    fn admit(&mut self, query: Query<'_>) -> Result<Admitted> {
        self.renew();
        let sql = match query {
            Query::Statement(statement) => return Ok(Admitted::Statement(statement.clone())),
            Query::Text(sql) => sql,
        };
        let admission = {
            let registry = self.engine.registry();
            if let Some(statement) = registry.find_text(sql) {
                return Ok(Admitted::Statement(statement.clone()));
            }
            registry.admission()
        };
        let (_, params) = self.generation.read(sql)?;
        match admission {
            Admission::Room => Ok(Admitted::Statement(self.register(
                sql,
                &params,
                &params,
                Origin::AdHoc,
            )?)),
            Admission::AdHocFull => {
                let info = StatementInfo::unregistered(self.engine.number, sql, params);
                Ok(Admitted::Once(info))
            }
        }
    }

    /// Runs an unregistered statement, without plan and cache.
    fn once(&mut self, info: &StatementInfo, params: Params<'_>, extent: Extent) -> Result<RowSet> {
        let params = info.to_positional(params)?;
        let Self {
            engine,
            generation,
            resolver,
            ..
        } = self;
        resolver.counters.metadata_misses.add(1);
        let context = StatementContext {
            engine,
            generation,
            info,
            description: &resolver.describe(generation, info)?.description,
        };
        let limit = resolver.limit(&context, Contract::ANY);
        Ok(resolver.query(&context, &params, extent, &limit)?.rows)
    }
}

enum Admitted {
    Statement(Statement),
    /// The text is answered without being registered.
    Once(StatementInfo),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("engine", &self.engine.number)
            .field("generation", &self.generation.number)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.engine.counters.leave(&self.resolver.counters);
    }
}
