//! The statements that a connection's server has prepared: a bounded cache, least recently used
//! first to go.
//!
//! A hit is one probe of a hash table. To find the one that was not used for longest, all are
//! looked at; that happens only where a statement is prepared, which takes a round trip anyway.

use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use lookaside_wire::mysql::{Columns, StatementId};

use super::plan::Plan;
use super::query_range::QueryRange;
use super::statement::{Key, KeyRef, Statement};
use crate::Ticket;

pub(super) struct Statements {
    entries: HashMap<Key, Entry, RandomState>,
    /// How the rows of each statement are read, as far as that is known.
    plans: HashMap<StatementId, Arc<Plan>, RandomState>,
    /// When the server was last asked for the definitions of those whose columns are pinned.
    checks: HashMap<StatementId, Instant, RandomState>,
    count_max: usize,
    /// Statements that the server may forget as soon as nobody is about to use them.
    evicted: Vec<Arc<Statement>>,
    /// Others that it may forget.
    closing: Vec<StatementId>,
    use_count: u64,
}

struct Entry {
    state: State,
    /// The `use_count` of its last use.
    used_at: u64,
}

enum State {
    /// Its description is on the way; these wait for it.
    Preparing(Vec<QueryRange>),
    Ready(Arc<Statement>),
}

/// What the cache says about a statement.
pub(super) enum Found {
    Ready(Arc<Statement>),
    Preparing,
    Absent,
}

impl Statements {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            entries: HashMap::default(),
            plans: HashMap::default(),
            checks: HashMap::default(),
            count_max,
            evicted: Vec::new(),
            closing: Vec::new(),
            use_count: 0,
        }
    }

    /// The statement, if it was prepared since the moment `valid_from`.
    pub(super) fn find(&mut self, key: KeyRef<'_>, valid_from: u64) -> Found {
        let Some(entry) = self.entries.get_mut(&key) else {
            return Found::Absent;
        };
        match &entry.state {
            State::Preparing(_) => Found::Preparing,
            State::Ready(statement) if statement.moment < valid_from => {
                let statement = statement.clone();
                self.evict(&statement);
                Found::Absent
            }
            State::Ready(statement) => {
                self.use_count += 1;
                entry.used_at = self.use_count;
                Found::Ready(statement.clone())
            }
        }
    }

    /// The statement is being prepared, and `span` waits for it, if there is something left of it.
    pub(super) fn begin(&mut self, key: Key, span: QueryRange) {
        let waiting = (!span.is_empty()).then_some(span);
        let entry = Entry {
            state: State::Preparing(Vec::from_iter(waiting)),
            used_at: 0,
        };
        let before = self.entries.insert(key, entry);
        assert!(before.is_none(), "a statement is prepared once at a time");
    }

    /// `span` waits for a statement that is being prepared.
    pub(super) fn wait(&mut self, key: KeyRef<'_>, span: QueryRange) {
        match self.entries.get_mut(&key).map(|entry| &mut entry.state) {
            Some(State::Preparing(waiting)) => waiting.push(span),
            _ => panic!("only what is being prepared is waited for"),
        }
    }

    /// Who waits for a statement that is being prepared.
    pub(super) fn waiting(&self, key: &Key) -> &[QueryRange] {
        match self.entries.get(key).map(|entry| &entry.state) {
            Some(State::Preparing(waiting)) => waiting,
            _ => &[],
        }
    }

    /// Whether a query of the request waits for a statement that is being prepared.
    pub(super) fn is_awaited(&self, ticket: Ticket) -> bool {
        self.entries.values().any(|entry| match &entry.state {
            State::Preparing(waiting) => waiting.iter().any(|span| span.ticket == ticket),
            State::Ready(_) => false,
        })
    }

    /// The statement is prepared; those that waited for it come back.
    pub(super) fn prepared(&mut self, statement: Arc<Statement>) -> Vec<QueryRange> {
        let Some(entry) = self.entries.get_mut(&statement.key) else {
            panic!("what is being prepared stays in the cache");
        };
        self.use_count += 1;
        entry.used_at = self.use_count;
        match std::mem::replace(&mut entry.state, State::Ready(statement)) {
            State::Preparing(waiting) => waiting,
            State::Ready(_) => panic!("a statement is prepared once at a time"),
        }
    }

    /// The statement was refused; those that waited for it come back.
    pub(super) fn refused(&mut self, key: &Key) -> Vec<QueryRange> {
        match self.entries.remove(key).map(|entry| entry.state) {
            Some(State::Preparing(waiting)) => waiting,
            _ => panic!("what is being prepared stays in the cache"),
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

    /// Forgets everything: the connection is gone.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.plans.clear();
        self.checks.clear();
        self.evicted.clear();
        self.closing.clear();
    }

    /// Forgets just this statement, if it is still here, and not one that was prepared later.
    pub(super) fn evict(&mut self, statement: &Arc<Statement>) {
        let entry = self.entries.get(&statement.key);
        let is_same = entry.is_some_and(
            |entry| matches!(&entry.state, State::Ready(ready) if Arc::ptr_eq(ready, statement)),
        );
        if is_same {
            self.entries.remove(&statement.key);
            self.evicted.push(Arc::clone(statement));
        }
    }

    /// The server need not keep the statement with this number.
    pub(super) fn close(&mut self, id: StatementId) {
        self.closing.push(id);
    }

    /// The server need not keep a statement that is not in the cache.
    pub(super) fn discard(&mut self, statement: Arc<Statement>) {
        self.evicted.push(statement);
    }

    /// The same for a statement that may be in the cache, or may have been there.
    pub(super) fn discard_uncached(&mut self, statement: Arc<Statement>) {
        let is_cached = self.entries.get(&statement.key).is_some_and(
            |entry| matches!(&entry.state, State::Ready(ready) if Arc::ptr_eq(ready, &statement)),
        );
        let mut evicted = self.evicted.iter();
        if !is_cached && !evicted.any(|evicted| Arc::ptr_eq(evicted, &statement)) {
            self.discard(statement);
        }
    }

    /// Forgets every statement; says whether there was one that the server can forget as well.
    pub(super) fn evict_all(&mut self) -> bool {
        let ready: Vec<_> = self
            .entries
            .values()
            .filter_map(|entry| match &entry.state {
                State::Ready(statement) => Some(Arc::clone(statement)),
                State::Preparing(_) => None,
            })
            .collect();
        for statement in &ready {
            self.evict(statement);
        }
        self.evicted
            .iter()
            .any(|statement| statement.prepared.is_some())
    }

    /// Forgets what is beyond the limit. What is being prepared stays.
    pub(super) fn trim(&mut self) {
        while self.entries.len() > self.count_max {
            let ready = self
                .entries
                .values()
                .filter_map(|entry| match &entry.state {
                    State::Ready(statement) => Some((entry.used_at, statement)),
                    State::Preparing(_) => None,
                });
            let Some((_, oldest)) = ready.min_by_key(|&(used_at, _)| used_at) else {
                return;
            };
            let oldest = oldest.clone();
            self.evict(&oldest);
        }
    }

    /// A statement that was forgotten here and not yet on the server, and that no query is on its
    /// way with.
    pub(super) fn pop_evicted(&mut self) -> Option<StatementId> {
        if let Some(id) = self.closing.pop() {
            return Some(id);
        }
        loop {
            let is_free = |statement: &Arc<Statement>| Arc::strong_count(statement) == 1;
            let index = self.evicted.iter().position(is_free)?;
            let statement = self.evicted.swap_remove(index);
            if let Some(prepared) = &statement.prepared {
                self.plans.remove(&prepared.id);
                self.checks.remove(&prepared.id);
                return Some(prepared.id);
            }
        }
    }
}
