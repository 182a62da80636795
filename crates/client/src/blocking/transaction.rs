//! Transactions on blocking connections.

mod row_stream;

use std::sync::Arc;

use lookaside_value::Value;

use super::{Connection, Queryable, blocking_query_methods};
use crate::driver::{Driver, Sealed};
use crate::transaction::Level;
use crate::{Answers, Request, Result, TransactionOptions};

pub use row_stream::RowStream;

/// A transaction, or a savepoint in one. If it is dropped without [`commit`](Self::commit), it is
/// rolled back.
///
/// See the [nonblocking one](crate::nonblocking::Transaction).
pub struct Transaction<'c, D: Driver> {
    connection: &'c mut Connection<D>,
    level: Level,
    /// Whether it is rolled back on drop.
    is_open: bool,
}

impl<D: Driver> Connection<D> {
    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub fn begin(&mut self, options: TransactionOptions) -> Result<Transaction<'_, D>> {
        let transaction = Transaction {
            connection: self,
            level: Level::Transaction,
            is_open: true,
        };
        for sql in D::begin_statements(&options) {
            transaction.connection.query(sql, &[])?;
        }
        Ok(transaction)
    }
}

impl<'c, D: Driver> Transaction<'c, D> {
    /// Sets a savepoint: what follows can be rolled back without the rest.
    ///
    /// # Errors
    ///
    /// When the transaction has failed, or the connection is lost.
    pub fn savepoint(&mut self) -> Result<Transaction<'_, D>> {
        let level = self.level.inner();
        let Level::Savepoint(number) = level else {
            panic!("what is inside of a transaction is a savepoint");
        };
        self.query(Level::savepoint(number), &[])?;
        Ok(Transaction {
            connection: self.connection,
            level,
            is_open: true,
        })
    }

    /// Commits the transaction, or releases the savepoint, which makes its work part of the outer
    /// level.
    ///
    /// # Errors
    ///
    /// When the server refuses; then nothing took effect. When the connection is lost meanwhile,
    /// the outcome is unknown; see [`is_connection_lost`](crate::Error::is_connection_lost).
    pub fn commit(mut self) -> Result<()> {
        let committed = self.query(self.level.commit(), &[]);
        // After a failed release, the savepoint is rolled back, and the outer level continues.
        self.is_open = committed.is_err() && self.level != Level::Transaction;
        committed.map(drop)
    }

    /// Rolls back the transaction, or to the savepoint.
    ///
    /// # Errors
    ///
    /// When the connection is lost; then it is rolled back as well.
    pub fn rollback(mut self) -> Result<()> {
        self.is_open = false;
        self.undo()
    }

    blocking_query_methods!();

    /// Returns the rows of a large result in chunks of `chunk_row_count`, at least 1, of which one
    /// is in memory at a time. See the [nonblocking one](crate::nonblocking::Transaction::stream).
    pub fn stream(
        &mut self,
        sql: impl Into<Arc<str>>,
        params: &[Value],
        chunk_row_count: u32,
    ) -> RowStream<'_, 'c, D> {
        RowStream::new(self, sql.into(), params, chunk_row_count)
    }

    pub(crate) fn connection(&mut self) -> &mut Connection<D> {
        self.connection
    }

    fn undo(&mut self) -> Result<()> {
        for sql in self.level.rollback() {
            self.connection.query(sql, &[])?;
        }
        Ok(())
    }
}

impl<D: Driver> Sealed for Transaction<'_, D> {}

impl<D: Driver> Queryable for Transaction<'_, D> {
    fn answers(&mut self, request: Request) -> Result<Answers> {
        self.connection.answers(request.of_transaction())
    }
}

impl<D: Driver> Drop for Transaction<'_, D> {
    fn drop(&mut self) {
        if self.is_open {
            let undone = self.undo();
            // If the connection is lost, it is rolled back as well.
            if undone.is_err() && self.level == Level::Transaction {
                self.connection.leave_transaction();
            }
        }
    }
}
