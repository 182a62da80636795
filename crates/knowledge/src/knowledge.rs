//! The public API of the engine: open, query, reload, inspect.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use lookaside_value::{Row, RowSet, Value};

use crate::Result;
use crate::clock::Clock;
use crate::config::IntranetNets;
use crate::depends::StatementDependency;
use crate::engine::Engine;
use crate::error::Error;
use crate::event::Outcome;
use crate::file_stamp::Watched;
use crate::generation::Generation;
use crate::idle::IdleSessions;
use crate::load::{LoadReport, Progress, RowChanges, TableReport};
use crate::lock::lock;
use crate::plan::{Explanation, TableInfo};
use crate::policy::Policy;
use crate::provider::{self, RouteTarget};
use crate::reloader::{Reload, Reloader};
use crate::remote::{ProviderStatus, Providers};
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::source::{Loaded, Source};
use crate::statement::{Params, Query, Statement};
use crate::telemetry::Telemetry;
use crate::wait::{block_on, join_all};

/// Reference tables in memory, and the engine that answers queries about them.
///
/// A clone is another handle to the same engine. The query functions take a session from a pool for
/// each call; a worker that holds its own session ([`Self::session`]) is faster.
#[derive(Clone)]
pub struct Knowledge(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    source: Source,
    providers: Providers,
    progress: Arc<dyn Progress + Send + Sync>,
    idle: IdleSessions,
    /// Held during a whole reload, so that only one runs at a time; never taken by a lookup.
    reloading: Mutex<()>,
    reload_successes: AtomicU64,
    reload_failures: AtomicU64,
    watch: bool,
    /// Started when files are watched or a table has a refresh interval.
    reloader: Mutex<Option<Reloader>>,
}

impl Knowledge {
    pub(crate) fn new(
        source: Source,
        loaded: Loaded,
        progress: Arc<dyn Progress + Send + Sync>,
        watch: bool,
        telemetry: Option<Arc<dyn Telemetry>>,
        clock: Clock,
        providers: Providers,
    ) -> Result<Self> {
        let remotes = providers.open(&loaded, &[])?;
        let first = Generation::new(1, loaded, remotes, RandomState::default())?;
        let knowledge = Self(Arc::new(Inner {
            engine: Arc::new(Engine::new(first, clock, telemetry)),
            source,
            providers,
            progress,
            idle: IdleSessions::new(),
            reloading: Mutex::default(),
            reload_successes: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
            watch,
            reloader: Mutex::default(),
        }));
        knowledge.update_reloader(&knowledge.0.engine.state())?;
        Ok(knowledge)
    }

    /// A session for one worker.
    pub fn session(&self) -> Session {
        Session::new(self.0.engine.clone())
    }

    /// Prepares a query, see [`Session::prepare`].
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare(&self, sql: &str) -> Result<Statement> {
        self.with_session(|session| session.prepare(sql))
    }

    /// Releases a prepared statement: a reload may drop it from now on, and using it after such a
    /// reload is an error.
    ///
    /// # Errors
    /// When the statement belongs to another engine.
    pub fn release(&self, statement: &Statement) -> Result<()> {
        match statement.0.engine == self.engine().number {
            true => {
                statement.0.unpin();
                Ok(())
            }
            false => Err(Error::foreign_statement(statement.sql())),
        }
    }

    /// Lets providers describe the statements that they answer, concurrently, and waits at most
    /// `timeout` for it; if that is zero, no provider is queried. [`Self::prepare`] does not wait
    /// if a statement is already described or needs no provider.
    ///
    /// Returns for each statement, in order, why its provider did not answer, if it did not. Other
    /// errors of a statement are returned by [`Self::prepare`].
    pub fn describe_all<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s str>,
        timeout: Duration,
    ) -> Vec<Option<Error>> {
        let state = self.0.engine.state();
        let statements = statements.into_iter();
        let describing = statements.map(|sql| state.describe_within(sql, timeout));
        block_on(join_all(describing))
    }

    /// The first row, see [`Session::query_first`].
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub fn query_first<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<Option<Row>> {
        self.query_first_with(query, params, Policy::Global)
    }

    /// [`Self::query_first`] with another policy.
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub fn query_first_with<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<Option<Row>> {
        self.with_session(|session| session.query_first_with(query, params, policy))
    }

    /// All rows, see [`Session::query_all`].
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub fn query_all<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
    ) -> Result<RowSet> {
        self.query_all_with(query, params, Policy::Global)
    }

    /// [`Self::query_all`] with another policy.
    ///
    /// # Errors
    /// As [`Session::query_first`].
    pub fn query_all_with<'a>(
        &self,
        query: impl Into<Query<'a>>,
        params: impl Into<Params<'a>>,
        policy: Policy<'_>,
    ) -> Result<RowSet> {
        self.with_session(|session| session.query_all_with(query, params, policy))
    }

    /// How a statement is answered.
    ///
    /// # Errors
    /// When the statement is refused.
    pub fn explain(&self, sql: &str) -> Result<Explanation> {
        self.with_session(|session| session.explain(sql))
    }

    /// What a change feed would do for a statement, see [`Session::dependency`].
    ///
    /// # Errors
    /// As [`Session::dependency`].
    pub fn dependency(&self, sql: &str, publication: &str) -> Result<Option<StatementDependency>> {
        self.with_session(|session| session.dependency(sql, publication))
    }

    /// Loads everything again and makes it the current generation; returns its number.
    ///
    /// The new tables are built while the old ones are in use, every prepared statement is planned
    /// on them, and then they become visible atomically: a call of a session sees the old state or
    /// the new one, never a mix. If anything fails, the old state remains in use unchanged.
    ///
    /// # Errors
    /// As [`Builder::open`](crate::Builder::open), and when a prepared statement does not work with the new tables.
    pub fn reload(&self) -> Result<u64> {
        let (started, result) = {
            let _one_at_a_time = lock(&self.0.reloading);
            (Instant::now(), self.load_next())
        };
        // A listener may reload itself, so it is called after the lock is released.
        let count = match &result {
            Ok(_) => &self.0.reload_successes,
            Err(_) => &self.0.reload_failures,
        };
        // Relaxed: only snapshots read it.
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(telemetry) = &self.0.engine.telemetry {
            telemetry.on_reload(Outcome::of(&result), started.elapsed());
        }
        result
    }

    fn load_next(&self) -> Result<u64> {
        let engine = &self.0.engine;
        let current = engine.state();
        let loaded = self
            .0
            .source
            .load(&*self.0.progress, Some(&current.loaded))?;
        drop(current);
        let number = engine.generation() + 1;
        let remotes = self.0.providers.open(&loaded, engine.state().remotes())?;
        let next = Generation::new(number, loaded, remotes, engine.hasher.clone())?;
        let mut prepared_count = 0;
        loop {
            let pinned = engine.registry().pinned();
            // Plans can take a while, and more may have been prepared on the old tables meanwhile.
            if pinned.len() == prepared_count {
                break;
            }
            next.prepare_all(&pinned)?;
            prepared_count = pinned.len();
        }
        // The last step that can fail.
        self.update_reloader(&next)?;
        let before = &engine.state().loaded.report.tables;
        for table in &next.loaded.report.tables {
            let had_rows = |other: &TableReport| other.name == table.name && other.rows > 0;
            if table.rows == 0 && before.iter().any(had_rows) {
                tracing::warn!(
                    table = table.name,
                    "the table has no rows any more; set expected_rows.min to keep the former rows"
                );
            }
            if let Some(why) = table.loaded_completely {
                tracing::info!(
                    table = table.name,
                    why,
                    "loaded all rows, not only those that have changed"
                );
            }
            if let Some(RowChanges { added, removed }) = table.changes
                && added + removed > 0
            {
                tracing::info!(
                    table = table.name,
                    added,
                    removed,
                    "loaded rows that have changed"
                );
            }
        }
        engine.serve(next);
        // Idle sessions would keep the old tables in memory.
        self.0.idle.clear();
        Ok(number)
    }

    /// Starts the reloader if the configuration requires it, or updates it.
    fn update_reloader(&self, state: &Generation) -> Result<()> {
        let config = state.loaded.config.as_ref();
        let refresh = config.and_then(|config| {
            config
                .enabled_tables()
                .filter_map(|table| table.refresh)
                .min()
        });
        let seen = state.loaded.seen.clone();
        let mut reloader = lock(&self.0.reloader);
        match &*reloader {
            Some(reloader) => reloader.renew(seen, refresh),
            None if self.0.watch || refresh.is_some() => {
                let owner = Arc::downgrade(&self.0);
                *reloader = Some(Reloader::start(owner, self.0.watch, seen, refresh)?);
            }
            None => {}
        }
        Ok(())
    }

    /// The number of the current generation; the first load is 1, each reload adds one.
    pub fn generation(&self) -> u64 {
        self.0.engine.generation()
    }

    /// Statistics of the engine.
    pub fn snapshot(&self) -> Snapshot {
        let engine = &self.0.engine;
        let state = engine.state();
        let (counts, session_count) = engine.counters.sum();
        let cache = state.cache.as_ref();
        let local = cache.map(|cache| cache.local());
        let stale = state.remotes().iter().map(|remote| remote.stale_sizes());
        let (stale_len, stale_size, stale_size_max) = stale.fold((0, 0, 0), |sum, it| {
            (sum.0 + it.0, sum.1 + it.1, sum.2 + it.2)
        });
        Snapshot {
            generation: state.number,
            reload_successes: self.0.reload_successes.load(Ordering::Relaxed),
            reload_failures: self.0.reload_failures.load(Ordering::Relaxed),
            counts,
            stale_age_max: engine.counters.stale_age_max(),
            session_count,
            statement_count: engine.registry().len(),
            metadata_len: state.prepared_count(),
            cache_enabled: cache.is_some(),
            l1_len: cache.map_or(0, |cache| cache.len()),
            l1_capacity: cache.map_or(0, |cache| cache.capacity()),
            l1_size: cache.map_or(0, |cache| cache.weight()),
            l1_size_max: cache.map_or(0, |cache| cache.size_max()),
            l0_size: local.map_or(0, |local| local.taken()),
            l0_size_max: local.map_or(0, |local| local.size_max()),
            stale_len,
            stale_size,
            stale_size_max,
            ttl: state.ttl,
            // Reading the page count of a sealed store only fails if there is no memory.
            store_size: state.databases().size().unwrap_or(0),
            packed_size: state.databases().packed().size() as u64,
        }
    }

    /// The section `[intranet_nets]` of the current configuration, if it has one.
    pub fn intranet_nets(&self) -> Option<IntranetNets> {
        let state = self.0.engine.state();
        state.loaded.config.as_ref()?.intranet_nets.clone()
    }

    /// The names of the databases that can be queried, the default provider first. Each can qualify
    /// the names of its tables, as in `select … from assets.hosts`. The folder's own tables are
    /// `local` if there are providers, and `default` if there are none.
    pub fn provider_names(&self) -> Vec<String> {
        let state = self.0.engine.state();
        let names = state.names().all();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether there is a provider with this name; `default` also names the default one, and
    /// `local` the folder's own tables.
    pub fn has_provider(&self, name: &str) -> bool {
        self.0.engine.state().names().target(name).is_some()
    }

    /// The providers, the default one first, and the state of their connections.
    pub fn providers(&self) -> Vec<ProviderStatus> {
        let state = self.0.engine.state();
        state
            .remotes()
            .iter()
            .map(|remote| remote.shown())
            .collect()
    }

    /// A change feed of a provider that takes recorded messages instead of those of its server, and
    /// knows the statements that are tracked now. For benchmarks: it decodes and applies changes with the
    /// code of the live feed. `None` if there is no such provider, or it has no feed.
    #[cfg(feature = "replay")]
    pub fn replay_changes(&self, provider: &str) -> Option<crate::ChangeReplay> {
        let state = self.0.engine.state();
        match state.names().target(provider)? {
            RouteTarget::Provider(position) => state.remotes()[position].replay(),
            RouteTarget::Local => None,
        }
    }

    /// Sends no more queries to providers: callers that wait for a connection get an error at once.
    /// For the end of a program, which then does not wait for an unavailable server.
    pub fn leave_providers(&self) {
        let state = self.0.engine.state();
        state.remotes().iter().for_each(|remote| remote.leave());
    }

    /// Cancels the queries of all sessions, as
    /// [`CancelHandle::cancel`](crate::CancelHandle::cancel) does for one: running and later
    /// queries fail soon, whether SQLite or a provider answers them. For the end of a program,
    /// which then does not wait for queries. Queries of async callers to a provider end when their
    /// futures are dropped.
    pub fn cancel_queries(&self) {
        self.0.engine.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel_queries`] was called.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: as in `CancelHandle`.
        self.0.engine.is_cancelled.load(Ordering::Relaxed)
    }

    /// Invalidates the cached answers that a row of a provider's table concerns, for a writer in this
    /// process, which calls it when its transaction has committed. No answer that was queried before is
    /// reused. One that is being queried may still be returned to the callers that wait for it.
    ///
    /// `table` is `provider.table` or `provider.schema.table`, as lookups write it; tables of this name
    /// in other schemas count as well. `row` has the values of the row by the names of its columns; if
    /// they change, it is called with the old and the new ones. Statements of the class *key* whose
    /// answers are found by other columns cannot tell which ones the row concerns: then all answers of
    /// the provider are invalidated. Statements of the class *none*, and those that the feed does not
    /// follow yet, are not concerned.
    ///
    /// # Errors
    /// When there is no such provider, or its change feed is not live: only that makes cached answers
    /// comparable with a row.
    pub fn touch(&self, table: &str, row: &[(&str, Value)]) -> Result<()> {
        let Some((provider, name)) = table.split_once('.') else {
            return Err(Error::no_table(table));
        };
        let name = name.rsplit('.').next().unwrap_or(name);
        let name = match name.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_ascii_lowercase(),
        };
        let state = self.0.engine.state();
        match state.names().target(provider) {
            Some(RouteTarget::Provider(position)) => state.remotes()[position].touch(&name, row),
            _ => Err(Error::no_provider(provider, state.names())),
        }
    }

    /// Queries the version of a provider's server, or returns why it does not answer.
    ///
    /// # Errors
    /// When there is no such provider, or its server cannot be queried.
    pub fn probe_provider(&self, name: &str) -> Result<String> {
        let state = self.0.engine.state();
        match state.names().target(name) {
            Some(RouteTarget::Provider(position)) => block_on(state.remotes()[position].probe()),
            _ => Err(Error::no_provider(name, state.names())),
        }
    }

    /// Returns the provider that qualifies the first table of a statement, and the statement
    /// without that qualifier before tables and columns, outside of quotes and comments. `None` if
    /// no provider is named. Queries and [`Self::prepare`] do this automatically.
    ///
    /// ```
    /// # use lookaside_knowledge::Knowledge;
    /// # let folder = tempfile::tempdir()?;
    /// # let database = folder.path().join("users.sqlite");
    /// # rusqlite::Connection::open(&database)?.execute_batch("create table users (id, name)")?;
    /// let knowledge = Knowledge::sqlite_builder(&database).open()?;
    /// let (provider, sql) = knowledge.route("select users.name from default.users").unwrap();
    /// assert_eq!(provider, "default");
    /// assert_eq!(sql, "select users.name from users");
    /// assert_eq!(knowledge.route("select name from users"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn route(&self, sql: &str) -> Option<(String, String)> {
        let state = self.0.engine.state();
        provider::named(sql, state.names()).map(|(name, sql)| (name.to_owned(), sql))
    }

    /// The names of the tables and views that can be queried, sorted.
    ///
    /// # Errors
    /// When the store cannot be read because there is not enough memory.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.with_session(Session::tables)
    }

    /// The folder's tables and views with their columns and row counts, sorted by name.
    pub fn table_infos(&self) -> Vec<TableInfo> {
        self.0.engine.state().tables().infos()
    }

    /// The report of the load of the current tables.
    pub fn load_report(&self) -> LoadReport {
        self.0.engine.state().loaded.report.clone()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Calls `work`, which must be short and must not wait, with an idle session.
    #[inline]
    pub(crate) fn with_idle_session<T>(&self, work: impl FnOnce(&mut Session) -> T) -> T {
        self.0.idle.with(|| self.session(), work)
    }

    pub(crate) fn with_session<T>(&self, work: impl FnOnce(&mut Session) -> T) -> T {
        let mut session = self.take_session();
        let result = work(&mut session);
        self.put_session(session);
        result
    }

    pub(crate) fn take_session(&self) -> Session {
        self.0.idle.take().unwrap_or_else(|| self.session())
    }

    pub(crate) fn put_session(&self, session: Session) {
        self.0.idle.put(session);
    }
}

impl Reload for Inner {
    fn files(&self) -> Vec<Watched> {
        self.source.files()
    }

    fn reload(self: Arc<Self>) -> Result<u64> {
        Knowledge(self).reload()
    }
}

impl fmt::Debug for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Knowledge")
            .field("source", &self.0.source)
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
