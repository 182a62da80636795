//! Resolves a query through the caches and the database: which caches its policy names, what counts
//! as fresh, what is counted, and which of several sessions that miss a key sends the query.

mod age_limit;
mod batch;
mod context;
mod misses;
mod outdated;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookaside_value::{Contract, Extent, RowSet, Value};

pub(crate) use self::age_limit::AgeLimit;
pub(crate) use self::batch::StaleCount;
pub(crate) use self::context::StatementContext;
use self::outdated::{FeedId, OutdatedAnswers};
use crate::Result;
use crate::cache::{CacheEntry, Flight, KeyRef, Leader, LocalCache, SharedCache, SlotIndex};
use crate::cancel::{CANCEL_CHECK_INTERVAL, CancelHandle};
use crate::clock::Ticks;
use crate::counters::Counters;
use crate::description::Answerer;
use crate::error::Error;
use crate::event::{CacheOutcome, Layer, Outcome, QueryKind};
use crate::feed::TrackedStatement;
use crate::freshness::Freshness;
use crate::generation::{Generation, Prepared, StoreReader};
use crate::policy::Policy;
use crate::provenance::{AnsweredBy, Provenance, Tracking};
use crate::provider::Reader;
use crate::remote::{Blocking, Remote, RemoteStatement};
use crate::statement::StatementInfo;
use crate::wait::block_on_unless;

/// A provider, with its description of a statement.
pub(crate) type Provider<'a> = (&'a Remote, &'a RemoteStatement);

/// The means of one session to answer queries: its connection, its own cache and its counters.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// Opened when a statement is prepared or queried for the first time.
    reader: StoreReader,
    local: LocalCache,
    /// The last answer that is not in `local`.
    uncached: Option<CacheEntry>,
    outdated: OutdatedAnswers,
    pub(crate) counters: Arc<Counters>,
    /// What queries require that do not state it themselves; a batch may require more.
    pub(crate) freshness: Freshness,
}

/// The answer to a query, borrowed until the next one.
pub(crate) struct Resolved<'a> {
    entry: &'a CacheEntry,
    by: AnsweredBy,
    now: Ticks,
    tracking: Tracking,
}

/// The location of an answer in a [`Resolver`].
struct Location {
    /// The slot in the session's own cache; `None` if the answer is `uncached`.
    slot: Option<SlotIndex>,
    by: AnsweredBy,
    now: Ticks,
    tracking: Tracking,
}

impl<'a> Resolved<'a> {
    pub(crate) fn rows(&self) -> &'a RowSet {
        &self.entry.rows
    }

    pub(crate) fn provenance(&self) -> Provenance {
        Provenance::of(self.by, self.entry, self.now, self.tracking)
    }
}

impl Resolver {
    /// A resolver for one session, whose queries `cancel` cancels.
    pub(crate) fn new(
        generation: &Generation,
        counters: Arc<Counters>,
        cancel: CancelHandle,
    ) -> Self {
        Self {
            reader: StoreReader::new(cancel),
            local: LocalCache::new(generation.local_budget()),
            uncached: None,
            outdated: OutdatedAnswers::default(),
            counters,
            freshness: Freshness::default(),
        }
    }

    /// What a query accepts now that requires no more than a contract itself.
    pub(crate) fn limit(&self, context: &StatementContext<'_>, contract: Contract) -> AgeLimit {
        let freshness = Freshness {
            contract: self.freshness.contract.and(contract),
            ..self.freshness
        };
        match freshness.is_default() {
            true => AgeLimit::cached(context.engine.clock.now()),
            false => AgeLimit::of(context, freshness),
        }
    }

    /// Drops the state of the current generation and switches to the next one.
    pub(crate) fn enter(&mut self, next: &Generation) {
        self.reader.close();
        self.local.clear(next.local_budget());
        self.uncached = None;
        self.outdated = OutdatedAnswers::default();
    }

    /// The database's description of an unregistered statement.
    pub(crate) fn describe(
        &mut self,
        generation: &Generation,
        info: &StatementInfo,
    ) -> Result<Prepared> {
        generation.describe(info, &mut self.reader)
    }

    /// The connection to a database of the generation, opened if needed.
    pub(crate) fn reader(&mut self, generation: &Generation) -> Result<&mut Reader> {
        self.reader.open(generation, &[])
    }

    /// The plan and columns of a statement, made now if this is its first use in the generation.
    #[inline]
    pub(crate) fn prepared<'a>(
        &mut self,
        generation: &'a Generation,
        info: &StatementInfo,
    ) -> Result<&'a Prepared> {
        match generation.prepared(info.id) {
            Some(prepared) => Ok(prepared),
            None => self.prepare(generation, info),
        }
    }

    #[cold]
    fn prepare<'a>(
        &mut self,
        generation: &'a Generation,
        info: &StatementInfo,
    ) -> Result<&'a Prepared> {
        self.counters.metadata_misses.add(1);
        generation.prepare(info, &mut self.reader)
    }

    /// The answer, if a cache of the policy has it. Does not block. A complete miss is not counted,
    /// because [`Self::resolve`] counts it.
    #[inline]
    pub(crate) fn try_cached(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
        policy: &mut Policy<'_>,
        limit: &AgeLimit,
    ) -> Option<Resolved<'_>> {
        if matches!(policy, Policy::Bypass) {
            return None;
        }
        let key = context.key(params, extent);
        let location = self.find(context, &key, policy, limit)?;
        Some(self.at(location))
    }

    /// The answer, from the caches of the policy or the database.
    #[inline(never)]
    pub(crate) fn resolve(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
        policy: Policy<'_>,
        limit: &AgeLimit,
    ) -> Result<Resolved<'_>> {
        let location = match context.is_cached(&policy) {
            true => self.locate(context, params, extent, policy, limit)?,
            false => {
                let entry = self.query(context, params, extent, limit)?;
                let now = context.engine.clock.now();
                self.hold(entry, context.database(), now, Tracking::NONE)
            }
        };
        Ok(self.at(location))
    }

    /// The rows of an answer, as fresh as the session requires. For a hit of a cache, nothing is computed
    /// that only the provenance would tell.
    // Inlined, its registers would be saved for each answer of a native plan.
    #[inline(never)]
    pub(crate) fn rows(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
        policy: Policy<'_>,
    ) -> Result<&RowSet> {
        if !self.freshness.is_default() {
            let limit = AgeLimit::of(context, self.freshness);
            let resolved = self.resolve(context, params, extent, policy, &limit)?;
            return Ok(resolved.rows());
        }
        if !context.is_cached(&policy) {
            let entry = match &context.description.answerer {
                Answerer::Remote { .. } => {
                    let limit = AgeLimit::cached(context.engine.clock.now());
                    self.ask(context, &context.key(params, extent), &limit)?
                }
                // Its age is not known, and not needed.
                Answerer::Store(_) => {
                    let rows = self.query_store(context, params, extent)?;
                    CacheEntry::uncached(rows, Ticks::START, Duration::ZERO)
                }
            };
            return Ok(&self.uncached.insert(entry).rows);
        }
        let limit = AgeLimit::cached(context.engine.clock.now());
        let location = self.locate(context, params, extent, policy, &limit)?;
        Ok(self.at(location).rows())
    }

    /// Finds an answer in the caches of the policy, or fetches it.
    #[inline(always)]
    fn locate(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
        mut policy: Policy<'_>,
        limit: &AgeLimit,
    ) -> Result<Location> {
        let key = context.key(params, extent);
        match self.find(context, &key, &mut policy, limit) {
            Some(location) => Ok(location),
            None => self.fetch(context, &key, policy, *limit),
        }
    }

    /// Searches the caches of the policy, and copies an entry of the shared cache into the first
    /// one.
    // A call costs a hit of the first cache some 15 instructions.
    #[inline(always)]
    fn find(
        &mut self,
        context: &StatementContext<'_>,
        key: &KeyRef<'_>,
        policy: &mut Policy<'_>,
        limit: &AgeLimit,
    ) -> Option<Location> {
        let (now, fresh_at) = (limit.now, limit.fresh_at(key));
        let tracking = limit.tracking(key);
        let shared = context.generation.cache.as_ref();
        match policy {
            Policy::Bypass => None,
            Policy::Global => {
                let shared = shared?;
                let slot = self.local.find(key, fresh_at);
                if let Some(slot) = slot.filter(|it| limit.permits(|| self.local.entry(*it))) {
                    self.count(context, Layer::L0, CacheOutcome::Hit);
                    return Some(Location {
                        slot: Some(slot),
                        by: AnsweredBy::L0,
                        now,
                        tracking,
                    });
                }
                if self.must_query(context, key) {
                    return None;
                }
                let entry = shared.find(key, fresh_at);
                let entry = entry.filter(|it| limit.permits(|| it))?;
                self.count(context, Layer::L0, CacheOutcome::Miss);
                self.count(context, Layer::L1, CacheOutcome::Hit);
                Some(self.keep(key, entry, (AnsweredBy::L1, now, tracking)))
            }
            Policy::CallScope(own) => {
                own.enter(context.engine.number, context.generation.number);
                if let Some(entry) = own.find(key, fresh_at).filter(|it| limit.permits(|| it)) {
                    let entry = entry.clone();
                    self.count(context, Layer::Call, CacheOutcome::Hit);
                    return Some(self.hold(entry, AnsweredBy::L0, now, tracking));
                }
                let entry = shared?.find(key, fresh_at);
                let entry = entry.filter(|it| limit.permits(|| it))?;
                self.count(context, Layer::Call, CacheOutcome::Miss);
                self.count(context, Layer::L1, CacheOutcome::Hit);
                own.insert(key.to_key(), entry.clone());
                Some(self.hold(entry, AnsweredBy::L1, now, tracking))
            }
        }
    }

    /// The answer to a key that no cache of the policy has.
    // By value, the limit of a hit stays in registers.
    #[inline(never)]
    fn fetch(
        &mut self,
        context: &StatementContext<'_>,
        key: &KeyRef<'_>,
        policy: Policy<'_>,
        limit: AgeLimit,
    ) -> Result<Location> {
        let mut limit = limit;
        limit.joins_inflight &= !self.must_query(context, key);
        let limit = &limit;
        let shared = context.generation.cache.as_ref();
        let first_layer = match &policy {
            Policy::Bypass => None,
            Policy::Global => shared.map(|_| Layer::L0),
            Policy::CallScope(_) => Some(Layer::Call),
        };
        if let Some(layer) = first_layer {
            self.count(context, layer, CacheOutcome::Miss);
        }
        let (entry, by) = match shared {
            Some(shared) => self.fetch_shared(context, shared, key, limit)?,
            None => (self.ask(context, key, limit)?, context.database()),
        };
        // Fetching the answer may have taken long.
        let tracking = limit.waited(key);
        let now = context.engine.clock.now();
        Ok(match policy {
            Policy::Global if shared.is_some() => {
                self.note_arrival(context, key, &entry);
                self.keep(key, entry, (by, now, tracking))
            }
            Policy::Global | Policy::Bypass => self.hold(entry, by, now, tracking),
            Policy::CallScope(own) => {
                if entry.is_fresh(now) {
                    own.insert(key.to_key(), entry.clone());
                }
                self.hold(entry, by, now, tracking)
            }
        })
    }

    /// Whether the answers of other callers to a key may be older than one that this session has had.
    #[inline]
    fn must_query(&mut self, context: &StatementContext<'_>, key: &KeyRef<'_>) -> bool {
        if self.outdated.is_empty() {
            return false;
        }
        let Some(tracked) = context.tracked() else {
            return false;
        };
        let horizon = tracked.horizon.fresh_as_of();
        self.outdated.holds(key.hash, feed_id(tracked), horizon)
    }

    /// Notes whether an answer that has arrived from a provider is outdated.
    fn note_arrival(
        &mut self,
        context: &StatementContext<'_>,
        key: &KeyRef<'_>,
        entry: &CacheEntry,
    ) {
        let Some(tracked) = context.tracked() else {
            return;
        };
        let version = tracked.version(key.hash, key.params).version();
        match entry.version() == version {
            true => self.outdated.remove(key.hash),
            false => {
                let arrival = Instant::now();
                self.outdated.add(key.hash, feed_id(tracked), arrival);
            }
        }
    }

    /// The entry of a key that the shared cache did not have. Of several sessions that miss the
    /// same key, one queries the database and the others wait for it, without holding other
    /// resources.
    fn fetch_shared(
        &mut self,
        context: &StatementContext<'_>,
        shared: &SharedCache,
        key: &KeyRef<'_>,
        limit: &AgeLimit,
    ) -> Result<(CacheEntry, AnsweredBy)> {
        if let Some(provider) = context.provider() {
            let transport = Blocking(self.cancel());
            let fetching =
                context.fetch_from_provider(provider, Some(shared), key, limit, &transport);
            let entry = self.wait(context, fetching)?;
            let by = AnsweredBy::of_provider(&entry, limit.now);
            return Ok((entry, by));
        }
        if !limit.joins_inflight {
            let entry = self.ask(context, key, limit)?;
            shared.insert_newer(key, entry.clone(), context.engine.clock.now());
            return Ok((entry, AnsweredBy::Sqlite));
        }
        match self.lead_or_follow(context, shared, key, limit)? {
            Ok(entry) => {
                self.count(context, Layer::L1, CacheOutcome::Hit);
                Ok((entry, AnsweredBy::L1))
            }
            Err(leader) => {
                self.count(context, Layer::L1, CacheOutcome::Miss);
                let entry = self.ask(context, key, limit)?;
                leader.put(key, entry.clone(), context.engine.clock.now());
                Ok((entry, AnsweredBy::Sqlite))
            }
        }
    }

    /// The entry that another session queries from SQLite, or the role of the leader. A follower
    /// waits at most as long as a query may take.
    fn lead_or_follow<'c>(
        &self,
        context: &StatementContext<'_>,
        shared: &'c SharedCache,
        key: &KeyRef<'_>,
        limit: &AgeLimit,
    ) -> Result<std::result::Result<CacheEntry, Leader<'c>>> {
        // Nearly always, no other session is querying this key.
        let mut flight = shared.join(key, limit.fresh_at(key), |entry| limit.permits(|| entry));
        let key = key.to_key();
        let mut began = None;
        loop {
            match flight {
                Flight::Answered(entry) => return Ok(Ok(entry)),
                Flight::Lead(leader) => return Ok(Err(leader)),
                Flight::Follow => {}
            }
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            self.check_cancelled(context)?;
            match context.generation.query_timeout() {
                Some(limit) if waited >= limit => {
                    return Err(Error::query_timeout(&context.info.sql, limit));
                }
                _ => {}
            }
            flight = shared.follow(&key, Some(CANCEL_CHECK_INTERVAL));
        }
    }

    /// The handle that cancels the queries of this session.
    pub(crate) fn cancel(&self) -> &CancelHandle {
        self.reader.cancel()
    }

    /// Fails if the session is cancelled.
    #[inline]
    pub(crate) fn check_cancelled(&self, context: &StatementContext<'_>) -> Result<()> {
        match self.cancel().is_cancelled() {
            true => Err(Error::query_cancelled(&context.info.sql)),
            false => Ok(()),
        }
    }

    /// Waits for a provider until it answers or the caller cancels.
    fn wait<T>(
        &self,
        context: &StatementContext<'_>,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        block_on_unless(self.cancel(), answer)
            .unwrap_or_else(|| Err(Error::query_cancelled(&context.info.sql)))
    }

    /// Queries the database and returns its answer as an entry. The age counts from the start of
    /// the query, so the entry may have expired when it arrives.
    fn ask(
        &mut self,
        context: &StatementContext<'_>,
        key: &KeyRef<'_>,
        limit: &AgeLimit,
    ) -> Result<CacheEntry> {
        if let Some(provider) = context.provider() {
            let transport = Blocking(self.cancel());
            let fetching = context.fetch_from_provider(provider, None, key, limit, &transport);
            return self.wait(context, fetching);
        }
        let now = context.engine.clock.now();
        let rows = self.query_store(context, key.params, key.extent)?;
        let lifetime = context.generation.ttl;
        Ok(CacheEntry::new(key, rows, now.after(lifetime), lifetime))
    }

    /// The database's answer, not cached. The limit is that of now.
    pub(crate) fn query(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
        limit: &AgeLimit,
    ) -> Result<CacheEntry> {
        match &context.description.answerer {
            Answerer::Remote { .. } => self.ask(context, &context.key(params, extent), limit),
            Answerer::Store(_) => {
                let rows = self.query_store(context, params, extent)?;
                let lifetime = context.generation.ttl;
                Ok(CacheEntry::uncached(
                    rows,
                    limit.now.after(lifetime),
                    lifetime,
                ))
            }
        }
    }

    /// SQLite's answer, not cached.
    fn query_store(
        &mut self,
        context: &StatementContext<'_>,
        params: &[Value],
        extent: Extent,
    ) -> Result<RowSet> {
        let Answerer::Store(statement) = &context.description.answerer else {
            unreachable!("a provider answers it");
        };
        // The clock is only read if there is a listener.
        let telemetry = context.engine.telemetry.as_deref();
        let listener = telemetry.map(|telemetry| (telemetry, Instant::now()));
        // A session may be cancelled before its work begins.
        let result = match self.check_cancelled(context) {
            Ok(()) => {
                let packed_tables = statement.packed_tables();
                if context.generation.databases().never_copies()
                    && let Some(table) = packed_tables.first()
                {
                    let reason = "for two different values";
                    return Err(Error::no_sqlite_copy(&context.info.sql, table, reason));
                }
                let reader = self.reader.open(context.generation, packed_tables)?;
                let described = (&context.description.columns, statement);
                reader.rows(context.info, described, params, extent)
            }
            Err(error) => Err(error),
        };
        self.counters.queries.add(1);
        self.counters.metadata_hits.add(1);
        if result.is_err() {
            self.counters.query_failures.add(1);
        }
        if let Some((telemetry, started)) = listener {
            let kind = QueryKind::of(extent);
            telemetry.on_query(kind, Outcome::of(&result), started.elapsed());
        }
        result
    }

    /// Inserts an entry into the session's cache, or holds it until the next query if the cache
    /// does not admit it.
    fn keep(
        &mut self,
        key: &KeyRef<'_>,
        entry: CacheEntry,
        (by, now, tracking): (AnsweredBy, Ticks, Tracking),
    ) -> Location {
        match self.local.insert(key, entry, now) {
            Ok(slot) => Location {
                slot: Some(slot),
                by,
                now,
                tracking,
            },
            Err(entry) => self.hold(entry, by, now, tracking),
        }
    }

    /// Holds an entry until the next query.
    fn hold(
        &mut self,
        entry: CacheEntry,
        by: AnsweredBy,
        now: Ticks,
        tracking: Tracking,
    ) -> Location {
        self.uncached = Some(entry);
        Location {
            slot: None,
            by,
            now,
            tracking,
        }
    }

    #[inline]
    fn at(&self, location: Location) -> Resolved<'_> {
        let entry = match location.slot {
            Some(slot) => self.local.entry(slot),
            None => self.uncached.as_ref().expect("an answer is held"),
        };
        Resolved {
            entry,
            by: location.by,
            now: location.now,
            tracking: location.tracking,
        }
    }

    #[inline]
    fn count(&self, context: &StatementContext<'_>, layer: Layer, outcome: CacheOutcome) {
        context.count(&self.counters, layer, outcome);
    }
}

/// All statements of a feed have the same horizon.
fn feed_id(tracked: &TrackedStatement) -> FeedId {
    FeedId(Arc::as_ptr(&tracked.horizon).addr())
}
