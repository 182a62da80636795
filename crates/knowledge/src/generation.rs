//! One state of all tables, with everything that is only true for it: plans, columns and answers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lookaside_value::{StatementId, Text};

use crate::Result;
use crate::cache::{LocalBudget, SharedCache};
use crate::cancel::CancelHandle;
use crate::config::Config;
use crate::description::{Answerer, Description};
use crate::error::Error;
use crate::plan::{Plan, Tables};
use crate::provider::{LocalTables, Names, Reader, Route, Target, route};
use crate::remote::Remote;
use crate::scan::scan;
use crate::source::Loaded;
use crate::statement::{Statement, StatementInfo};
use crate::store::Store;
use crate::wait::block_on_unless;

/// The tables as one load left them. It never changes but for what is added beside it: plans of new
/// statements, and answers.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) loaded: Loaded,
    tables: Tables,
    local_tables: LocalTables,
    names: Names,
    /// In the order of the names.
    remotes: Vec<Arc<Remote>>,
    prepared: Slots<Prepared>,
    /// `None` when `[cache] enabled = false`.
    pub(crate) cache: Option<SharedCache>,
    pub(crate) ttl: Duration,
}

/// What a statement needs to be answered in one generation.
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) description: Description,
}

impl Prepared {
    pub(crate) fn columns(&self) -> &[Text] {
        &self.description.columns
    }
}

/// A session's connection to the store of a generation, opened when it is needed.
#[derive(Debug, Default)]
pub(crate) struct StoreReader {
    reader: Option<Reader>,
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

    pub(crate) fn open(&mut self, generation: &Generation) -> Result<&mut Reader> {
        match &mut self.reader {
            Some(reader) => Ok(reader),
            closed => {
                let limit = generation.query_timeout();
                let reader = Reader::open(generation.store(), limit, self.cancel.clone())?;
                Ok(closed.insert(reader))
            }
        }
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.reader = None;
    }

    /// What cancels its queries.
    pub(crate) fn cancel(&self) -> &CancelHandle {
        &self.cancel
    }
}

impl Generation {
    /// The state after a load.
    pub(crate) fn new(number: u64, loaded: Loaded, remotes: Vec<Arc<Remote>>) -> Result<Self> {
        let tables = Tables::new(loaded.store.reader()?);
        let reader = Reader::open(&loaded.store, None, CancelHandle::default())?;
        let local_tables = LocalTables::new(reader.tables()?);
        let names = Names::of(loaded.config.as_ref());
        let (cache, bytes) = (&loaded.cache, loaded.cache_bytes());
        Ok(Self {
            number,
            prepared: Slots::new(),
            cache: (cache.enabled).then(|| SharedCache::new(cache.capacity, bytes.shared)),
            ttl: cache.ttl,
            tables,
            local_tables,
            names,
            remotes,
            loaded,
        })
    }

    /// Makes the plans of statements, as far as they are not made already.
    ///
    /// A server that does not answer now fails nothing: its statements are described when they are
    /// asked for.
    pub(crate) fn prepare_all(&self, statements: &[Statement]) -> Result<()> {
        let mut reader = StoreReader::default();
        for statement in statements {
            match self.prepare(&statement.0, &mut reader) {
                Err(error) if error.is_retryable() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Who answers a text, and its parameters as they are written for them.
    pub(crate) fn read(&self, sql: &str) -> Result<(Route, Vec<Text>)> {
        let route = route(sql, &self.names, &self.local_tables)?;
        // The text as it was given, so that what is said of it is said of that.
        let params = scan(sql, self.names.dialect(route.target))?;
        Ok((route, params))
    }

    /// What the database says about a statement, and what we can say ourselves.
    pub(crate) fn describe(
        &self,
        info: &StatementInfo,
        reader: &mut StoreReader,
    ) -> Result<Prepared> {
        let (route, _) = self.read(&info.sql)?;
        let remote = match route.target {
            // SQLite first: it refuses what is wrong, so a plan is made for valid statements only.
            Target::Local => {
                let reader = reader.open(self)?;
                let (columns, mut statement) =
                    reader.describe(info, route.sql, self.config(), &self.names)?;
                let sql = statement.sql(info);
                let plan = Plan::new(sql, &info.params, &self.tables);
                let words = self.tables.bool_words(sql, &info.params);
                statement.set_words(words);
                let answerer = Answerer::Store(statement);
                let description = Description { columns, answerer };
                return Ok(Prepared { plan, description });
            }
            Target::Provider(position) => &self.remotes[position],
        };
        let sql = route.sql.as_deref().unwrap_or(&info.sql);
        let described = remote.describe(info, sql, &self.names, &self.local_tables);
        let statement = block_on_unless(reader.cancel(), described)
            .unwrap_or_else(|| Err(Error::query_cancelled(&info.sql)))?;
        Ok(Prepared {
            plan: Plan::provider(remote.name(), remote.config.kind()),
            description: Description {
                columns: statement.description.columns.to_vec().into(),
                answerer: Answerer::Remote {
                    remote: Arc::clone(remote),
                    statement,
                },
            },
        })
    }

    /// The server that answers a text, if one does and it did not describe it yet: it is asked now,
    /// so that nobody who prepares the text waits for it. False if the text is none of theirs.
    pub(crate) async fn describe_at_provider(&self, sql: &str) -> Result<bool> {
        let (route, params) = self.read(sql)?;
        let Target::Provider(position) = route.target else {
            return Ok(false);
        };
        let info = StatementInfo::unregistered(0, sql, params);
        let text = route.sql.as_deref().unwrap_or(sql);
        let remote = &self.remotes[position];
        let described = remote.describe(&info, text, &self.names, &self.local_tables);
        described.await?;
        Ok(true)
    }

    /// As [`Self::describe_at_provider`], within a time; why the server of a text did not answer. What
    /// is wrong with the text shows when it is prepared.
    pub(crate) async fn describe_within(&self, sql: &str, patience: Duration) -> Option<Error> {
        let (route, params) = self.read(sql).ok()?;
        let Target::Provider(position) = route.target else {
            return None;
        };
        let info = StatementInfo::unregistered(0, sql, params);
        let text = route.sql.as_deref().unwrap_or(sql);
        let known = (&self.names, &self.local_tables);
        let described = self.remotes[position].describe_within(&info, text, known, patience);
        described.await.err().filter(Error::is_retryable)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn remotes(&self) -> &[Arc<Remote>] {
        &self.remotes
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What the caches of sessions may keep; nothing where answers are not kept.
    pub(crate) fn local_budget(&self) -> Option<Arc<LocalBudget>> {
        self.cache.as_ref().map(|cache| Arc::clone(cache.local()))
    }

    /// How long a query of the folder's own tables may take.
    pub(crate) fn query_timeout(&self) -> Option<Duration> {
        self.loaded.local.query_timeout
    }

    pub(crate) fn store(&self) -> &Store {
        &self.loaded.store
    }

    /// What the tables were loaded by; a SQLite database has none.
    pub(crate) fn config(&self) -> Option<&Config> {
        self.loaded.config.as_ref()
    }

    /// The statement's plan and columns, if it has them in this generation.
    #[inline]
    pub(crate) fn prepared(&self, id: StatementId) -> Option<&Prepared> {
        self.prepared.find(id.index())
    }

    /// Gives the statement its plan and columns, unless it has them.
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
        let prepared = self.describe(info, reader)?;
        Ok(self.prepared.put(info.id.index(), prepared))
    }

    /// Statements that have a plan.
    pub(crate) fn prepared_count(&self) -> usize {
        self.prepared.count()
    }
}

/// Slots that are filled once and never move, so that readers need no lock and no counter.
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
        let (chunk, offset) = place(index);
        self.chunks.get(chunk)?.get()?[offset].get()
    }

    /// Fills the slot, or keeps what another thread put there before.
    fn put(&self, index: usize, item: T) -> &T {
        let (chunk, offset) = place(index);
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
fn place(index: usize) -> (usize, usize) {
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
