//! The statements that a connection's server has prepared: a bounded cache, least recently used
//! first to go.
//!
//! A hit is one probe of a hash table. To find the one that was not used for longest, all are
//! looked at; that happens only where a statement is prepared, which takes a round trip anyway.

use std::fmt::Write as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::options::Route;
use super::query_range::QueryRange;
use super::statement::{Key, Statement};
use crate::Ticket;

/// How many random bytes tell the names of connections apart. Among ten thousand of them, two are
/// equal once in five million times.
pub(super) const NONCE_SIZE: usize = 6;

#[derive(Debug)]
pub(super) struct Statements {
    entries: HashMap<Key, Entry, RandomState>,
    /// The entry that was used last, which mostly is the one that is used next.
    recent: Option<Arc<Statement>>,
    count_max: usize,
    /// Statements that the server may forget as soon as no query waits to be sent with them.
    evicted: Vec<Arc<Statement>>,
    /// Others that it may forget, by name.
    closing: Vec<Box<str>>,
    use_count: u64,
    /// How many names were given; `None` where statements have none.
    name_count: Option<u64>,
    /// What each name begins with.
    prefix: Box<str>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// The `use_count` of its last use.
    used_at: u64,
}

#[derive(Debug)]
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
    pub(super) fn new(count_max: usize, route: Route) -> Self {
        Self {
            entries: HashMap::default(),
            recent: None,
            count_max,
            evicted: Vec::new(),
            closing: Vec::new(),
            use_count: 0,
            name_count: (route == Route::Direct).then_some(0),
            prefix: "s".into(),
        }
    }

    /// Lets no name be one of another connection.
    ///
    /// Behind a pooler that nobody told us of, connections share sessions. With equal names, one
    /// would run the statement of another and get its rows; now the server knows no such statement.
    pub(super) fn tell_apart(&mut self, nonce: [u8; NONCE_SIZE]) {
        let mut prefix = "s".to_owned();
        for byte in nonce {
            // Writing to a string cannot fail.
            let _ = write!(prefix, "{byte:02x}");
        }
        prefix.push('_');
        self.prefix = prefix.into();
    }

    /// The statement, if it was prepared since the moment `valid_from`.
    pub(super) fn find(&mut self, key: &Key, valid_from: u64) -> Found {
        if let Some(recent) = &self.recent
            && recent.key == *key
            && recent.moment >= valid_from
        {
            return Found::Ready(Arc::clone(recent));
        }
        let Some(entry) = self.entries.get_mut(key) else {
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
                self.recent = Some(Arc::clone(statement));
                Found::Ready(Arc::clone(statement))
            }
        }
    }

    /// A name that no statement of this connection had before. A name is never used again, so
    /// that what was on its way under an old one cannot reach a new statement. It is empty where no
    /// statement stays.
    pub(super) fn new_name(&mut self) -> Box<str> {
        match &mut self.name_count {
            Some(count) => {
                *count += 1;
                format!("{}{count}", self.prefix).into()
            }
            None => Box::default(),
        }
    }

    /// The statement is being prepared, and `span` waits for it.
    pub(super) fn begin(&mut self, key: Key, span: QueryRange) {
        let entry = Entry {
            state: State::Preparing(vec![span]),
            used_at: 0,
        };
        let before = self.entries.insert(key, entry);
        assert!(before.is_none(), "a statement is prepared once at a time");
    }

    /// `span` waits for a statement that is being prepared.
    pub(super) fn wait(&mut self, key: &Key, span: QueryRange) {
        match self.entries.get_mut(key).map(|entry| &mut entry.state) {
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
    pub(super) fn is_awaited(&self, key: &Key, ticket: Ticket) -> bool {
        self.waiting(key).iter().any(|span| span.ticket == ticket)
    }

    /// The statement is prepared; those that waited for it come back.
    pub(super) fn prepared(&mut self, statement: Arc<Statement>) -> Vec<QueryRange> {
        let Some(entry) = self.entries.get_mut(&statement.key) else {
            panic!("what is being prepared stays in the cache");
        };
        self.use_count += 1;
        entry.used_at = self.use_count;
        self.recent = Some(Arc::clone(&statement));
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

    /// Forgets everything: the connection is gone.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.recent = None;
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
            self.recent.take_if(|recent| Arc::ptr_eq(recent, statement));
            if !statement.name.is_empty() {
                self.evicted.push(Arc::clone(statement));
            }
        }
    }

    /// A statement of this name may be on the server, and is of no use.
    pub(super) fn forget(&mut self, name: Box<str>) {
        if !name.is_empty() {
            self.closing.push(name);
        }
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

    /// The name of a statement that was forgotten here and not yet on the server, and that no query
    /// waits to be sent with, or is under way with.
    pub(super) fn pop_evicted(&mut self) -> Option<Box<str>> {
        if let Some(name) = self.closing.pop() {
            return Some(name);
        }
        let is_free = |statement: &Arc<Statement>| Arc::strong_count(statement) == 1;
        let index = self.evicted.iter().position(is_free)?;
        Some(self.evicted.swap_remove(index).name.clone())
    }
}
