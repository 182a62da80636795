//! Transactions on a locked connection.

mod row_stream;

use std::sync::Arc;

use lookaside_value::{ParamBatch, Value};

use super::command_queue::Order;
use super::lock::Lock;
use crate::driver::Driver;
use crate::transaction::Level;
use crate::{Answer, Description, Request, Result, Syncs, TransactionOptions};

pub use row_stream::RowStream;

/// A transaction, or a savepoint in one. Dropped without [`commit`](Self::commit), it is undone.
///
/// Nothing in it is sent again for any reason. After an error of the server nothing more is
/// answered on PostgreSQL, until it or the savepoint around the error is rolled back. MySQL and
/// MariaDB go on, unless the error was one that they roll the whole transaction back for, such as a
/// deadlock: then nothing more is sent in it.
///
/// ```no_run
/// # use lookaside_client::{Result, TransactionOptions, postgres::Client};
/// # use lookaside_value::Value;
/// # async fn example(client: &Client) -> Result<()> {
/// let mut lock = client.lock().await?;
/// let mut transaction = lock.begin(TransactionOptions::default()).await?;
/// let sql = "update accounts set amount = amount + $2 where id = $1";
/// transaction.query(sql, &[Value::Int(1), Value::Int(-10)]).await?;
///
/// let savepoint = transaction.savepoint().await?;
/// match savepoint.query(sql, &[Value::Int(2), Value::Int(10)]).await {
///     Ok(_) => savepoint.commit().await?,
///     Err(_) => savepoint.rollback().await?,
/// }
/// transaction.commit().await
/// # }
/// ```
pub struct Transaction<'l, D: Driver> {
    lock: &'l mut Lock<D>,
    level: Level,
    /// Whether it is undone when it is dropped.
    is_open: bool,
}

impl<D: Driver> Lock<D> {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub async fn begin(&mut self, options: TransactionOptions) -> Result<Transaction<'_, D>> {
        // Whatever interrupts this, what may have begun is undone.
        let transaction = Transaction {
            lock: self,
            level: Level::Transaction,
            is_open: true,
        };
        for sql in D::begin_statements(&options) {
            transaction.alone(sql).await?;
        }
        Ok(transaction)
    }
}

impl<D: Driver> Transaction<'_, D> {
    /// Sets a savepoint: what follows can be undone without the rest.
    ///
    /// # Errors
    ///
    /// When the transaction has failed, or the connection is lost.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_, D>> {
        let level = self.level.inner();
        let Level::Savepoint(number) = level else {
            panic!("what is inside of a transaction is a savepoint");
        };
        let mut savepoint = Transaction {
            lock: self.lock,
            level,
            is_open: false,
        };
        let set = savepoint.send_within(Level::savepoint(number));
        savepoint.is_open = true;
        if let Err(error) = set.answer().await {
            // There is none to go back to.
            savepoint.is_open = false;
            return Err(error);
        }
        Ok(savepoint)
    }

    /// Makes what was done part of what is around it; for all to see, if this is not a savepoint.
    ///
    /// # Errors
    ///
    /// When the server refuses, and then nothing was done. When the connection is lost meanwhile,
    /// is not known; see [`is_connection_lost`](crate::Error::is_connection_lost).
    pub async fn commit(mut self) -> Result<()> {
        let committed = self.send_within(self.level.commit());
        self.is_open = false;
        let result = committed.answer().await;
        if result.is_err() {
            // A COMMIT that was not sent in time leaves it open, and a savepoint that was not released
            // stays. Where the server has undone it already, this does nothing.
            self.undo();
        }
        result.map(drop)
    }

    /// Undoes what was done.
    ///
    /// # Errors
    ///
    /// When the connection is lost; then it is undone as well.
    pub async fn rollback(mut self) -> Result<()> {
        let statements = self.level.rollback().into_iter();
        // All are on their way before the first is waited for, so that this can be dropped.
        let undone: Vec<_> = statements.map(|sql| self.send_alone(sql)).collect();
        self.is_open = false;
        for undone in undone {
            if let Err(error) = undone.answer().await {
                // What was not sent in time would leave it open.
                self.undo();
                return Err(error);
            }
        }
        Ok(())
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
        self.lock.describe(sql).await
    }

    /// Sends a request and waits for its answers.
    ///
    /// # Errors
    ///
    /// As [`query_many`](Self::query_many).
    pub async fn request(&self, request: Request) -> Result<Vec<Result<Answer>>> {
        self.lock.request(request.of_transaction()).await
    }

    /// The rows of a large result in chunks of `chunk_row_count`, at least 1, of which one is in
    /// memory at a time. Other queries can be asked meanwhile.
    ///
    /// MySQL and MariaDB give the rows of a SELECT this way, from a table that they fill with all of
    /// them first. Of other statements all rows come at once, and are cut into chunks here.
    pub fn stream(
        &self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
        chunk_row_count: u32,
    ) -> RowStream<'_, D> {
        RowStream::new(self.lock, sql.into(), params, chunk_row_count)
    }

    pub(crate) fn lock(&self) -> &Lock<D> {
        self.lock
    }

    /// Undoes what was done, and does not wait for it.
    fn undo(&self) {
        for sql in self.level.rollback() {
            self.lock.send_detached(Request::new(sql, &[]));
        }
    }

    async fn alone(&self, sql: String) -> Result<Answer> {
        self.send_alone(sql).answer().await
    }

    /// Sends what is of no use without the transaction.
    fn send_within(&self, sql: String) -> super::lock::PendingAnswers<D> {
        let request = Request::new(sql, &[]).of_transaction();
        self.lock.ask(request, Order::Alone)
    }

    fn send_alone(&self, sql: String) -> super::lock::PendingAnswers<D> {
        self.lock.ask(Request::new(sql, &[]), Order::Alone)
    }
}

impl<D: Driver> Drop for Transaction<'_, D> {
    fn drop(&mut self) {
        if self.is_open {
            self.undo();
        }
    }
}
