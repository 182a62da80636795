//! The same queries for async callers: answered at once if the answer is at hand, by waiting for
//! another database without a thread, or else, if SQLite answers, on a thread where its work holds
//! up nobody.
//!
//! The threads are those of the `blocking` crate: started when needed, ended when idle, and bound
//! to no runtime, so these functions work under any executor and also without one.

use std::mem;

use lookaside_value::{Row, RowSet, Text, Value};

use crate::Result;
use crate::cache::{CallCache, Extent};
use crate::knowledge::Knowledge;
use crate::session::{Policy, Session};
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
        let mut session = self.take_session();
        if let Some(answer) = session.first_at_hand(query, params, &mut policy) {
            self.put_session(session);
            return answer;
        }
        let job = Job::new(query, params, Extent::First);
        let ask: Ask<Option<Row>> =
            |session, query, params, policy| session.query_first_with(query, params, policy);
        self.run(session, job, policy, ask, |rows| rows.first())
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
        let mut session = self.take_session();
        if let Some(answer) = session.all_at_hand(query, params, &mut policy) {
            self.put_session(session);
            return answer;
        }
        let job = Job::new(query, params, Extent::All);
        let ask: Ask<RowSet> =
            |session, query, params, policy| session.query_all_with(query, params, policy);
        self.run(session, job, policy, ask, |rows| rows).await
    }

    /// Asks a database.
    async fn run<T: Send + 'static>(
        &self,
        mut session: Session,
        job: Job,
        mut policy: Policy<'_>,
        ask: Ask<T>,
        of_rows: fn(RowSet) -> T,
    ) -> Result<T> {
        let policy_elsewhere = match &mut policy {
            Policy::Bypass => Policy::Bypass,
            Policy::Global => Policy::Global,
            Policy::CallScope(cache) => Policy::CallScope(cache),
        };
        match job.run_elsewhere(&mut session, policy_elsewhere).await {
            Ok(None) => {}
            rows => {
                self.put_session(session);
                return rows.map(|rows| of_rows(rows.expect("it was not none")));
            }
        }
        // A thread may outlive this future, so it gets the caller's cache itself, not a reference.
        let (mut own, scope) = match policy {
            Policy::Bypass => (Own::Bypass, None),
            Policy::Global => (Own::Global, None),
            Policy::CallScope(cache) => {
                let empty = CallCache::with_capacity(cache.capacity());
                (Own::CallScope(mem::replace(cache, empty)), Some(cache))
            }
        };
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
    extent: Extent,
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
    fn new(query: Query<'_>, params: Params<'_>, extent: Extent) -> Self {
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
            extent,
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

    /// What another database answers, if it is one that does.
    async fn run_elsewhere(
        &self,
        session: &mut Session,
        policy: Policy<'_>,
    ) -> Result<Option<RowSet>> {
        let refs;
        let params = match &self.params {
            OwnedParams::Positional(values) => Params::Positional(values),
            OwnedParams::Named(named) => {
                refs = named_refs(named);
                Params::Named(&refs)
            }
        };
        session
            .rows_elsewhere(self.query(), params, self.extent, policy)
            .await
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
