//! The statements that a connection's server has prepared, and what is known of their columns.

use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use lookaside_wire::mysql::{Columns, StatementId};

use super::row_layout::RowLayout;
use super::statement::Statement;
use crate::driver::StatementCache;

pub(super) struct Statements {
    pub(super) cache: StatementCache<Statement>,
    /// The layout for decoding the rows of each statement, if known.
    layouts: HashMap<StatementId, Arc<RowLayout>, RandomState>,
    /// When the definitions of statements with pinned columns were last requested.
    checks: HashMap<StatementId, Instant, RandomState>,
    /// Statements to be closed that were never in the cache.
    closing: Vec<StatementId>,
}

impl Statements {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            cache: StatementCache::new(count_max),
            layouts: HashMap::default(),
            checks: HashMap::default(),
            closing: Vec::new(),
        }
    }

    /// The layout for decoding rows with these columns.
    pub(super) fn layout(&mut self, id: StatementId, columns: &Arc<Columns>) -> Arc<RowLayout> {
        match self.layouts.get(&id) {
            Some(layout) if layout.is_of(columns) => Arc::clone(layout),
            _ => {
                let layout = Arc::new(RowLayout::of(columns));
                self.layouts.insert(id, Arc::clone(&layout));
                layout
            }
        }
    }

    /// The last layout for decoding the rows of a statement.
    pub(super) fn last_layout(&self, id: StatementId) -> Option<&Arc<RowLayout>> {
        self.layouts.get(&id)
    }

    /// Whether the column definitions are still trusted.
    pub(super) fn is_checked(&self, id: StatementId, since: Option<Instant>) -> bool {
        self.checks.get(&id).is_some_and(|&at| Some(at) >= since)
    }

    /// Records that the definitions are sent again.
    pub(super) fn check(&mut self, id: StatementId, now: Instant) {
        self.checks.insert(id, now);
    }

    /// Marks the known definitions as wrong.
    pub(super) fn invalidate(&mut self, id: StatementId) {
        self.checks.remove(&id);
    }

    /// Clears everything, since the connection is gone, or was reset.
    pub(super) fn clear(&mut self) {
        self.cache.clear();
        self.layouts.clear();
        self.checks.clear();
        self.closing.clear();
    }

    /// Schedules closing a statement by its id, which was never in the cache.
    pub(super) fn close(&mut self, id: StatementId) {
        self.closing.push(id);
    }

    /// Evicts all statements; returns whether any has to be closed on the server.
    pub(super) fn evict_all(&mut self) -> bool {
        self.cache.evict_all();
        self.cache.has_evicted()
    }

    /// The id of a statement that can be closed now.
    pub(super) fn pop_evicted(&mut self) -> Option<StatementId> {
        if let Some(id) = self.closing.pop() {
            return Some(id);
        }
        let statement = self.cache.pop_evicted()?;
        let id = statement.prepared.as_ref().map(|prepared| prepared.id);
        let id = id.expect("only what the server keeps is evicted");
        self.layouts.remove(&id);
        self.checks.remove(&id);
        Some(id)
    }
}
