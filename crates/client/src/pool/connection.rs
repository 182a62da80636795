//! The kinds of connections that a pool can have. Each kind of server is a variant here.

use std::time::Duration;

use tokio::runtime::Id;

use super::PoolOptions;
use super::options::FOREVER;
use crate::driver::Driver;
use crate::net::watch_peer;
use crate::nonblocking::{self, ConnectionWatch};
use crate::transaction::Level;
use crate::{
    Answers, Config, Error, MysqlConfig, PostgresConfig, Queryable, Request, Result, TargetSession,
    TransactionOptions, mysql, postgres,
};

/// The server of the connections, and their set-up.
pub(super) struct Connector {
    server: Server,
    session: Vec<String>,
    timeout: Duration,
}

enum Server {
    Postgres(Box<PostgresConfig>, postgres::Options),
    Mysql(Box<MysqlConfig>, mysql::Options),
}

/// A handle of a connection. Clones are handles of the same connection.
#[derive(Clone)]
pub(super) enum Connection {
    Postgres(postgres::Client),
    Mysql(mysql::Client),
}

/// A locked connection.
pub(super) enum Exclusive {
    Postgres(nonblocking::Lock<postgres::PostgresDriver>),
    Mysql(nonblocking::Lock<mysql::MysqlDriver>),
}

impl Connector {
    pub(super) fn new(config: Config, options: &PoolOptions) -> Self {
        let timeout = options.acquire_timeout.min(FOREVER);
        let server = match config {
            Config::Postgres(mut config) => {
                watch_peer(&mut config.keepalives);
                let rounds = match config.target_session {
                    TargetSession::PreferStandby => 2,
                    _ => 1,
                };
                let attempt_count = config.hosts.len() * rounds;
                config.connect_timeout = share(config.connect_timeout, timeout, attempt_count);
                Server::Postgres(Box::new(config), options.postgres.clone())
            }
            Config::Mysql(mut config) => {
                watch_peer(&mut config.keepalives);
                let attempt_count = config.hosts.len();
                config.connect_timeout = share(config.connect_timeout, timeout, attempt_count);
                Server::Mysql(Box::new(config), options.mysql.clone())
            }
        };
        Self {
            server,
            session: options.session.clone(),
            timeout,
        }
    }

    /// The maximum number of requests in flight on one connection. More would only wait for each
    /// other.
    pub(super) fn depth_max(&self) -> usize {
        match &self.server {
            Server::Postgres(_, options) => options.window,
            Server::Mysql(_, options) => options.window,
        }
    }

    /// Connects, logs in and prepares the session. Bounded by the time that a waiter waits for a
    /// connection.
    pub(super) async fn connect(&self) -> Result<(Connection, ConnectionWatch)> {
        let connecting = tokio::time::timeout(self.timeout, self.begin());
        let connected = connecting.await;
        connected.unwrap_or_else(|_| Err(Error::connect_timeout(self.timeout)))
    }

    async fn begin(&self) -> Result<(Connection, ConnectionWatch)> {
        let (connection, watch) = match &self.server {
            Server::Postgres(config, options) => {
                let (client, watch) =
                    postgres::Client::connect_watched(config, options.clone()).await?;
                (Connection::Postgres(client), watch)
            }
            Server::Mysql(config, options) => {
                let (client, watch) =
                    mysql::Client::connect_watched(config, options.clone()).await?;
                (Connection::Mysql(client), watch)
            }
        };
        set_up(&self.session, |request| connection.ask(request)).await?;
        Ok((connection, watch))
    }
}

impl Connection {
    pub(super) async fn ask(&self, request: Request) -> Result<Answers> {
        match self {
            Self::Postgres(client) => client.ask(request).await,
            Self::Mysql(client) => client.ask(request).await,
        }
    }

    /// Locks the connection; requests without a deadline have `timeout`. Once it is dropped, the
    /// connection is free within `release_timeout`, or fails. With `cancel_on_drop`, requests are
    /// canceled if their future is dropped before they are answered.
    pub(super) async fn lock(
        &self,
        timeout: Option<Duration>,
        release_timeout: Duration,
        cancel_on_drop: bool,
    ) -> Result<Exclusive> {
        let release = Some(release_timeout);
        Ok(match self {
            Self::Postgres(client) => {
                let lock = client.lock_within(release).await?.within(timeout);
                Exclusive::Postgres(lock.canceling_on_drop(cancel_on_drop))
            }
            Self::Mysql(client) => {
                let lock = client.lock_within(release).await?.within(timeout);
                Exclusive::Mysql(lock.canceling_on_drop(cancel_on_drop))
            }
        })
    }

    /// Whether requests wait for the end of a lock.
    pub(super) fn is_locked(&self) -> bool {
        match self {
            Self::Postgres(client) => client.is_locked(),
            Self::Mysql(client) => client.is_locked(),
        }
    }

    /// The runtime that its task runs on.
    pub(super) fn runtime(&self) -> Id {
        match self {
            Self::Postgres(client) => client.runtime(),
            Self::Mysql(client) => client.runtime(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Self::Postgres(client) => client.is_closed(),
            Self::Mysql(client) => client.is_closed(),
        }
    }
}

impl Exclusive {
    pub(super) async fn answers(&self, request: Request) -> Result<Answers> {
        match self {
            Self::Postgres(lock) => lock.answers(request).await,
            Self::Mysql(lock) => lock.answers(request).await,
        }
    }

    pub(super) async fn begin(&self, options: TransactionOptions) -> Result<()> {
        match self {
            Self::Postgres(lock) => lock.begin_transaction(&options).await,
            Self::Mysql(lock) => lock.begin_transaction(&options).await,
        }
    }

    pub(super) async fn commit(&self) -> Result<()> {
        let answer = match self {
            Self::Postgres(lock) => lock.send_commit(Level::Transaction).answer().await,
            Self::Mysql(lock) => lock.send_commit(Level::Transaction).answer().await,
        };
        answer.map(drop)
    }

    pub(super) async fn rollback(&self) -> Result<()> {
        match self {
            Self::Postgres(lock) => rolled_back(lock).await,
            Self::Mysql(lock) => rolled_back(lock).await,
        }
    }
}

async fn rolled_back<D: Driver>(lock: &nonblocking::Lock<D>) -> Result<()> {
    for undone in lock.send_rollback(Level::Transaction) {
        undone.answer().await?;
    }
    Ok(())
}

/// Runs the statements of [`PoolOptions::session`].
pub(super) async fn set_up<F: Future<Output = Result<Answers>>>(
    statements: &[String],
    ask: impl Fn(Request) -> F,
) -> Result<()> {
    for sql in statements {
        let request = Request::new(sql.as_str(), &[]).of_session();
        let answer = ask(request).await.and_then(Answers::into_one);
        answer.map_err(|error| Error::session(sql, error))?;
    }
    Ok(())
}

/// The time for one host, so that all of them can be tried within the limit for a connection.
fn share(limit: Option<Duration>, whole: Duration, attempt_count: usize) -> Option<Duration> {
    if attempt_count <= 1 {
        return limit;
    }
    let part = whole / u32::try_from(attempt_count).unwrap_or(u32::MAX);
    Some(limit.map_or(part, |limit| limit.min(part)))
}
