//! One state of all tables, with everything that is only true for it: plans, columns and answers.

use std::sync::OnceLock;
use std::time::Duration;

use lookaside_value::{StatementId, Text};

use crate::Result;
use crate::cache::SharedCache;
use crate::config::Config;
use crate::plan::{Plan, Tables};
use crate::provider::{Description, Reader};
use crate::source::Loaded;
use crate::statement::{Statement, StatementInfo};
use crate::store::Store;

/// The tables as one load left them. It never changes but for what is added beside it: plans of new
/// statements, and answers.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) loaded: Loaded,
    tables: Tables,
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
    pub(crate) fn new(
        info: &StatementInfo,
        reader: &Reader,
        tables: &Tables,
        config: Option<&Config>,
    ) -> Result<Self> {
        // SQLite first: it refuses what is wrong, so a plan is made for valid statements only.
        let description = reader.describe(info, config)?;
        let plan = Plan::new(description.sql(info), &info.params, tables);
        Ok(Self { plan, description })
    }

    pub(crate) fn columns(&self) -> &[Text] {
        &self.description.columns
    }
}

impl Generation {
    /// The state after a load.
    pub(crate) fn new(number: u64, loaded: Loaded) -> Result<Self> {
        let tables = Tables::new(loaded.store.reader()?);
        let cache = &loaded.cache;
        Ok(Self {
            number,
            prepared: Slots::new(),
            cache: (cache.enabled).then(|| SharedCache::new(cache.capacity, cache.capacity_bytes)),
            ttl: cache.ttl,
            tables,
            loaded,
        })
    }

    /// Makes the plans of statements, as far as they are not made already.
    pub(crate) fn prepare_all(&self, statements: &[Statement]) -> Result<()> {
        let reader = Reader::open(self.store())?;
        for statement in statements {
            self.prepare(&statement.0, &reader)?;
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.loaded.store
    }

    /// What the tables were loaded by; a SQLite database has none.
    pub(crate) fn config(&self) -> Option<&Config> {
        self.loaded.config.as_ref()
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The statement's plan and columns, if it has them in this generation.
    #[inline]
    pub(crate) fn prepared(&self, id: StatementId) -> Option<&Prepared> {
        self.prepared.find(id.index())
    }

    /// Gives the statement its plan and columns, unless it has them.
    ///
    /// Two sessions may both make a plan at first use; one of them is kept.
    pub(crate) fn prepare(&self, info: &StatementInfo, reader: &Reader) -> Result<&Prepared> {
        if let Some(prepared) = self.prepared(info.id) {
            return Ok(prepared);
        }
        let prepared = Prepared::new(info, reader, &self.tables, self.config())?;
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
