//! Transactions on a connection of a pool.

mod savepoint;

use super::Pool;
use super::lock::PoolLock;
use crate::driver::Sealed;
use crate::queryable::query_methods;
use crate::{Answers, Queryable, Request, Result, TransactionOptions};

pub use savepoint::PoolSavepoint;

/// A transaction on a connection of a [`Pool`], which is locked for it. If it is dropped without
/// [`commit`](Self::commit), it is rolled back, and the connection is shared again after that.
///
/// It behaves like a [`Transaction`](crate::nonblocking::Transaction). For large results and
/// several transactions on one connection, use [`Pool::lock`].
///
/// ```no_run
/// # use lookaside_client::{Pool, Result, params};
/// # async fn example(pool: &Pool) -> Result<()> {
/// let transaction = pool.begin().await?;
/// let sql = "update accounts set amount = amount + $2 where id = $1";
/// transaction.execute(sql, params![1, -10]).await?;
/// transaction.execute(sql, params![2, 10]).await?;
/// transaction.commit().await
/// # }
/// ```
pub struct PoolTransaction {
    /// Rolls back an open transaction on drop.
    lock: PoolLock,
}

impl Pool {
    /// Begins a transaction on a connection that is locked for it.
    ///
    /// # Errors
    ///
    /// When there is no connection in time, the server refuses, or the connection is lost.
    pub async fn begin(&self) -> Result<PoolTransaction> {
        self.begin_with(TransactionOptions::default()).await
    }

    /// The same with options.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_with(&self, options: TransactionOptions) -> Result<PoolTransaction> {
        let transaction = PoolTransaction {
            lock: self.lock().await?,
        };
        transaction.lock.exclusive().begin(options).await?;
        Ok(transaction)
    }
}

impl PoolTransaction {
    query_methods!();

    /// Sets a savepoint: what follows can be undone without the rest.
    ///
    /// ```no_run
    /// # use lookaside_client::{Pool, Result, params};
    /// # async fn example(pool: &Pool) -> Result<()> {
    /// let mut transaction = pool.begin().await?;
    /// let savepoint = transaction.savepoint().await?;
    /// match savepoint.execute("delete from goods where id = $1", params![7]).await {
    ///     Ok(_) => savepoint.commit().await?,
    ///     Err(_) => savepoint.rollback().await?,
    /// }
    /// transaction.commit().await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the transaction has failed, or the connection is lost.
    pub async fn savepoint(&mut self) -> Result<PoolSavepoint<'_>> {
        PoolSavepoint::first(self.lock.exclusive_mut()).await
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// When the server refuses; then nothing took effect. When the connection is lost meanwhile,
    /// the outcome is unknown; see [`is_connection_lost`](crate::Error::is_connection_lost).
    pub async fn commit(self) -> Result<()> {
        self.lock.exclusive().commit().await
    }

    /// Rolls back the transaction.
    ///
    /// # Errors
    ///
    /// When the connection is lost; then it is rolled back as well.
    pub async fn rollback(self) -> Result<()> {
        self.lock.exclusive().rollback().await
    }
}

impl Sealed for PoolTransaction {}

impl Queryable for PoolTransaction {
    async fn answers(&self, request: Request) -> Result<Answers> {
        self.lock.answers(request.of_transaction()).await
    }
}
