//! The queries that all connection-like types have in common.

use std::sync::Arc;

use lookaside_value::{ParamBatch, Row, Value};

use crate::driver::Sealed;
use crate::{Answer, Answers, Description, Request, Result, Syncs};

/// Queries on any of the connection-like types: a [`Client`](crate::nonblocking::Client), its
/// [`Lock`](crate::nonblocking::Lock), a [`Transaction`](crate::nonblocking::Transaction), a
/// [`Pool`](crate::Pool), a [`PoolLock`](crate::PoolLock), a
/// [`PoolTransaction`](crate::PoolTransaction) or a [`PoolSavepoint`](crate::PoolSavepoint).
/// Connections that block have a trait of the same name, [`blocking::Queryable`](crate::blocking::Queryable).
///
/// Each of them also has these methods itself. The trait is for functions that take any of them:
///
/// ```no_run
/// use lookaside_client::{Pool, Queryable, Result, params};
///
/// async fn rename(db: &impl Queryable, id: i64, name: &str) -> Result<u64> {
///     db.execute("update goods set name = $2 where id = $1", params![id, name]).await
/// }
///
/// # async fn example(pool: &Pool) -> Result<()> {
/// rename(pool, 7, "Tea").await?;
/// let transaction = pool.begin().await?;
/// rename(&transaction, 8, "Bread").await?;
/// transaction.commit().await
/// # }
/// ```
///
/// Parameters are `$1`, `$2`, … on PostgreSQL and `?` on MySQL and MariaDB;
/// [`params!`](crate::params) writes their values.
///
/// Only this crate implements it.
pub trait Queryable: Sealed + Sync {
    /// Sends a request and waits for its answers.
    #[doc(hidden)]
    fn answers(&self, request: Request) -> impl Future<Output = Result<Answers>> + Send;

    /// Runs a statement and returns its answer with all rows.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit its parameter, or the connection is lost. With
    /// a pool also when no connection is available in time.
    fn query(
        &self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
    ) -> impl Future<Output = Result<Answer>> + Send {
        let answers = self.answers(Request::new(sql, params));
        async move { answers.await?.into_one() }
    }

    /// Runs a statement that returns exactly one row, and returns that row.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query), and when there is no row or more than one
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn query_one(
        &self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
    ) -> impl Future<Output = Result<Row>> + Send {
        let answers = self.answers(Request::new(sql, params));
        async move { answers.await?.into_one_row() }
    }

    /// Runs a statement that returns at most one row, and returns that row.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query), and when there is more than one row
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn query_opt(
        &self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
    ) -> impl Future<Output = Result<Option<Row>>> + Send {
        let answers = self.answers(Request::new(sql, params));
        async move { answers.await?.into_one_or_no_row() }
    }

    /// Runs a statement and returns how many rows it changed or selected; 0 if the server counts
    /// none, as for `create table`.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    fn execute(
        &self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
    ) -> impl Future<Output = Result<u64>> + Send {
        let answers = self.answers(Request::new(sql, params));
        async move { answers.await?.into_row_count() }
    }

    /// Runs any number of statements without parameters, as a [script](Request::script), and drops
    /// their rows. Those outside of a transaction are one transaction together. PostgreSQL only.
    ///
    /// # Errors
    ///
    /// When a statement fails, which ends the script; and always on MySQL and MariaDB
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn batch_execute(&self, sql: impl Into<Arc<str>>) -> impl Future<Output = Result<()>> + Send {
        let answers = self.answers(Request::script(sql, 0));
        async move { answers.await?.into_success() }
    }

    /// Runs a statement with each parameter set, all in one pipelined batch on one connection.
    ///
    /// # Errors
    ///
    /// When nothing was sent. Later errors of a query are its own result.
    fn query_many(
        &self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> impl Future<Output = Result<Vec<Result<Answer>>>> + Send {
        self.request(Request::many(sql, params).syncs(syncs))
    }

    /// The names and types of a statement's columns and parameters. The statement is only prepared,
    /// not run.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    fn describe(
        &self,
        sql: impl Into<Arc<str>>,
    ) -> impl Future<Output = Result<Arc<Description>>> + Send {
        let answers = self.answers(Request::describe(sql));
        async move {
            let description = answers.await?.into_description()?;
            match description.type_query() {
                None => Ok(description),
                Some(names) => {
                    let names = self.answers(names).await?.into_one()?;
                    Ok(Arc::new(description.named(&names.rows)))
                }
            }
        }
    }

    /// Sends a request and waits for its answers, one for each parameter set.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    fn request(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Vec<Result<Answer>>>> + Send {
        let answers = self.answers(request);
        async move { Ok(answers.await?.into_vec()) }
    }
}

/// The methods of [`Queryable`] as a type's own, so that no trait needs to be imported for them.
macro_rules! query_methods {
    () => {
        /// Runs a statement and returns its answer with all rows; see
        /// [`Queryable::query`](crate::Queryable::query).
        ///
        /// # Errors
        ///
        /// When the server refuses, a value does not fit, or the connection is lost.
        pub async fn query(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<crate::Answer> {
            crate::Queryable::query(self, sql, params).await
        }

        /// Runs a statement that returns exactly one row; see
        /// [`Queryable::query_one`](crate::Queryable::query_one).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query), and when there is no row or more than one.
        pub async fn query_one(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<lookaside_value::Row> {
            crate::Queryable::query_one(self, sql, params).await
        }

        /// Runs a statement that returns at most one row; see
        /// [`Queryable::query_opt`](crate::Queryable::query_opt).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query), and when there is more than one row.
        pub async fn query_opt(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<Option<lookaside_value::Row>> {
            crate::Queryable::query_opt(self, sql, params).await
        }

        /// Runs a statement and returns how many rows it changed or selected; see
        /// [`Queryable::execute`](crate::Queryable::execute).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query).
        pub async fn execute(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<u64> {
            crate::Queryable::execute(self, sql, params).await
        }

        /// Runs any number of statements without parameters on PostgreSQL; see
        /// [`Queryable::batch_execute`](crate::Queryable::batch_execute).
        ///
        /// # Errors
        ///
        /// When one of them fails, and always on MySQL and MariaDB.
        pub async fn batch_execute(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
        ) -> crate::Result<()> {
            crate::Queryable::batch_execute(self, sql).await
        }

        /// Runs a statement with each parameter set, all in one pipelined batch on one connection;
        /// see [`Queryable::query_many`](crate::Queryable::query_many).
        ///
        /// # Errors
        ///
        /// When nothing was sent. Later errors of a query are its own result.
        pub async fn query_many(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
            params: lookaside_value::ParamBatch,
            syncs: crate::Syncs,
        ) -> crate::Result<Vec<crate::Result<crate::Answer>>> {
            crate::Queryable::query_many(self, sql, params, syncs).await
        }

        /// The names and types of a statement's columns and parameters. The statement is only
        /// prepared, not run.
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query).
        pub async fn describe(
            &self,
            sql: impl Into<std::sync::Arc<str>>,
        ) -> crate::Result<std::sync::Arc<crate::Description>> {
            crate::Queryable::describe(self, sql).await
        }

        /// Sends a request and waits for its answers, one for each parameter set.
        ///
        /// # Errors
        ///
        /// As [`query_many`](Self::query_many).
        pub async fn request(
            &self,
            request: crate::Request,
        ) -> crate::Result<Vec<crate::Result<crate::Answer>>> {
            crate::Queryable::request(self, request).await
        }
    };
}

pub(crate) use query_methods;

/// The values of a statement's parameters, each converted by [`Value::from`]; `None` is NULL.
///
/// ```
/// use lookaside_client::{Value, params};
///
/// let name = String::from("Tea");
/// let values: &[Value] = params![7, name, None::<i64>, true];
/// assert_eq!(values, [Value::Int(7), Value::from("Tea"), Value::Null, Value::Bool(true)]);
/// assert!(params![].is_empty());
/// ```
#[macro_export]
macro_rules! params {
    () => {
        &[] as &[$crate::Value]
    };
    ($($value:expr),+ $(,)?) => {
        &[$($crate::Value::from($value)),+]
    };
}
