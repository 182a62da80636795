//! Savepoints in a transaction on a connection of a pool.

use crate::driver::Sealed;
use crate::mysql::MysqlDriver;
use crate::nonblocking::Transaction;
use crate::pool::connection::Exclusive;
use crate::postgres::PostgresDriver;
use crate::queryable::query_methods;
use crate::transaction::Level;
use crate::{Answers, Queryable, Request, Result};

/// A savepoint in a [`PoolTransaction`](super::PoolTransaction), or in another savepoint. Dropped
/// without [`commit`](Self::commit), what was done since it was set is undone, and the transaction
/// goes on.
pub struct PoolSavepoint<'t> {
    savepoint: Savepoint<'t>,
}

/// By the kind of the connection.
enum Savepoint<'t> {
    Postgres(Transaction<'t, PostgresDriver>),
    Mysql(Transaction<'t, MysqlDriver>),
}

impl<'t> PoolSavepoint<'t> {
    /// The first in the transaction that is open on the connection.
    pub(super) async fn first(connection: &'t mut Exclusive) -> Result<Self> {
        let savepoint = match connection {
            Exclusive::Postgres(lock) => {
                Savepoint::Postgres(lock.savepoint_in(Level::Transaction).await?)
            }
            Exclusive::Mysql(lock) => {
                Savepoint::Mysql(lock.savepoint_in(Level::Transaction).await?)
            }
        };
        Ok(Self { savepoint })
    }

    query_methods!();

    /// Sets a savepoint in this one.
    ///
    /// # Errors
    ///
    /// When the transaction has failed, or the connection is lost.
    pub async fn savepoint(&mut self) -> Result<PoolSavepoint<'_>> {
        let savepoint = match &mut self.savepoint {
            Savepoint::Postgres(outer) => Savepoint::Postgres(outer.savepoint().await?),
            Savepoint::Mysql(outer) => Savepoint::Mysql(outer.savepoint().await?),
        };
        Ok(PoolSavepoint { savepoint })
    }

    /// Makes what was done a part of the transaction, or of the savepoint around this one.
    ///
    /// # Errors
    ///
    /// When the server refuses, and then nothing was done, or the connection is lost.
    pub async fn commit(self) -> Result<()> {
        match self.savepoint {
            Savepoint::Postgres(savepoint) => savepoint.commit().await,
            Savepoint::Mysql(savepoint) => savepoint.commit().await,
        }
    }

    /// Undoes what was done since the savepoint was set.
    ///
    /// # Errors
    ///
    /// When the connection is lost; then the whole transaction is undone.
    pub async fn rollback(self) -> Result<()> {
        match self.savepoint {
            Savepoint::Postgres(savepoint) => savepoint.rollback().await,
            Savepoint::Mysql(savepoint) => savepoint.rollback().await,
        }
    }
}

impl Sealed for PoolSavepoint<'_> {}

impl Queryable for PoolSavepoint<'_> {
    async fn answers(&self, request: Request) -> Result<Answers> {
        match &self.savepoint {
            Savepoint::Postgres(savepoint) => savepoint.answers(request).await,
            Savepoint::Mysql(savepoint) => savepoint.answers(request).await,
        }
    }
}
