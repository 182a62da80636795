//! A generation: one state of all tables, with the plans, columns and answers that depend on it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::quality::RandomState;
use lookaside_value::{StatementId, Text};

use crate::Result;
use crate::cache::{LIFETIME_MAX, LocalBudget, SharedCache};
use crate::cancel::CancelHandle;
use crate::config::Config;
use crate::databases::{Database, Databases};
use crate::description::{Answerer, Description};
use crate::error::Error;
use crate::first_of::{Expansion, FirstOf};
use crate::plan::{LookupPlan, Tables};
use crate::provider::{
    LocalTables, Names, ProviderRoute, Reader, RouteTarget, StoreStatement, route,
};
use crate::remote::Remote;
use crate::scan::scan;
use crate::source::Loaded;
use crate::statement::{Statement, StatementInfo};
use crate::wait::block_on_unless;

/// The tables of one load. They never change; only plans of new statements and cached answers are
/// added.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) loaded: Loaded,
    local_tables: LocalTables,
    first_of: Vec<FirstOf>,
    names: Names,
    /// In the order of the names.
    remotes: Vec<Arc<Remote>>,
    prepared: Slots<Prepared>,
    /// Hashes the keys of the caches.
    pub(crate) hasher: RandomState,
    /// `None` when `[cache] enabled = false`.
    pub(crate) cache: Option<SharedCache>,
    pub(crate) ttl: Duration,
}

/// A statement's plan and columns in one generation.
pub(crate) struct Prepared {
    pub(crate) plan: LookupPlan,
    pub(crate) description: Description,
}

impl Prepared {
    pub(crate) fn columns(&self) -> &[Text] {
        &self.description.columns
    }

    /// The packed tables that SQLite needs to answer it.
    fn packed_tables(&self) -> &[Text] {
        match &self.description.answerer {
            Answerer::Store(statement) => statement.packed_tables(),
            Answerer::Remote { .. } => &[],
        }
    }
}

/// A session's connection to the store of a generation, opened on first use.
#[derive(Debug, Default)]
pub(crate) struct StoreReader {
    reader: Option<(Reader, Arc<Database>)>,
    cancel: CancelHandle,
}

impl StoreReader {
    /// A connection whose queries the handle cancels.
    pub(crate) fn new(cancel: CancelHandle) -> Self {
        Self {
            reader: None,
            cancel,
        }
    }

    /// A connection that knows the schema of all tables, and has the rows of these packed tables.
    pub(crate) fn open(
        &mut self,
        generation: &Generation,
        packed_tables: &[Text],
    ) -> Result<&mut Reader> {
        let is_open = (self.reader.as_ref()).is_some_and(|(_, open)| open.has(packed_tables));
        if !is_open {
            let database = generation.databases().with(packed_tables)?;
            let limit = generation.query_timeout();
            let reader = Reader::open(&database.store, limit, self.cancel.clone())?;
            self.reader = Some((reader, database));
        }
        let (reader, _) = self.reader.as_mut().expect("it is open");
        Ok(reader)
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.reader = None;
    }

    /// The handle that cancels its queries.
    pub(crate) fn cancel(&self) -> &CancelHandle {
        &self.cancel
    }
}

impl Generation {
    /// The generation after a load.
    pub(crate) fn new(
        number: u64,
        loaded: Loaded,
        remotes: Vec<Arc<Remote>>,
        hasher: RandomState,
    ) -> Result<Self> {
        let store = &loaded.databases.base().store;
        let reader = Reader::open(store, None, CancelHandle::default())?;
        let first_of = first_of(loaded.config.as_ref(), &reader)?;
        let mut local_tables = reader.tables()?;
        local_tables.extend(first_of.iter().map(|it| it.name().to_owned()));
        let names = Names::of(loaded.config.as_ref());
        let (cache, bytes) = (&loaded.cache, loaded.cache_bytes());
        Ok(Self {
            number,
            prepared: Slots::new(),
            hasher,
            cache: (cache.enabled).then(|| SharedCache::new(cache.capacity, bytes.shared)),
            ttl: cache.ttl.min(LIFETIME_MAX),
            local_tables: LocalTables::new(local_tables),
            first_of,
            names,
            remotes,
            loaded,
        })
    }

    /// Makes the plans of all statements that have none yet.
    ///
    /// A server that does not answer is not an error here: its statements are described when they
    /// are queried.
    pub(crate) fn prepare_all(&self, statements: &[Statement]) -> Result<()> {
        let mut reader = StoreReader::default();
        let mut copied: BTreeSet<Text> = BTreeSet::new();
        for statement in statements {
            match self.prepare(&statement.0, &mut reader) {
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
                Ok(prepared) if prepared.plan.is_native() => {}
                Ok(prepared) => copied.extend(prepared.packed_tables().iter().cloned()),
            }
        }
        if !copied.is_empty() {
            // Queries would wait for it.
            self.databases()
                .with(&copied.into_iter().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// The database that answers a statement, and the parameters of the statement.
    pub(crate) fn read(&self, sql: &str) -> Result<(ProviderRoute, Vec<Text>)> {
        let route = route(sql, &self.names, &self.local_tables)?;
        // Scans the original text, so that errors refer to it.
        let params = scan(sql, self.names.dialect(route.target))?;
        Ok((route, params))
    }

    /// The database's description of a statement, and the engine's plan.
    pub(crate) fn describe(
        &self,
        info: &StatementInfo,
        reader: &mut StoreReader,
    ) -> Result<Prepared> {
        let (route, _) = self.read(&info.sql)?;
        let remote = match route.target {
            // SQLite first: it refuses invalid statements, so plans are made for valid ones only.
            RouteTarget::Local => {
                let reader = reader.open(self, &[])?;
                let sql = route.sql.as_deref().unwrap_or(&info.sql);
                if let Some((names, expansion)) = self.expansion(sql)? {
                    return self.describe_first_of(info, names.name(), &expansion, reader);
                }
                let (columns, mut statement) =
                    reader.describe(info, route.sql, self.config(), &self.names)?;
                let sql = statement.sql(info);
                let plan = LookupPlan::new(sql, &info.params, &self.loaded.tables);
                let words = self.loaded.tables.bool_words(sql, &info.params);
                statement.set_words(words);
                self.set_packed_tables(info, &mut statement, &plan, reader)?;
                let answerer = Answerer::Store(statement);
                let description = Description {
                    columns,
                    answerer,
                    tracked: None,
                };
                return Ok(Prepared { plan, description });
            }
            RouteTarget::Provider(position) => &self.remotes[position],
        };
        let sql = route.sql.as_deref().unwrap_or(&info.sql);
        let described = remote.describe(info, sql, &self.names, &self.local_tables);
        let statement = block_on_unless(reader.cancel(), described)
            .unwrap_or_else(|| Err(Error::query_cancelled(&info.sql)))?;
        Ok(Prepared {
            plan: LookupPlan::provider(remote.name(), remote.config.kind()),
            description: Description {
                columns: statement.description.columns.to_vec().into(),
                answerer: Answerer::Remote {
                    remote: Arc::clone(remote),
                    statement,
                },
                tracked: None,
            },
        })
    }

    /// The name of `[[first_of]]` that a statement reads, if it reads one, and the statement for each
    /// of its tables.
    pub(crate) fn expansion(&self, sql: &str) -> Result<Option<(&FirstOf, Expansion)>> {
        for names in &self.first_of {
            if let Some(expansion) = names.expand(sql)? {
                return Ok(Some((names, expansion)));
            }
        }
        Ok(None)
    }

    /// The description and the plan of a statement that reads a name of `[[first_of]]`.
    fn describe_first_of(
        &self,
        info: &StatementInfo,
        name: &str,
        expansion: &Expansion,
        reader: &Reader,
    ) -> Result<Prepared> {
        let describe = |sql: &str| {
            let sql = Some(sql.into());
            reader.describe(info, sql, self.config(), &self.names)
        };
        let mut common = None;
        for sql in &expansion.members {
            let (columns, _) = describe(sql)?;
            if reader.is_aggregate(info, sql)? {
                return Err(Error::first_of_aggregated(&info.sql, name));
            }
            let words = self.loaded.tables.bool_words(sql, &info.params);
            let (first_columns, first_words) =
                common.get_or_insert((columns.clone(), words.clone()));
            if *first_columns != columns {
                return Err(Error::first_of_differs(
                    &info.sql,
                    name,
                    "different columns",
                ));
            }
            if *first_words != words {
                let difference = "different words for true and false";
                return Err(Error::first_of_differs(&info.sql, name, difference));
            }
        }
        let (columns, words) = common.expect("a name of [[first_of]] has a table");
        let (_, mut statement) = describe(&expansion.sql())?;
        statement.set_words(words);
        let plan = LookupPlan::first_of(expansion, &info.params, &self.loaded.tables);
        self.set_packed_tables(info, &mut statement, &plan, reader)?;
        Ok(Prepared {
            plan,
            description: Description {
                columns,
                answerer: Answerer::Store(statement),
                tracked: None,
            },
        })
    }

    /// Determines which packed tables SQLite needs to answer a statement.
    ///
    /// If the statement has a native plan, SQLite only reports why it refuses parameters, for which it needs
    /// no rows.
    fn set_packed_tables(
        &self,
        info: &StatementInfo,
        statement: &mut StoreStatement,
        plan: &LookupPlan,
        reader: &Reader,
    ) -> Result<()> {
        let databases = self.databases();
        if databases.packed().is_empty() {
            return Ok(());
        }
        let tables = reader.tables_of(info, statement.sql(info))?;
        let tables = databases.packed_tables_of(tables);
        if tables.is_empty() {
            return Ok(());
        }
        if !plan.may_need_sqlite() {
            if let Some(sql) = plan.refusal_sql(&info.params) {
                statement.set_refusal(sql);
            }
            return Ok(());
        }
        if databases.never_copies() && !plan.is_native() {
            let reason = plan.explain().reason.unwrap_or_default();
            return Err(Error::no_sqlite_copy(&info.sql, &tables[0], &reason));
        }
        statement.set_packed_tables(tables);
        Ok(())
    }

    /// Lets the provider that answers a statement describe it, unless it has done so, so that
    /// preparing the statement does not wait for it. Returns false if no provider answers the
    /// statement.
    pub(crate) async fn describe_at_provider(&self, sql: &str) -> Result<bool> {
        let (route, params) = self.read(sql)?;
        let RouteTarget::Provider(position) = route.target else {
            return Ok(false);
        };
        let info = StatementInfo::unregistered(0, sql, params);
        let text = route.sql.as_deref().unwrap_or(sql);
        let remote = &self.remotes[position];
        let described = remote.describe(&info, text, &self.names, &self.local_tables);
        described.await?;
        Ok(true)
    }

    /// As [`Self::describe_at_provider`], limited to `timeout`; returns why the server did not
    /// answer. Errors in the statement are reported when it is prepared.
    pub(crate) async fn describe_within(&self, sql: &str, timeout: Duration) -> Option<Error> {
        let (route, params) = self.read(sql).ok()?;
        let RouteTarget::Provider(position) = route.target else {
            return None;
        };
        let info = StatementInfo::unregistered(0, sql, params);
        let text = route.sql.as_deref().unwrap_or(sql);
        let known = (&self.names, &self.local_tables);
        let described = self.remotes[position].describe_within(&info, text, known, timeout);
        described.await.err().filter(Error::is_retryable)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn remotes(&self) -> &[Arc<Remote>] {
        &self.remotes
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.loaded.tables
    }

    /// The budget of the sessions' caches; `None` if answers are not cached.
    pub(crate) fn local_budget(&self) -> Option<Arc<LocalBudget>> {
        self.cache.as_ref().map(|cache| Arc::clone(cache.local()))
    }

    /// The time limit of queries of the folder's own tables.
    pub(crate) fn query_timeout(&self) -> Option<Duration> {
        self.loaded.local.query_timeout
    }

    pub(crate) fn databases(&self) -> &Arc<Databases> {
        &self.loaded.databases
    }

    /// The configuration of the load; `None` for a SQLite database.
    pub(crate) fn config(&self) -> Option<&Config> {
        self.loaded.config.as_ref()
    }

    /// The statement's plan and columns, if it has them in this generation.
    #[inline]
    pub(crate) fn prepared(&self, id: StatementId) -> Option<&Prepared> {
        self.prepared.find(id.index())
    }

    /// Stores the statement's plan and columns, unless it has them.
    ///
    /// Two sessions may both make a plan at first use; one of them is kept.
    pub(crate) fn prepare(
        &self,
        info: &StatementInfo,
        reader: &mut StoreReader,
    ) -> Result<&Prepared> {
        if let Some(prepared) = self.prepared(info.id) {
            return Ok(prepared);
        }
        let mut prepared = self.describe(info, reader)?;
        if !prepared.plan.is_native() {
            self.databases().start(prepared.packed_tables());
        }
        if self.cache.is_some()
            && let Answerer::Remote { remote, statement } = &prepared.description.answerer
        {
            prepared.description.tracked = remote.track(info, statement, &self.hasher);
        }
        Ok(self.prepared.put(info.id.index(), prepared))
    }

    /// The number of statements that have a plan.
    pub(crate) fn prepared_count(&self) -> usize {
        self.prepared.count()
    }
}

/// The names of `[[first_of]]`, with the columns of their tables.
fn first_of(config: Option<&Config>, reader: &Reader) -> Result<Vec<FirstOf>> {
    let Some(config) = config else {
        return Ok(Vec::new());
    };
    let entries = config.first_of.iter().map(|entry| {
        let table = entry.tables.first().expect("an entry has a table");
        let columns = reader.columns(table)?;
        FirstOf::new(entry, &columns).map_err(|unknown| {
            let problem = format!(
                "first_of.on_miss.{unknown} is not a column of {table:?}, which has {}",
                columns.join(", ")
            );
            Error::config(&config.file, entry.line, &problem)
        })
    });
    entries.collect()
}

/// Slots that are filled once and never move, so readers need no lock and no reference counter.
///
/// Chunk *n* holds 32·2ⁿ slots and is made when its first slot is filled.
#[derive(Debug)]
struct Slots<T> {
    chunks: [OnceLock<Chunk<T>>; CHUNK_COUNT],
}

type Chunk<T> = Box<[OnceLock<T>]>;

/// Slots of the first chunk: most programs have fewer statements.
const CHUNK_LEN_MIN: usize = 32;

/// 32 · (2^12 − 1) = 131,040 slots, twice the statements of an engine.
const CHUNK_COUNT: usize = 12;

impl<T> Slots<T> {
    fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNK_COUNT],
        }
    }

    #[inline]
    fn find(&self, index: usize) -> Option<&T> {
        let (chunk, offset) = locate(index);
        self.chunks.get(chunk)?.get()?[offset].get()
    }

    /// Fills the slot, unless another thread has filled it already.
    fn put(&self, index: usize, item: T) -> &T {
        let (chunk, offset) = locate(index);
        let slots = self.chunks[chunk].get_or_init(|| {
            (0..CHUNK_LEN_MIN << chunk)
                .map(|_| OnceLock::new())
                .collect()
        });
        slots[offset].get_or_init(|| item)
    }

    fn count(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        chunks.flatten().filter(|slot| slot.get().is_some()).count()
    }
}

/// The chunk of an index and the offset in it.
#[inline]
fn locate(index: usize) -> (usize, usize) {
    let shifted = index + CHUNK_LEN_MIN;
    let chunk = (shifted.ilog2() - CHUNK_LEN_MIN.ilog2()) as usize;
    (chunk, shifted - (CHUNK_LEN_MIN << chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_place() {
        let slots = Slots::new();
        for index in (0..1000).chain(65_000..65_600) {
            assert_eq!(slots.find(index), None);
            slots.put(index, index);
            slots.put(index, 0);
        }
        for index in (0..1000).chain(65_000..65_600) {
            assert_eq!(slots.find(index), Some(&index));
        }
        assert_eq!(slots.count(), 1600);
        assert_eq!(slots.find(1000), None);
        assert_eq!(slots.find(1 << 40), None);
    }
}
