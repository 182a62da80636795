//! Asking the database, through the caches: what a session does beyond native plans.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lookaside_value::{RowSet, RowSetBuilder, Text, Value};

use crate::Result;
use crate::cache::{Entry, Extent, Fill, KeyRef, LocalCache, SharedCache, TryTurn};
use crate::cancel::{CANCEL_CHECK_INTERVAL, CancelHandle};
use crate::clock::Ticks;
use crate::counters::Counters;
use crate::engine::Engine;
use crate::error::Error;
use crate::generation::{Generation, Prepared, StoreReader};
use crate::provider::{Answerer, Description, Reader};
use crate::remote::{Misses, Remote, RemoteStatement, block_on_unless};
use crate::session::Policy;
use crate::statement::StatementInfo;
use crate::telemetry::{CacheOutcome, Layer, Outcome, QueryKind};

/// A session's connection, its own cache and its counters.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Opened when a statement is prepared or asked for the first time.
    reader: StoreReader,
    pub(crate) local: LocalCache,
    /// The last answer that does not stand in `local`.
    last: RowSet,
    pub(crate) counters: Arc<Counters>,
}

/// A statement in one generation of one engine.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) generation: &'a Generation,
    pub(crate) info: &'a StatementInfo,
    pub(crate) description: &'a Description,
}

/// When a question is asked, and what counts as fresh for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Ticks,
    /// Entries that are fresh at this time are fresh enough: it lies after `now` by as much as the
    /// asker wants answers younger than caches keep them.
    pub(crate) look: Ticks,
    /// Whether an answer will do that somebody else is asking for. Not for an asker who wants no
    /// answer that is older than the question.
    pub(crate) is_shared: bool,
}

impl Moment {
    /// A question that takes what caches hold.
    #[inline]
    pub(crate) fn new(now: Ticks) -> Self {
        Self {
            now,
            look: now,
            is_shared: true,
        }
    }

    /// A question that takes no answer older than that, where caches keep them for `ttl`.
    pub(crate) fn with_age_max(now: Ticks, ttl: Duration, age_max: Option<Duration>) -> Self {
        let ahead = age_max.map_or(Duration::ZERO, |age_max| ttl.saturating_sub(age_max));
        Self {
            now,
            look: now.after(ahead),
            is_shared: age_max != Some(Duration::ZERO),
        }
    }
}

impl Asker {
    /// What a session asks by, and what cancels it.
    pub(crate) fn new(
        generation: &Generation,
        counters: Arc<Counters>,
        cancel: CancelHandle,
    ) -> Self {
        Self {
            reader: StoreReader::new(cancel),
            local: LocalCache::new(generation.local_budget()),
            last: no_rows(),
            counters,
        }
    }

    /// Lets go of everything that belongs to a generation, for another one.
    pub(crate) fn forget(&mut self, next: &Generation) {
        self.reader.close();
        self.local.clear(next.local_budget());
        self.last = no_rows();
    }

    /// What the database says about a statement that is in no registry.
    pub(crate) fn describe(
        &mut self,
        generation: &Generation,
        info: &StatementInfo,
    ) -> Result<Prepared> {
        generation.describe(info, &mut self.reader)
    }

    /// The connection to the store of the generation.
    pub(crate) fn reader(&mut self, generation: &Generation) -> Result<&mut Reader> {
        self.reader.open(generation)
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

    /// The rows of a statement that its native plan cannot answer.
    pub(crate) fn rows(
        &mut self,
        ask: &Ask<'_>,
        params: &[Value],
        extent: Extent,
        policy: Policy<'_>,
    ) -> Result<&RowSet> {
        match (policy, &ask.generation.cache) {
            (Policy::Global, Some(cache)) => {
                let now = ask.engine.clock.now();
                let key = ask.key(params, extent);
                if let Some(slot) = self.local.find(&key, now) {
                    self.count(ask, Layer::L0, CacheOutcome::Hit);
                    return Ok(&self.local.entry(slot).rows);
                }
                self.count(ask, Layer::L0, CacheOutcome::Miss);
                let entry = self.shared_entry(ask, cache, &key, now)?;
                // The answer may have been long on its way.
                match self.local.insert(&key, entry, ask.engine.clock.now()) {
                    Ok(slot) => return Ok(&self.local.entry(slot).rows),
                    Err(entry) => self.last = entry.rows,
                }
            }
            (Policy::CallScope(own), cache) => {
                let now = ask.engine.clock.now();
                let key = ask.key(params, extent);
                own.enter(ask.engine.number, ask.generation.number);
                if let Some(entry) = own.find(&key, now) {
                    self.last = entry.rows.clone();
                    self.count(ask, Layer::Call, CacheOutcome::Hit);
                } else {
                    self.count(ask, Layer::Call, CacheOutcome::Miss);
                    let entry = match cache {
                        Some(cache) => self.shared_entry(ask, cache, &key, now)?,
                        None => self.asked_entry(ask, &key)?,
                    };
                    self.last = entry.rows.clone();
                    if entry.is_fresh(ask.engine.clock.now()) {
                        own.insert(key.to_key(), entry);
                    }
                }
            }
            (Policy::Bypass, _) | (Policy::Global, None) => {
                self.last = self.query(ask, params, extent)?;
            }
        }
        Ok(&self.last)
    }

    /// The rows, if they stand in a cache that the policy reads. Where they do not, nothing is
    /// counted: whoever asks on counts that.
    pub(crate) fn kept(
        &mut self,
        ask: &Ask<'_>,
        params: &[Value],
        extent: Extent,
        policy: &mut Policy<'_>,
    ) -> Option<&RowSet> {
        let cache = ask.generation.cache.as_ref();
        let now = ask.engine.clock.now();
        let key = ask.key(params, extent);
        match policy {
            Policy::Bypass => return None,
            Policy::Global => {
                let cache = cache?;
                if let Some(slot) = self.local.find(&key, now) {
                    self.count(ask, Layer::L0, CacheOutcome::Hit);
                    return Some(&self.local.entry(slot).rows);
                }
                let entry = cache.find(&key, now)?;
                self.count(ask, Layer::L0, CacheOutcome::Miss);
                self.count(ask, Layer::L1, CacheOutcome::Hit);
                match self.local.insert(&key, entry, now) {
                    Ok(slot) => return Some(&self.local.entry(slot).rows),
                    Err(entry) => self.last = entry.rows,
                }
            }
            Policy::CallScope(own) => {
                own.enter(ask.engine.number, ask.generation.number);
                if let Some(entry) = own.find(&key, now) {
                    self.last = entry.rows.clone();
                    self.count(ask, Layer::Call, CacheOutcome::Hit);
                } else {
                    let entry = cache?.find(&key, now)?;
                    self.count(ask, Layer::Call, CacheOutcome::Miss);
                    self.count(ask, Layer::L1, CacheOutcome::Hit);
                    self.last = entry.rows.clone();
                    own.insert(key.to_key(), entry);
                }
            }
        }
        Some(&self.last)
    }

    /// The entry from the shared cache, or from the database by way of it; of several sessions that
    /// miss the same key one asks and the others wait for it, holding nothing else.
    fn shared_entry(
        &mut self,
        ask: &Ask<'_>,
        cache: &SharedCache,
        key: &KeyRef<'_>,
        now: Ticks,
    ) -> Result<Entry> {
        if let Some(entry) = cache.find(key, now) {
            self.count(ask, Layer::L1, CacheOutcome::Hit);
            return Ok(entry);
        }
        if let Answerer::Remote { remote, statement } = &ask.description.answerer {
            let elsewhere = (&**remote, &**statement);
            let moment = Moment::new(now);
            return self.wait(ask, ask.remote_entry(elsewhere, Some(cache), key, moment));
        }
        match self.turn(ask, cache, key, now)? {
            Ok(entry) => {
                self.count(ask, Layer::L1, CacheOutcome::Hit);
                Ok(entry)
            }
            Err(fill) => {
                self.count(ask, Layer::L1, CacheOutcome::Miss);
                let entry = self.asked_entry(ask, key)?;
                fill.put(key, entry.clone(), ask.engine.clock.now());
                Ok(entry)
            }
        }
    }

    /// The entry of a key that was missed a moment ago, or the turn to ask SQLite for it. While
    /// another session asks, this waits as long as a query of its own might take.
    pub(crate) fn turn<'c>(
        &self,
        ask: &Ask<'_>,
        cache: &'c SharedCache,
        key: &KeyRef<'_>,
        now: Ticks,
    ) -> Result<std::result::Result<Entry, Fill<'c>>> {
        let key = key.to_key();
        // Nearly always no other session asks for this key.
        let mut turn = cache.try_turn(&key, now);
        let mut began = None;
        loop {
            match turn {
                TryTurn::Answered(entry) => return Ok(Ok(entry)),
                TryTurn::Ask(fill) => return Ok(Err(fill)),
                TryTurn::Busy => {}
            }
            let waited = began.get_or_insert_with(Instant::now).elapsed();
            self.check_cancelled(ask)?;
            match ask.generation.query_timeout() {
                Some(limit) if waited >= limit => {
                    return Err(Error::query_timeout(&ask.info.sql, limit));
                }
                _ => {}
            }
            turn = cache.wait(&key, Some(CANCEL_CHECK_INTERVAL));
        }
    }

    /// What cancels the queries of this session.
    pub(crate) fn cancel(&self) -> &CancelHandle {
        self.reader.cancel()
    }

    /// Fails where the session is cancelled.
    #[inline]
    pub(crate) fn check_cancelled(&self, ask: &Ask<'_>) -> Result<()> {
        match self.cancel().is_cancelled() {
            true => Err(Error::query_cancelled(&ask.info.sql)),
            false => Ok(()),
        }
    }

    /// Waits for another database until that answers or the caller cancels.
    fn wait<T>(&self, ask: &Ask<'_>, answer: impl Future<Output = Result<T>>) -> Result<T> {
        block_on_unless(self.cancel(), answer)
            .unwrap_or_else(|| Err(Error::query_cancelled(&ask.info.sql)))
    }

    /// An entry with what the database answers; its age counts from the question, so that it may
    /// have expired when it arrives.
    pub(crate) fn asked_entry(&mut self, ask: &Ask<'_>, key: &KeyRef<'_>) -> Result<Entry> {
        let now = ask.engine.clock.now();
        if let Answerer::Remote { remote, statement } = &ask.description.answerer {
            let moment = Moment::new(now);
            let elsewhere = (&**remote, &**statement);
            return self.wait(ask, ask.remote_entry(elsewhere, None, key, moment));
        }
        let rows = self.query(ask, key.params, key.extent)?;
        let lifetime = ask.generation.ttl;
        Ok(Entry::new(key, rows, now.after(lifetime), lifetime))
    }

    /// Keeps rows until the next answer that no cache takes.
    pub(crate) fn keep(&mut self, rows: RowSet) -> &RowSet {
        self.last = rows;
        &self.last
    }

    /// What the database answers now.
    pub(crate) fn query(
        &mut self,
        ask: &Ask<'_>,
        params: &[Value],
        extent: Extent,
    ) -> Result<RowSet> {
        let statement = match &ask.description.answerer {
            Answerer::Store(statement) => statement,
            Answerer::Remote { remote, statement } => {
                let key = ask.key(params, extent);
                let moment = Moment::new(ask.engine.clock.now());
                let elsewhere = (&**remote, &**statement);
                let entry = self.wait(ask, ask.remote_entry(elsewhere, None, &key, moment));
                return entry.map(|entry| entry.rows);
            }
        };
        // The clock is read for a listener only.
        let listener = ask
            .engine
            .telemetry
            .as_deref()
            .map(|telemetry| (telemetry, Instant::now()));
        let columns = &ask.description.columns;
        // A session may be cancelled before its work begins.
        let result = match self.check_cancelled(ask) {
            Ok(()) => {
                let reader = self.reader(ask.generation)?;
                reader.rows(ask.info, (columns, statement), params, extent)
            }
            Err(error) => Err(error),
        };
        self.counters.queries.add(1);
        self.counters.metadata_hits.add(1);
        if result.is_err() {
            self.counters.query_failures.add(1);
        }
        if let Some((telemetry, started)) = listener {
            let kind = match extent {
                Extent::First => QueryKind::First,
                Extent::All => QueryKind::All,
            };
            telemetry.on_query(kind, Outcome::of(&result), started.elapsed());
        }
        result
    }

    #[inline]
    pub(crate) fn count(&self, ask: &Ask<'_>, layer: Layer, outcome: CacheOutcome) {
        ask.count(&self.counters, layer, outcome);
    }
}

impl Ask<'_> {
    #[inline]
    pub(crate) fn key<'k>(&self, params: &'k [Value], extent: Extent) -> KeyRef<'k> {
        KeyRef::new(&self.engine.hasher, self.info.id, extent, params)
    }

    /// The answer of another database to one key. It needs no session while it waits.
    pub(crate) async fn remote_entry(
        &self,
        (remote, statement): (&Remote, &RemoteStatement),
        cache: Option<&SharedCache>,
        key: &KeyRef<'_>,
        moment: Moment,
    ) -> Result<Entry> {
        let misses = Misses {
            ask: *self,
            remote,
            statement,
            extent: key.extent,
            cache,
            moment,
        };
        let mut entries = misses.entries(&[key.params]).await;
        entries.pop().expect("one entry a key")
    }

    /// Counts what a session does.
    #[inline]
    pub(crate) fn count(&self, counters: &Counters, layer: Layer, outcome: CacheOutcome) {
        counters.of_cache(layer, outcome).add(1);
        self.tell(layer, outcome);
    }

    /// Counts what is done without one.
    pub(crate) fn count_elsewhere(&self, layer: Layer, outcome: CacheOutcome) {
        let counters = &self.engine.counters.elsewhere;
        counters.of_cache(layer, outcome).add_among(1);
        self.tell(layer, outcome);
    }

    #[inline]
    fn tell(&self, layer: Layer, outcome: CacheOutcome) {
        if let Some(telemetry) = &self.engine.telemetry {
            telemetry.on_cache(layer, outcome);
        }
    }
}

/// What stands for "no answer yet".
fn no_rows() -> RowSet {
    RowSetBuilder::new(Vec::<Text>::new()).build()
}
