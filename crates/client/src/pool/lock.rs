//! Exclusive use of a connection of a pool.

use std::time::Instant;

use super::connection::{Exclusive, set_up};
use super::options::FOREVER;
use super::polled::PolledConnection;
use super::return_on_drop::ReturnOnDrop;
use crate::driver::Sealed;
use crate::nonblocking::passed;
use crate::queryable::query_methods;
use crate::{Answer, Answers, Queryable, Request, Result, mysql, nonblocking, postgres};

/// Exclusive use of a connection of a [`Pool`](super::Pool).
///
/// It is shared again as soon as this is dropped and all requests are answered. An open transaction
/// is rolled back. If that takes longer than
/// [`PoolOptions::check_timeout`](crate::PoolOptions::check_timeout), the connection is closed.
/// Other settings of the session stay as they are.
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
    /// The last field, so that the connection is free when it is returned.
    returned: ReturnOnDrop,
}

impl PoolLock {
    pub(super) fn new(exclusive: Exclusive, returned: ReturnOnDrop) -> Self {
        Self {
            exclusive,
            returned,
        }
    }

    query_methods!();

    /// The connection itself.
    pub(super) fn exclusive(&self) -> &Exclusive {
        &self.exclusive
    }

    /// The same, for what keeps all others from it.
    pub(super) fn exclusive_mut(&mut self) -> &mut Exclusive {
        &mut self.exclusive
    }

    /// Runs a script, and leaves a shareable session: the connection is reset, or otherwise closed,
    /// also if this is dropped.
    ///
    /// A script whose future is dropped is cancelled: its connection ends, which alone would not
    /// stop the server.
    pub(super) async fn script(mut self, request: Request) -> Result<Vec<Result<Answer>>> {
        self.returned.is_shareable = false;
        let deadline = request.deadline;
        let answers = self.request(request.cancel_on_drop()).await?;
        let timeout = self.returned.inner.options.check_timeout.min(FOREVER);
        let until = Instant::now() + timeout;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        // The reset is refused in a transaction that the script has left open. If it fails, the
        // connection is closed.
        tokio::select! {
            biased;
            _ = self.reset() => {}
            () = passed(Some(until)) => {}
        }
        Ok(answers)
    }

    /// Resets the session to its state after the pool opened it: the server's reset, followed by
    /// the statements of [`PoolOptions::session`](crate::PoolOptions::session). See
    /// [`nonblocking::Lock::reset`].
    ///
    /// Where it fails, or its future is dropped before it is done, the session may lack those
    /// statements: unless another reset succeeds, the connection is closed when this is dropped.
    ///
    /// # Errors
    ///
    /// When the server refuses, or the connection is lost.
    pub async fn reset(&mut self) -> Result<()> {
        self.returned.is_shareable = false;
        match &mut self.exclusive {
            Exclusive::Postgres(lock) => lock.reset().await?,
            Exclusive::Mysql(lock) => lock.reset().await?,
        }
        let lock = &*self;
        let ask = |request| async move { lock.request(request).await.map(Answers::from) };
        set_up(&lock.returned.inner.options.session, ask).await?;
        self.returned.is_shareable = true;
        Ok(())
    }

    /// Detaches the connection from its task, for an event loop: the holder itself sends and
    /// receives on the socket, without another thread or task.
    ///
    /// # Errors
    ///
    /// When the connection is lost.
    pub async fn into_polled(mut self) -> Result<PolledConnection> {
        self.returned.is_shareable = false;
        let connection = match &self.exclusive {
            Exclusive::Postgres(lock) => lock.detach().await?,
            Exclusive::Mysql(lock) => lock.detach().await?,
        };
        Ok(PolledConnection::new(connection, self.returned))
    }

    /// The complete interface of the connection, if it is one to PostgreSQL. Its own
    /// [`reset`](nonblocking::Lock::reset) does not run
    /// [`PoolOptions::session`](crate::PoolOptions::session): [`reset`](Self::reset) of this does.
    pub fn as_postgres(&mut self) -> Option<&mut nonblocking::Lock<postgres::PostgresDriver>> {
        match &mut self.exclusive {
            Exclusive::Postgres(lock) => Some(lock),
            Exclusive::Mysql(_) => None,
        }
    }

    /// The complete interface of the connection, if it is one to MySQL or MariaDB. As with
    /// [`as_postgres`](Self::as_postgres), its own `reset` does not run
    /// [`PoolOptions::session`](crate::PoolOptions::session).
    pub fn as_mysql(&mut self) -> Option<&mut nonblocking::Lock<mysql::MysqlDriver>> {
        match &mut self.exclusive {
            Exclusive::Mysql(lock) => Some(lock),
            Exclusive::Postgres(_) => None,
        }
    }
}

impl Sealed for PoolLock {}

impl Queryable for PoolLock {
    async fn answers(&self, request: Request) -> Result<Answers> {
        self.exclusive.answers(request).await
    }
}
