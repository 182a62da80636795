//! A connection of a pool for oneself.

use std::sync::Arc;
use std::time::Instant;

use lookaside_value::{ParamBatch, Value};

use super::Inner;
use super::connection::Exclusive;
use super::plan::{Outcome, Place};
use crate::{Answer, Description, Request, Result, Syncs, face, mysql, postgres};

/// A connection of a [`Pool`](super::Pool) that is one caller's for a while.
///
/// It is everybody's again as soon as this is dropped and all that was asked is answered. A
/// transaction that is open then is rolled back. Other settings of the session stay as they are.
///
/// ```no_run
/// # async fn example(pool: &lookaside_client::Pool) -> lookaside_client::Result<()> {
/// use lookaside_client::TransactionOptions;
/// use lookaside_value::Value;
///
/// let mut lock = pool.lock().await?;
/// if let Some(postgres) = lock.as_postgres() {
///     let transaction = postgres.begin(TransactionOptions::default()).await?;
///     transaction.query("delete from goods where id = $1", &[Value::Int(7)]).await?;
///     transaction.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct PoolLock {
    exclusive: Exclusive,
    /// Last, so that the connection is free when it is given back.
    _return: Return,
}

/// Gives the connection back when it is dropped.
pub(super) struct Return {
    inner: Arc<Inner>,
    place: Place,
}

impl Return {
    pub(super) fn new(inner: &Arc<Inner>, place: Place) -> Self {
        let inner = Arc::clone(inner);
        Self { inner, place }
    }
}

impl PoolLock {
    pub(super) fn new(exclusive: Exclusive, returned: Return) -> Self {
        Self {
            exclusive,
            _return: returned,
        }
    }

    /// Asks and waits for the answer; `$1`, `$2`, … stand for the values.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit, or the connection is lost.
    pub async fn query(&self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Answer> {
        let mut answers = self.request(Request::new(sql, params)).await?;
        answers.pop().expect("a query has an answer")
    }

    /// Asks the same with each parameter set, all in one flight.
    ///
    /// # Errors
    ///
    /// When nothing was sent. What happens to a query later is its own result.
    pub async fn query_many(
        &self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::many(sql, params).syncs(syncs)).await
    }

    /// The names and types of a statement's columns and parameters.
    ///
    /// # Errors
    ///
    /// When the server refuses the statement, or the connection is lost.
    pub async fn describe(&self, sql: impl Into<Arc<str>>) -> Result<Arc<Description>> {
        let answers = self.request(Request::describe(sql)).await?;
        Answer::into_description(answers)
    }

    /// Sends a request and waits for its answers.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    pub async fn request(&self, request: Request) -> Result<Vec<Result<Answer>>> {
        match &self.exclusive {
            Exclusive::Postgres(lock) => lock.request(request).await,
            Exclusive::Mysql(lock) => lock.request(request).await,
        }
    }

    /// The connection, if it is one to PostgreSQL, with all that can be done there.
    pub fn as_postgres(&mut self) -> Option<&mut face::Lock<postgres::Driver>> {
        match &mut self.exclusive {
            Exclusive::Postgres(lock) => Some(lock),
            Exclusive::Mysql(_) => None,
        }
    }

    /// The connection, if it is one to MySQL or MariaDB, with all that can be done there.
    pub fn as_mysql(&mut self) -> Option<&mut face::Lock<mysql::Driver>> {
        match &mut self.exclusive {
            Exclusive::Mysql(lock) => Some(lock),
            Exclusive::Postgres(_) => None,
        }
    }
}

impl Drop for Return {
    fn drop(&mut self) {
        // A query may be under way, or a transaction may have to be rolled back: the plan finds out
        // when that is done.
        let now = Instant::now();
        self.inner.hall.unlock(self.place, Outcome::GivenUp, now);
    }
}
