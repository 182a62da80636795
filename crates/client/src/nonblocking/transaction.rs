//! Transactions on a locked connection.

mod row_stream;

use std::sync::Arc;

use lookaside_value::Value;

use super::command_queue::Order;
use super::lock::{Lock, PendingAnswers};
use crate::driver::{Driver, Sealed};
use crate::queryable::query_methods;
use crate::transaction::Level;
use crate::{Answers, Queryable, Request, Result, TransactionOptions};

pub use row_stream::RowStream;

/// A transaction, or a savepoint in one. If it is dropped without [`commit`](Self::commit), it is
/// rolled back.
///
/// Its statements are never sent again. After an error, PostgreSQL refuses all further statements
/// until the transaction, or the savepoint around the error, is rolled back. MySQL and MariaDB
/// continue, unless the error rolls back the whole transaction, such as a deadlock: then nothing
/// more is sent in it.
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
    /// Whether it is rolled back on drop.
    is_open: bool,
}

impl<D: Driver> Lock<D> {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub async fn begin(&mut self, options: TransactionOptions) -> Result<Transaction<'_, D>> {
        // If this is interrupted, the transaction that may have begun is rolled back.
        let transaction = Transaction {
            lock: self,
            level: Level::Transaction,
            is_open: true,
        };
        transaction.lock.begin_transaction(&options).await?;
        Ok(transaction)
    }

    /// Sends the statements that begin a transaction, in order.
    pub(crate) async fn begin_transaction(&self, options: &TransactionOptions) -> Result<()> {
        for sql in D::begin_statements(options) {
            self.send_alone(sql).answer().await?;
        }
        Ok(())
    }

    /// Sets a savepoint in a transaction, or in another savepoint.
    pub(crate) async fn savepoint_in(&mut self, outer: Level) -> Result<Transaction<'_, D>> {
        let level = outer.inner();
        let Level::Savepoint(number) = level else {
            panic!("what is inside of a transaction is a savepoint");
        };
        let set = self.send_within(Level::savepoint(number));
        // If this is interrupted, the savepoint that may have been set is rolled back.
        let mut savepoint = Transaction {
            lock: self,
            level,
            is_open: true,
        };
        if let Err(error) = set.answer().await {
            // There is no savepoint to roll back to.
            savepoint.is_open = false;
            return Err(error);
        }
        Ok(savepoint)
    }

    /// Sends a commit; it is queued when this returns.
    pub(crate) fn send_commit(&self, level: Level) -> PendingAnswers<D> {
        self.send_within(level.commit())
    }

    /// Sends the statements that roll back a transaction; they are queued when this returns, so the
    /// wait for the answers can be dropped.
    pub(crate) fn send_rollback(&self, level: Level) -> Vec<PendingAnswers<D>> {
        let statements = level.rollback().into_iter();
        statements.map(|sql| self.send_alone(sql)).collect()
    }

    /// Sends a statement that is only useful within the transaction.
    fn send_within(&self, sql: String) -> PendingAnswers<D> {
        let request = Request::new(sql, &[]).of_transaction();
        self.ask(request, Order::Alone)
    }

    fn send_alone(&self, sql: String) -> PendingAnswers<D> {
        self.ask(Request::new(sql, &[]), Order::Alone)
    }
}

impl<D: Driver> Transaction<'_, D> {
    /// Sets a savepoint: what follows can be rolled back without the rest.
    ///
    /// # Errors
    ///
    /// When the transaction has failed, or the connection is lost.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_, D>> {
        self.lock.savepoint_in(self.level).await
    }

    /// Commits the transaction, or releases the savepoint, which makes its work part of the outer
    /// level.
    ///
    /// # Errors
    ///
    /// When the server refuses; then nothing took effect. When the connection is lost meanwhile,
    /// the outcome is unknown; see [`is_connection_lost`](crate::Error::is_connection_lost).
    pub async fn commit(mut self) -> Result<()> {
        let committed = self.lock.send_commit(self.level);
        self.is_open = false;
        let result = committed.answer().await;
        if result.is_err() {
            // A COMMIT that was not sent in time leaves the transaction open, and a savepoint that
            // was not released remains. If the server has already rolled it back, this has no
            // effect.
            self.undo();
        }
        result.map(drop)
    }

    /// Rolls back the transaction, or to the savepoint.
    ///
    /// # Errors
    ///
    /// When the connection is lost; then it is rolled back as well.
    pub async fn rollback(mut self) -> Result<()> {
        let undone = self.lock.send_rollback(self.level);
        self.is_open = false;
        for undone in undone {
            if let Err(error) = undone.answer().await {
                // If it was not sent in time, the transaction would stay open.
                self.undo();
                return Err(error);
            }
        }
        Ok(())
    }

    query_methods!();

    /// Returns the rows of a large result in chunks of `chunk_row_count`, at least 1, of which one
    /// is in memory at a time. Other queries can be run meanwhile.
    ///
    /// MySQL and MariaDB support this for a SELECT only, by a temporary table that is first filled
    /// with all rows. The rows of other statements arrive at once, and are split into chunks here.
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

    /// Rolls back without waiting for the answer.
    fn undo(&self) {
        for sql in self.level.rollback() {
            self.lock.send_detached(Request::new(sql, &[]));
        }
    }
}

impl<D: Driver> Sealed for Transaction<'_, D> {}

impl<D: Driver> Queryable for Transaction<'_, D> {
    async fn answers(&self, request: Request) -> Result<Answers> {
        self.lock.answers(request.of_transaction()).await
    }
}

impl<D: Driver> Drop for Transaction<'_, D> {
    fn drop(&mut self) {
        if self.is_open {
            self.undo();
        }
    }
}
