//! Queries for async callers: answered at once if a native plan or a cache has the answer, by
//! awaiting a provider if one answers the statement, and otherwise by SQLite on a thread where
//! blocking is allowed.
//!
//! The threads are those of the `blocking` crate: started when needed, ended when idle, and bound
//! to no runtime, so these functions work under any executor and also without one. A future that is
//! dropped cancels its query.

use std::mem;
use std::time::Duration;

use lookaside_value::{Extent, Position, Row, RowSet, Text, Value};

use crate::Result;
use crate::cache::CallCache;
use crate::cancel::CancelOnDrop;
use crate::feed::LogPosition;
use crate::freshness::Freshness;
use crate::knowledge::Knowledge;
use crate::policy::Policy;
use crate::provenance::Provenance;
use crate::remote::Pooled;
use crate::session::{Backend, Coverage, ProviderQuery, Session};
use crate::statement::{Params, Query, Statement};

impl Knowledge {
    /// [`Knowledge::query_first`] that never blocks the caller's thread.
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub async fn query_first_async<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<Option<Row>> {
        self.query_first_async_with(query, params, Policy::Global)
            .await
    }

    /// [`Self::query_first_async`] with another policy. A cancelled query empties the cache of
    /// [`Policy::CallScope`].
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub async fn query_first_async_with<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<Option<Row>> {
        let (query, params, mut policy) = (query.into(), params.into(), policy);
        let local = self.with_idle_session(|session| session.try_first(query, params, &mut policy));
        if let Some(answer) = local {
            return answer;
        }
        if let Some(rows) = self
            .provider_rows(query, params, Extent::First, &mut policy)
            .await?
        {
            return Ok(rows.first());
        }
        let ask: BlockingQuery<Option<Row>> =
            |session, query, params, policy| session.query_first_with(query, params, policy);
        self.unblock(QueryJob::new(query, params), policy, ask)
            .await
    }

    /// [`Knowledge::query_all`] that never blocks the caller's thread.
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub async fn query_all_async<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<RowSet> {
        self.query_all_async_with(query, params, Policy::Global)
            .await
    }

    /// [`Self::query_all_async`] with another policy. A cancelled query empties the cache of
    /// [`Policy::CallScope`].
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub async fn query_all_async_with<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<RowSet> {
        let (query, params, mut policy) = (query.into(), params.into(), policy);
        let local = self.with_idle_session(|session| session.try_all(query, params, &mut policy));
        if let Some(answer) = local {
            return answer;
        }
        if let Some(rows) = self
            .provider_rows(query, params, Extent::All, &mut policy)
            .await?
        {
            return Ok(rows);
        }
        let ask: BlockingQuery<RowSet> =
            |session, query, params, policy| session.query_all_with(query, params, policy);
        self.unblock(QueryJob::new(query, params), policy, ask)
            .await
    }

    /// Queries the rows that [`Session::try_local`] did not return, without blocking the caller's
    /// thread: by awaiting a provider, or on a separate thread for SQLite. It needs no runtime.
    /// Dropping the future cancels a query of SQLite.
    ///
    /// # Errors
    /// When there is not one value per parameter, or the database refuses the query or is
    /// unavailable.
    pub async fn answer_async(
        &self,
        statement: &Statement,
        params: &[Value],
        extent: Extent,
        freshness: Freshness,
    ) -> Result<(RowSet, Provenance)> {
        if let Some(query) = self.provider_query(Query::Statement(statement)).await? {
            statement.0.check_count(params.len())?;
            let answer = query.answer(self.engine(), params, extent, freshness, &Pooled);
            return answer.await;
        }
        let mut session = self.take_session();
        let (statement, params) = (statement.clone(), params.to_vec());
        let guard = CancelOnDrop::new(session.cancel_handle());
        let (session, answer) = blocking::unblock(move || {
            let answer = session.answer_local(&statement, &params, extent, freshness);
            (session, answer)
        })
        .await;
        guard.disarm();
        self.put_session(session);
        answer
    }

    /// [`Session::log_end`] that does not block the caller's thread.
    pub async fn log_end_async(&self, statement: &Statement) -> Option<LogPosition> {
        let remote = self.with_idle_session(|session| session.remote(statement))?;
        remote.log_end().await
    }

    /// Waits, for at most `timeout`, until valid cached answers to a statement include all commits up to
    /// a position, and returns what is known of them then. `None` if they do not include them yet, or if
    /// no change feed keeps them valid, for which it does not wait.
    pub async fn wait_for_position(
        &self,
        statement: &Statement,
        position: Position,
        timeout: Duration,
    ) -> Option<Coverage> {
        let found = self.with_idle_session(|session| {
            Some((session.remote(statement)?, session.tracked(statement)?))
        });
        let (remote, tracked) = found.filter(|(_, tracked)| tracked.is_live())?;
        let reached = remote.within(timeout, tracked.horizon.reached(position));
        let is_reached = reached.await?;
        is_reached.then(|| Coverage::of(Some(&tracked)))
    }

    /// The rows, if a provider answers the statement.
    async fn provider_rows(
        &self,
        query: Query<'_>,
        params: Params<'_>,
        extent: Extent,
        policy: &mut Policy<'_>,
    ) -> Result<Option<RowSet>> {
        let Some(query) = self.provider_query(query).await? else {
            return Ok(None);
        };
        let rows = query.rows(self.engine(), params, extent, policy.reborrow());
        rows.await.map(Some)
    }

    /// The provider query, if a provider answers the statement. No session is held while the
    /// statement is described.
    async fn provider_query(&self, query: Query<'_>) -> Result<Option<ProviderQuery>> {
        let backend = match self.with_session(|session| session.backend(query))? {
            Backend::Unresolved(generation) => {
                if !generation.describe_at_provider(query.sql()).await? {
                    return Ok(None);
                }
                self.with_session(|session| session.described_backend(query))?
            }
            backend => backend,
        };
        match backend {
            Backend::Provider(query) => Ok(Some(query)),
            Backend::Local | Backend::Unresolved(_) => Ok(None),
        }
    }

    /// Queries SQLite on a thread where blocking is allowed.
    async fn unblock<T: Send + 'static>(
        &self,
        job: QueryJob,
        policy: Policy<'_>,
        ask: BlockingQuery<T>,
    ) -> Result<T> {
        let mut session = self.take_session();
        // A thread may outlive this future, so it gets the caller's cache itself, not a reference.
        let (mut own, scope) = match policy {
            Policy::Bypass => (Own::Bypass, None),
            Policy::Global => (Own::Global, None),
            Policy::CallScope(cache) => {
                let empty = CallCache::with_capacity(cache.capacity());
                (Own::CallScope(mem::replace(cache, empty)), Some(cache))
            }
        };
        let guard = CancelOnDrop::new(session.cancel_handle());
        let (session, own, result) = blocking::unblock(move || {
            let policy = match &mut own {
                Own::Bypass => Policy::Bypass,
                Own::Global => Policy::Global,
                Own::CallScope(cache) => Policy::CallScope(cache),
            };
            let result = job.run(&mut session, policy, ask);
            (session, own, result)
        })
        .await;
        guard.disarm();
        self.put_session(session);
        if let (Some(scope), Own::CallScope(cache)) = (scope, own) {
            *scope = cache;
        }
        result
    }
}

/// One of the query functions of a session.
type BlockingQuery<T> = fn(&mut Session, Query<'_>, Params<'_>, Policy<'_>) -> Result<T>;

enum Own {
    Bypass,
    Global,
    CallScope(CallCache),
}

/// A query that owns its statement and parameters.
#[derive(Debug)]
struct QueryJob {
    query: OwnedQuery,
    params: OwnedParams,
}

#[derive(Debug)]
enum OwnedQuery {
    Text(String),
    Statement(Statement),
}

#[derive(Debug)]
enum OwnedParams {
    Positional(Vec<Value>),
    Named(Vec<(Text, Value)>),
}

impl QueryJob {
    fn new(query: Query<'_>, params: Params<'_>) -> Self {
        Self {
            query: match query {
                Query::Text(sql) => OwnedQuery::Text(sql.to_owned()),
                Query::Statement(statement) => OwnedQuery::Statement(statement.clone()),
            },
            params: match params {
                Params::Positional(values) => OwnedParams::Positional(values.to_vec()),
                Params::Named(named) => OwnedParams::Named(
                    named
                        .iter()
                        .map(|(name, value)| (Text::from(*name), value.clone()))
                        .collect(),
                ),
            },
        }
    }

    fn query(&self) -> Query<'_> {
        match &self.query {
            OwnedQuery::Text(sql) => Query::Text(sql),
            OwnedQuery::Statement(statement) => Query::Statement(statement),
        }
    }

    fn with<T>(&self, work: impl FnOnce(Query<'_>, Params<'_>) -> T) -> T {
        match &self.params {
            OwnedParams::Positional(values) => work(self.query(), Params::Positional(values)),
            OwnedParams::Named(named) => work(self.query(), Params::Named(&named_refs(named))),
        }
    }

    fn run<T>(
        &self,
        session: &mut Session,
        policy: Policy<'_>,
        ask: BlockingQuery<T>,
    ) -> Result<T> {
        self.with(|query, params| ask(session, query, params, policy))
    }
}

fn named_refs(named: &[(Text, Value)]) -> Vec<(&str, Value)> {
    let named = named.iter();
    named
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect()
}
