//! The statements that a connection's server has prepared, and what is known of their columns.

use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use lookaside_wire::mysql::{Columns, StatementId};

use super::plan::Plan;
use super::statement::Statement;
use crate::driver::StatementCache;

pub(super) struct Statements {
    pub(super) cache: StatementCache<Statement>,
    /// How the rows of each statement are read, as far as that is known.
    plans: HashMap<StatementId, Arc<Plan>, RandomState>,
    /// When the server was last asked for the definitions of those whose columns are pinned.
    checks: HashMap<StatementId, Instant, RandomState>,
    /// Statements that the server may forget and that were never in the cache.
    closing: Vec<StatementId>,
}

impl Statements {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            cache: StatementCache::new(count_max),
            plans: HashMap::default(),
            checks: HashMap::default(),
            closing: Vec::new(),
        }
    }

    /// How the rows of these columns are read.
    pub(super) fn plan(&mut self, id: StatementId, columns: &Arc<Columns>) -> Arc<Plan> {
        match self.plans.get(&id) {
            Some(plan) if plan.is_of(columns) => Arc::clone(plan),
            _ => {
                let plan = Arc::new(Plan::of(columns));
                self.plans.insert(id, Arc::clone(&plan));
                plan
            }
        }
    }

    /// How the rows of the statement were read last.
    pub(super) fn last_plan(&self, id: StatementId) -> Option<&Arc<Plan>> {
        self.plans.get(&id)
    }

    /// Whether the server need not say again what the columns are.
    pub(super) fn is_checked(&self, id: StatementId, since: Option<Instant>) -> bool {
        self.checks.get(&id).is_some_and(|&at| Some(at) >= since)
    }

    /// The server says it once more.
    pub(super) fn check(&mut self, id: StatementId, now: Instant) {
        self.checks.insert(id, now);
    }

    /// What is known of the columns is wrong.
    pub(super) fn uncheck(&mut self, id: StatementId) {
        self.checks.remove(&id);
    }

    /// Forgets everything: the connection is gone, or the server has forgotten it.
    pub(super) fn clear(&mut self) {
        self.cache.clear();
        self.plans.clear();
        self.checks.clear();
        self.closing.clear();
    }

    /// The server need not keep the statement with this number, which was never in the cache.
    pub(super) fn close(&mut self, id: StatementId) {
        self.closing.push(id);
    }

    /// Forgets every statement; says whether the server has one to forget as well.
    pub(super) fn evict_all(&mut self) -> bool {
        self.cache.evict_all();
        self.cache.has_evicted()
    }

    /// The number of a statement that the server can forget now.
    pub(super) fn pop_evicted(&mut self) -> Option<StatementId> {
        if let Some(id) = self.closing.pop() {
            return Some(id);
        }
        let statement = self.cache.pop_evicted()?;
        let id = statement.prepared.as_ref().map(|prepared| prepared.id);
        let id = id.expect("only what the server keeps is evicted");
        self.plans.remove(&id);
        self.checks.remove(&id);
        Some(id)
    }
}
