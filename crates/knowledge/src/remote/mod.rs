//! Providers: PostgreSQL or MySQL servers, each with a pool of connections.
//!
//! The connections run on one thread ([`runtime`]), except those that callers drive themselves
//! ([`direct`]). Callers query them from any thread, for all keys at once that no cache has, and
//! get rows with the columns that the statement was described with.

mod dependency;
mod direct;
mod errors;
mod failed_keys;
mod log_end;
mod open;
mod outage;
mod stale;
mod statement;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use lookaside_client::postgres::{self, Route};
use lookaside_client::{
    Config as Connection, ErrorKind as ClientKind, Pool, PoolOptions, Request,
    Result as ClientResult, Syncs,
};
use lookaside_value::{Extent, RowSet, Value};

use self::direct::Limits;
pub(crate) use self::direct::{Direct, DirectConnections};
use self::failed_keys::FailedKeys;
use self::open::Embedded;
pub use self::open::{ProviderStatus, ResolveError};
pub(crate) use self::open::{Providers, Resolver};
use self::outage::Outage;
pub(crate) use self::stale::{STALE_LIFETIME, Stale};
pub(crate) use self::statement::RemoteStatement;
pub(crate) use self::transport::{Blocking, Pooled, Transport, resend_lost};
use crate::Result;
use crate::cache::{CacheBytes, KeyRef};
use crate::config::ProviderConfig;
use crate::error::Error;
use crate::feed::{Feed, FeedState, FeedStatus, OnChange, TrackedStatement};
use crate::lock::lock;
use crate::postgres_mirror;
use crate::provider::{LocalTables, Names};
use crate::runtime::Runtime;
use crate::scan::Dialect;
use crate::statement::StatementInfo;

/// The most statement descriptions that are kept; as many as the statements of an engine.
const STATEMENT_COUNT_MAX: usize = 65_536;

/// How long to wait for an unavailable server: long enough to connect to one that is available
/// again.
const OUTAGE_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a caller that has a stale answer waits for a connection.
const STALE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often such a caller checks whether the connection was refused.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One provider with its connections.
///
/// It survives a reload that does not change its configuration.
pub(crate) struct Remote {
    pub(crate) config: ProviderConfig,
    pub(crate) dialect: Dialect,
    /// The address of the server, without secrets.
    pub(crate) place: String,
    pool: Pool,
    direct: Arc<DirectConnections>,
    runtime: Arc<Runtime>,
    /// Statements by their original text. All answers to a statement have the columns that it was
    /// described with, as long as the provider is the same.
    statements: Mutex<HashMap<Box<str>, Arc<RemoteStatement>>>,
    outage: Outage,
    failed_keys: Mutex<FailedKeys>,
    /// `None` unless the configuration sets `stale_if_error_ms`.
    stale: Option<Stale>,
    /// `None` unless the configuration sets `feed`.
    feed: Option<Feed>,
    embedded: Option<Embedded>,
}

/// How long to wait.
struct Timeouts {
    timeout: Option<Duration>,
    /// The reason why the timeouts are shorter than configured.
    failure: Option<Error>,
}

impl Remote {
    /// A provider, whose connections are opened on demand.
    pub(crate) fn new(
        config: ProviderConfig,
        connection: Connection,
        embedded: Option<Embedded>,
        runtime: Arc<Runtime>,
        bytes: CacheBytes,
        on_change: Option<OnChange>,
    ) -> Self {
        let dialect = match connection {
            Connection::Mysql(_) => Dialect::Mysql,
            _ => Dialect::Postgres,
        };
        let mut statements = config.postgres_session.statements();
        statements.extend(
            embedded
                .iter()
                .map(|embedded| postgres_mirror::session(&embedded.schema)),
        );
        let options = PoolOptions {
            connection_count_max: config.pool_size,
            connection_count_min: config.min_connections,
            acquire_timeout: config.acquire_timeout,
            idle_timeout: config.idle_timeout,
            lifetime_max: config.max_lifetime,
            query_timeout: config.query_timeout,
            pipeline_depth: config.pipeline_depth,
            stall: config.stall,
            session: statements,
            postgres: postgres::Options {
                route: match config.pooler {
                    true => Route::Pooler,
                    false => Route::Direct,
                },
                ..postgres::Options::default()
            },
            ..PoolOptions::default()
        };
        Self {
            dialect,
            place: match &embedded {
                Some(_) => "a PostgreSQL of its own".to_owned(),
                None => connection.to_string(),
            },
            direct: DirectConnections::new(Limits {
                count_max: config.pool_size / 2,
                depth: config.pipeline_depth.min(match dialect {
                    Dialect::Mysql => options.mysql.window,
                    _ => options.postgres.window,
                }),
                stall: config.stall,
                // The pool checks connections that were idle for longer; direct ones are closed.
                idle_timeout: Some(
                    config
                        .idle_timeout
                        .map_or(options.check_after, |it| it.min(options.check_after)),
                ),
                lifetime_max: config.max_lifetime,
            }),
            feed: (config.feed.as_ref())
                .map(|feed| open::feed(&config, feed, &connection, on_change, &runtime)),
            pool: Pool::new(connection, options),
            runtime,
            statements: Mutex::default(),
            outage: Outage::default(),
            failed_keys: Mutex::default(),
            stale: config
                .stale_if_error
                .map(|age_max| Stale::new(age_max, bytes.stale)),
            embedded,
            config,
        }
    }

    /// The last good answers, if the configuration sets `stale_if_error_ms`.
    pub(crate) fn stale(&self) -> Option<&Stale> {
        self.stale.as_ref()
    }

    /// The number of last good answers, their size in bytes, and the maximal size.
    pub(crate) fn stale_sizes(&self) -> (usize, u64, u64) {
        self.stale.as_ref().map_or((0, 0, 0), |stale| {
            let answers = stale.answers();
            (answers.len(), answers.weight(), answers.size_max())
        })
    }

    /// Applies a new division of the bytes for answers.
    pub(super) fn set_bytes(&self, bytes: CacheBytes) {
        if let Some(stale) = &self.stale {
            stale.answers().set_size_max(bytes.stale);
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Sends no more queries to the server: callers that wait for a connection get an error.
    /// Embedded providers stay open for their cleanup.
    pub(crate) fn leave(&self) {
        self.direct.close();
        if self.embedded.is_none() {
            let pool = self.pool.clone();
            self.runtime.start_task(async move { pool.close().await });
        }
    }

    /// Waits for a future; `None` if that takes longer than `timeout`.
    pub(crate) async fn within<T>(
        &self,
        timeout: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let timed = async { tokio::time::timeout(timeout, future).await.ok() };
        self.runtime.within(timed).await
    }

    /// What the change feed does, if the configuration sets one.
    pub(crate) fn feed_status(&self) -> Option<FeedStatus> {
        self.feed.as_ref().map(Feed::status)
    }

    /// Invalidates the answers that a row of a table concerns.
    pub(crate) fn touch(&self, table: &str, row: &[(&str, Value)]) -> Result<()> {
        match &self.feed {
            None => Err(Error::no_feed(self.name(), "the configuration sets none")),
            Some(feed) => match feed.status() {
                FeedStatus {
                    state: FeedState::Live,
                    ..
                } => {
                    feed.touch(table, row);
                    Ok(())
                }
                status => {
                    let state = status.reason.unwrap_or_else(|| status.state.to_string());
                    Err(Error::no_feed(self.name(), &state))
                }
            },
        }
    }

    /// A change feed for recorded messages, if the configuration sets a feed.
    #[cfg(feature = "replay")]
    pub(crate) fn replay(&self) -> Option<crate::feed::ChangeReplay> {
        self.feed.as_ref().map(Feed::replay)
    }

    /// Lets the change feed, if there is one, invalidate the answers of a statement.
    pub(crate) fn track(
        &self,
        info: &StatementInfo,
        statement: &RemoteStatement,
        hasher: &RandomState,
    ) -> Option<Arc<TrackedStatement>> {
        let feed = self.feed.as_ref()?;
        let (sql, binds) = statement.numbered();
        Some(feed.track(info.id, sql, binds, hasher))
    }

    /// The connections to the server that callers drive.
    pub(crate) fn direct(&self) -> &Arc<DirectConnections> {
        &self.direct
    }

    /// Starts to open a connection that a caller can drive, if the limit allows it.
    pub(crate) fn open_direct(&self) {
        self.direct.open(&self.pool, &self.runtime);
    }

    /// The error of a query for that key that failed at `since` or later, if any.
    pub(crate) fn key_failed_since(&self, key: &KeyRef<'_>, since: Instant) -> Option<Error> {
        lock(&self.failed_keys).find(key.hash, since)
    }

    /// Records why there are no answers to the keys of a flight, for the callers that wait for them.
    pub(crate) fn note_failed_keys(&self, failures: Vec<(u64, Error)>) {
        if !failures.is_empty() {
            lock(&self.failed_keys).extend(failures.into_iter());
        }
    }

    /// How long to wait for an answer. After a failure, callers do not wait the full time again
    /// while the server is unavailable; the first answer ends that.
    fn timeouts(&self) -> Timeouts {
        let timeout = self.config.query_timeout;
        match self.outage.error().filter(|_| !self.has_connection()) {
            Some(failure) => Timeouts {
                timeout: Some(
                    timeout.map_or(OUTAGE_TIMEOUT, |timeout| timeout.min(OUTAGE_TIMEOUT)),
                ),
                failure: Some(failure),
            },
            None => Timeouts {
                timeout,
                failure: None,
            },
        }
    }

    fn has_connection(&self) -> bool {
        self.pool.status().connection_count > 0
    }

    /// The error of a query without an answer in time: why no connection could be opened, if none is
    /// open, else that the server was too slow for this statement.
    fn timed_out(&self, info: &StatementInfo, timeouts: &Timeouts) -> Error {
        let status = self.pool.status();
        if status.connection_count > 0 {
            return Error::provider_timeout(self, info);
        }
        self.record_failure(match (status.open_error, &timeouts.failure) {
            (Some(error), _) => Error::provider(self, info, None, &error),
            (None, Some(failure)) => failure.clone(),
            (None, None) => Error::provider_unreached(self, timeouts.timeout.unwrap_or_default()),
        })
    }

    /// The server's description of a statement; `sql` is its text without the name of the provider.
    pub(crate) async fn describe(
        &self,
        info: &StatementInfo,
        sql: &str,
        names: &Names,
        tables: &LocalTables,
    ) -> Result<Arc<RemoteStatement>> {
        let known = lock(&self.statements).get(sql).cloned();
        if let Some(known) = known
            && known.has_params(&info.params)
        {
            return Ok(known);
        }
        let reading = statement::Reading::of(info, sql, self.dialect)?;
        let asked: Arc<str> = reading.all_sql().into();
        let timeouts = self.timeouts();
        let described = self.runtime.within(async {
            let describing = self.pool.describe(asked);
            match timeouts.timeout {
                Some(timeout) => tokio::time::timeout(timeout, describing).await.ok(),
                None => Some(describing.await),
            }
        });
        let Some(described) = described.await else {
            return Err(self.timed_out(info, &timeouts));
        };
        let misled = |error| Error::provider_misled(self, info, &error, names, tables);
        let misled = |error| self.record_failure(misled(error));
        self.record_answer(&described);
        let description = described.map_err(misled)?;
        let statement = Arc::new(reading.described(description));
        let mut statements = lock(&self.statements);
        if statements.len() < STATEMENT_COUNT_MAX {
            statements.insert(sql.into(), Arc::clone(&statement));
        }
        Ok(statement)
    }

    /// As [`Self::describe`], but waits at most `timeout`; if that is zero, only an existing
    /// description is returned and the server is not queried.
    pub(crate) async fn describe_within(
        &self,
        info: &StatementInfo,
        sql: &str,
        (names, tables): (&Names, &LocalTables),
        timeout: Duration,
    ) -> Result<Arc<RemoteStatement>> {
        let is_known = lock(&self.statements).contains_key(sql);
        if is_known || !timeout.is_zero() {
            let describing = self.describe(info, sql, names, tables);
            let turn = async { tokio::time::timeout(timeout, describing).await };
            if let Ok(described) = self.runtime.within(turn).await {
                return described;
            }
        }
        let status = self.pool.status();
        let in_the_way = status.open_error.filter(|_| status.connection_count == 0);
        Err(match in_the_way {
            Some(error) => Error::provider(self, info, None, &error),
            None => Error::provider_silent(self),
        })
    }

    /// The server's answers to all parameter sets, queried in one flight. `sql` is a text of the
    /// statement.
    pub(crate) async fn ask(
        &self,
        transport: &impl Transport,
        info: &StatementInfo,
        statement: &RemoteStatement,
        sql: Arc<str>,
        sets: &[&[Value]],
    ) -> Vec<Result<RowSet>> {
        let timeouts = self.timeouts();
        // All statements are read-only, so queries may be sent and fail together.
        let params = statement.batch(sets);
        let request = Request::many(sql, params).syncs(Syncs::Shared);
        let request = match timeouts.timeout {
            Some(timeout) => request.deadline(Instant::now() + timeout),
            None => request,
        };
        let answers = match transport.request(self, request).await {
            Ok(answers) => answers,
            Err(error) => {
                // A bare timeout does not tell why there was no connection until then.
                let is_bare = error.kind() == ClientKind::Deadline && error.source().is_none();
                let error = match is_bare {
                    true => self.timed_out(info, &timeouts),
                    false => {
                        self.record_failure(Error::provider(self, info, Some(statement), &error))
                    }
                };
                return sets.iter().map(|_| Err(error.clone())).collect();
            }
        };
        answers.iter().for_each(|answer| self.record_answer(answer));
        // One failure of the connection is one error, however many queries it concerns.
        let mut lost: Option<Error> = None;
        answers
            .into_iter()
            .map(|answer| match answer {
                Ok(answer) => statement.conform(self, info, answer.rows),
                Err(error) if error.is_connection_lost() => Err(lost
                    .get_or_insert_with(|| {
                        self.record_failure(Error::provider(self, info, Some(statement), &error))
                    })
                    .clone()),
                Err(error) if error.kind() == ClientKind::Deadline => {
                    Err(self.timed_out(info, &timeouts))
                }
                Err(error) => {
                    Err(self.record_failure(Error::provider(self, info, Some(statement), &error)))
                }
            })
            .collect()
    }

    /// As [`Self::ask`], for a caller that has stale answers to all sets, and so does not wait long
    /// for a connection that is refused or does not open.
    pub(crate) async fn ask_with_stale_timeout(
        &self,
        transport: &impl Transport,
        info: &StatementInfo,
        statement: &RemoteStatement,
        sql: Arc<str>,
        sets: &[&[Value]],
    ) -> Vec<Result<RowSet>> {
        let began = Instant::now();
        let failed_total = self.pool.status().open_failed_total;
        let mut asking = pin!(self.ask(transport, info, statement, sql, sets));
        loop {
            let turn = async { tokio::time::timeout(POLL_INTERVAL, &mut asking).await };
            if let Ok(answers) = self.runtime.within(turn).await {
                return answers;
            }
            let status = self.pool.status();
            let is_refused = status.open_failed_total > failed_total;
            if status.connection_count == 0 && (is_refused || began.elapsed() >= STALE_TIMEOUT) {
                let error = self.record_failure(match &status.open_error {
                    Some(error) => Error::provider(self, info, None, error),
                    None => Error::provider_unreached(self, STALE_TIMEOUT),
                });
                return sets.iter().map(|_| Err(error.clone())).collect();
            }
        }
    }

    /// Ends an outage if the server answered, with rows or with an error of the statement.
    fn record_answer<T>(&self, answer: &ClientResult<T>) {
        let is_answered = match answer {
            Ok(_) => true,
            Err(error) => error.kind() == ClientKind::Refused && !error.is_log_in_refused(),
        };
        if is_answered {
            self.outage.end();
        }
    }

    /// Records a failure of the server, as opposed to one of the statement.
    fn record_failure(&self, error: Error) -> Error {
        if error.is_retryable() && !self.has_connection() {
            self.outage.record(error.clone());
        }
        error
    }

    /// Checks whether the server answers, and returns its version.
    pub(crate) async fn probe(&self) -> Result<String> {
        let sql = match self.dialect {
            Dialect::Mysql => {
                "select concat(if(version() like '%MariaDB%', '', 'MySQL '), version()) as version"
            }
            _ => "select 'PostgreSQL ' || current_setting('server_version') as version",
        };
        let info = StatementInfo::unregistered(0, sql, Vec::new());
        let (names, tables) = (Names::default(), LocalTables::default());
        let statement = self.describe(&info, sql, &names, &tables).await?;
        let sql = Arc::clone(statement.sql(Extent::All));
        let rows = self.ask(&Pooled, &info, &statement, sql, &[&[]]);
        let rows = rows.await;
        let rows = rows.into_iter().next().expect("one answer a set")?;
        let version = rows.first().and_then(|row| row.first().cloned());
        Ok(version.map_or_else(String::new, |version| version.to_text().into()))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.direct.close();
        let pool = self.pool.clone();
        let drop_sql = self
            .embedded
            .as_ref()
            .map(|embedded| postgres_mirror::drop_sql(&embedded.schema));
        self.runtime.start_task(async move {
            if let Some(sql) = drop_sql {
                // Errors are ignored: if the embedded server has ended, the schema is gone as well.
                let _ = pool.query(sql, &[]).await;
            }
            pool.close().await;
        });
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
