//! The queries that blocking connections and their transactions have.

use std::sync::Arc;

use lookaside_value::{ParamBatch, Row, Value};

use crate::driver::Sealed;
use crate::{Answer, Answers, Description, Request, Result, Syncs};

/// Queries on a blocking [`Connection`](super::Connection) or on a
/// [`Transaction`](super::Transaction) of one, with the names, results and errors of the
/// nonblocking [`Queryable`](crate::Queryable).
///
/// Both have these methods themselves. The trait is for functions that take either:
///
/// ```no_run
/// use lookaside_client::blocking::Queryable;
/// use lookaside_client::{Result, TransactionOptions, params, postgres::blocking::Connection};
///
/// fn rename(db: &mut impl Queryable, id: i64, name: &str) -> Result<u64> {
///     db.execute("update goods set name = $2 where id = $1", params![id, name])
/// }
///
/// # fn example(connection: &mut Connection) -> Result<()> {
/// rename(connection, 7, "Tea")?;
/// let mut transaction = connection.begin(TransactionOptions::default())?;
/// rename(&mut transaction, 8, "Bread")?;
/// transaction.commit()
/// # }
/// ```
///
/// Only this crate implements it.
pub trait Queryable: Sealed {
    /// Sends a request and waits for its answers.
    #[doc(hidden)]
    fn answers(&mut self, request: Request) -> Result<Answers>;

    /// Runs a statement and returns its answer with all rows.
    ///
    /// # Errors
    ///
    /// When the server refuses, a value does not fit its parameter, or the connection is lost.
    fn query(&mut self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Answer> {
        self.answers(Request::new(sql, params))?.into_one()
    }

    /// Runs a statement that gives exactly one row, and returns that.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query), and when there is no row or more than one
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn query_one(&mut self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Row> {
        self.answers(Request::new(sql, params))?.into_one_row()
    }

    /// Runs a statement that gives at most one row, and returns that.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query), and when there is more than one row
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn query_opt(&mut self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<Option<Row>> {
        let answers = self.answers(Request::new(sql, params))?;
        answers.into_one_or_no_row()
    }

    /// Runs a statement and returns how many rows it changed or selected; 0 where the server counts
    /// none, as for `create table`.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    fn execute(&mut self, sql: impl Into<Arc<str>>, params: &[Value]) -> Result<u64> {
        self.answers(Request::new(sql, params))?.into_row_count()
    }

    /// Runs any number of statements without parameters, as a [script](Request::script), and drops
    /// their rows. Those outside of a transaction are one transaction together. PostgreSQL only.
    ///
    /// # Errors
    ///
    /// When a statement fails, which ends the script; and always on MySQL and MariaDB
    /// ([`ErrorKind::Misuse`](crate::ErrorKind::Misuse)).
    fn batch_execute(&mut self, sql: impl Into<Arc<str>>) -> Result<()> {
        self.answers(Request::script(sql, 0))?.into_success()
    }

    /// Runs a statement with each parameter set, all in one flight.
    ///
    /// # Errors
    ///
    /// When nothing was sent. What happens to a query later is its own result.
    fn query_many(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: ParamBatch,
        syncs: Syncs,
    ) -> Result<Vec<Result<Answer>>> {
        self.request(Request::many(sql, params).syncs(syncs))
    }

    /// The names and types of a statement's columns and parameters. It is prepared for that, and
    /// not run.
    ///
    /// # Errors
    ///
    /// As [`query`](Self::query).
    fn describe(&mut self, sql: impl Into<Arc<str>>) -> Result<Arc<Description>> {
        let description = self.answers(Request::describe(sql))?.into_description()?;
        match description.type_query() {
            None => Ok(description),
            Some(names) => {
                let names = self.answers(names)?.into_one()?;
                Ok(Arc::new(description.named(&names.rows)))
            }
        }
    }

    /// Sends a request and waits for its answers, one for each parameter set.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    fn request(&mut self, request: Request) -> Result<Vec<Result<Answer>>> {
        Ok(self.answers(request)?.into_vec())
    }
}

/// The methods of [`Queryable`] as a type's own, so that no trait needs to be imported for them.
macro_rules! blocking_query_methods {
    () => {
        /// Runs a statement and returns its answer with all rows; see
        /// [`Queryable::query`](crate::blocking::Queryable::query).
        ///
        /// # Errors
        ///
        /// When the server refuses, a value does not fit, or the connection is lost.
        pub fn query(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<crate::Answer> {
            crate::blocking::Queryable::query(self, sql, params)
        }

        /// Runs a statement that gives exactly one row; see
        /// [`Queryable::query_one`](crate::blocking::Queryable::query_one).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query), and when there is no row or more than one.
        pub fn query_one(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<lookaside_value::Row> {
            crate::blocking::Queryable::query_one(self, sql, params)
        }

        /// Runs a statement that gives at most one row; see
        /// [`Queryable::query_opt`](crate::blocking::Queryable::query_opt).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query), and when there is more than one row.
        pub fn query_opt(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<Option<lookaside_value::Row>> {
            crate::blocking::Queryable::query_opt(self, sql, params)
        }

        /// Runs a statement and returns how many rows it changed or selected; see
        /// [`Queryable::execute`](crate::blocking::Queryable::execute).
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query).
        pub fn execute(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
            params: &[lookaside_value::Value],
        ) -> crate::Result<u64> {
            crate::blocking::Queryable::execute(self, sql, params)
        }

        /// Runs any number of statements without parameters on PostgreSQL; see
        /// [`Queryable::batch_execute`](crate::blocking::Queryable::batch_execute).
        ///
        /// # Errors
        ///
        /// When one of them fails, and always on MySQL and MariaDB.
        pub fn batch_execute(&mut self, sql: impl Into<std::sync::Arc<str>>) -> crate::Result<()> {
            crate::blocking::Queryable::batch_execute(self, sql)
        }

        /// Runs a statement with each parameter set, all in one flight; see
        /// [`Queryable::query_many`](crate::blocking::Queryable::query_many).
        ///
        /// # Errors
        ///
        /// When nothing was sent. What happens to a query later is its own result.
        pub fn query_many(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
            params: lookaside_value::ParamBatch,
            syncs: crate::Syncs,
        ) -> crate::Result<Vec<crate::Result<crate::Answer>>> {
            crate::blocking::Queryable::query_many(self, sql, params, syncs)
        }

        /// The names and types of a statement's columns and parameters. It is prepared for that,
        /// and not run.
        ///
        /// # Errors
        ///
        /// As [`query`](Self::query).
        pub fn describe(
            &mut self,
            sql: impl Into<std::sync::Arc<str>>,
        ) -> crate::Result<std::sync::Arc<crate::Description>> {
            crate::blocking::Queryable::describe(self, sql)
        }

        /// Sends a request and waits for its answers, one for each parameter set.
        ///
        /// # Errors
        ///
        /// As [`query_many`](Self::query_many).
        pub fn request(
            &mut self,
            request: crate::Request,
        ) -> crate::Result<Vec<crate::Result<crate::Answer>>> {
            crate::blocking::Queryable::request(self, request)
        }
    };
}

pub(crate) use blocking_query_methods;
