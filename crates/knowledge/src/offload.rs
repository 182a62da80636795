//! The same queries for async callers: answered at once if the answer is at hand, by waiting for
//! another database without a thread, or else, if SQLite answers, on a thread where its work holds
//! up nobody.
//!
//! The threads are those of the `blocking` crate: started when needed, ended when idle, and bound
//! to no runtime, so these functions work under any executor and also without one. A future that is
//! dropped cancels its query.

use std::mem;

use lookaside_value::{Row, RowSet, Text, Value};

use crate::Result;
use crate::cache::{CallCache, Extent};
use crate::cancel::CancelOnDrop;
use crate::knowledge::Knowledge;
use crate::session::{Elsewhere, Policy, Session, Whose};
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
        let at_hand =
            self.with_idle_session(|session| session.first_at_hand(query, params, &mut policy));
        if let Some(answer) = at_hand {
            return answer;
        }
        if let Some(rows) = self
            .rows_elsewhere(query, params, Extent::First, &mut policy)
            .await?
        {
            return Ok(rows.first());
        }
        let ask: Ask<Option<Row>> =
            |session, query, params, policy| session.query_first_with(query, params, policy);
        self.unblock(Job::new(query, params), policy, ask).await
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
        let at_hand =
            self.with_idle_session(|session| session.all_at_hand(query, params, &mut policy));
        if let Some(answer) = at_hand {
            return answer;
        }
        if let Some(rows) = self
            .rows_elsewhere(query, params, Extent::All, &mut policy)
            .await?
        {
            return Ok(rows);
        }
        let ask: Ask<RowSet> =
            |session, query, params, policy| session.query_all_with(query, params, policy);
        self.unblock(Job::new(query, params), policy, ask).await
    }

    /// The rows, where another database answers.
    async fn rows_elsewhere(
        &self,
        query: Query<'_>,
        params: Params<'_>,
        extent: Extent,
        policy: &mut Policy<'_>,
    ) -> Result<Option<RowSet>> {
        let Some(elsewhere) = self.elsewhere(query).await? else {
            return Ok(None);
        };
        let rows = elsewhere.rows(self.engine(), params, extent, policy.again());
        rows.await.map(Some)
    }

    /// The statement, if another database answers it. No session is held for that.
    pub(crate) async fn elsewhere(&self, query: Query<'_>) -> Result<Option<Elsewhere>> {
        let whose = match self.with_session(|session| session.whose(query))? {
            Whose::Unknown(generation) => {
                if !generation.describe_elsewhere(query.sql()).await? {
                    return Ok(None);
                }
                self.with_session(|session| session.elsewhere(query))?
            }
            whose => whose,
        };
        match whose {
            Whose::Theirs(elsewhere) => Ok(Some(elsewhere)),
            Whose::Ours | Whose::Unknown(_) => Ok(None),
        }
    }

    /// Asks SQLite, on a thread for what blocks.
    async fn unblock<T: Send + 'static>(
        &self,
        job: Job,
        policy: Policy<'_>,
        ask: Ask<T>,
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

/// One of the ways to ask a session.
type Ask<T> = fn(&mut Session, Query<'_>, Params<'_>, Policy<'_>) -> Result<T>;

enum Own {
    Bypass,
    Global,
    CallScope(CallCache),
}

/// A query that owns what it asks.
#[derive(Debug)]
struct Job {
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

impl Job {
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

    fn run<T>(&self, session: &mut Session, policy: Policy<'_>, ask: Ask<T>) -> Result<T> {
        self.with(|query, params| ask(session, query, params, policy))
    }
}

fn named_refs(named: &[(Text, Value)]) -> Vec<(&str, Value)> {
    let named = named.iter();
    named
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect()
}
