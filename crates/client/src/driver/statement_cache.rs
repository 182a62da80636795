//! The statements that a connection's server has prepared: a bounded LRU cache.
//!
//! A hit is one probe of a hash table, or a comparison if it is the statement that was used last.
//! Finding the least recently used one takes a scan of all entries; that happens only when a
//! statement is prepared, which takes a round trip anyway.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{Equivalent, HashMap};

use super::query_range::QueryRange;
use crate::Ticket;

/// A statement as one protocol prepares it.
pub(crate) trait CachedStatement {
    /// The key that identifies a statement.
    type Key: Eq + Hash;

    fn key(&self) -> &Self::Key;

    /// When it was prepared, as a sequence number of the driver.
    fn sequence(&self) -> u64;

    /// Whether the server holds resources for it until it is closed.
    fn must_be_closed(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct StatementCache<S: CachedStatement> {
    entries: HashMap<S::Key, Entry<S>, RandomState>,
    /// The most recently used statement, which usually is also the next one.
    recent: Option<Arc<S>>,
    count_max: usize,
    /// Statements that can be closed on the server as soon as no query uses them.
    evicted: Vec<Arc<S>>,
    use_count: u64,
}

#[derive(Debug)]
struct Entry<S> {
    state: State<S>,
    /// The `use_count` of its last use.
    used_at: u64,
}

#[derive(Debug)]
enum State<S> {
    /// Its description is being requested; these queries wait for it.
    Preparing(Vec<QueryRange<S>>),
    Ready(Arc<S>),
}

/// The result of looking up a statement.
pub(crate) enum Found<S> {
    Ready(Arc<S>),
    Preparing,
    Absent,
}

impl<S: CachedStatement> StatementCache<S> {
    /// Creates a cache of `count_max` statements.
    pub(crate) fn new(count_max: usize) -> Self {
        Self {
            entries: HashMap::default(),
            recent: None,
            count_max,
            evicted: Vec::new(),
            use_count: 0,
        }
    }

    /// What holds after each change.
    fn check(&self) {
        debug_assert!(
            self.recent.as_ref().is_none_or(|recent| self.holds(recent)),
            "the statement that was used last is in the cache"
        );
    }

    /// Finds a statement, if it was prepared at or after `valid_from`.
    #[inline]
    pub(crate) fn find<Q>(&mut self, key: &Q, valid_from: u64) -> Found<S>
    where
        Q: Hash + Equivalent<S::Key>,
    {
        if let Some(recent) = &self.recent
            && key.equivalent(recent.key())
            && recent.sequence() >= valid_from
        {
            return Found::Ready(Arc::clone(recent));
        }
        let Some(entry) = self.entries.get_mut(key) else {
            return Found::Absent;
        };
        match &entry.state {
            State::Preparing(_) => Found::Preparing,
            State::Ready(statement) if statement.sequence() < valid_from => {
                let statement = Arc::clone(statement);
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

    /// Adds a statement that is being prepared; a non-empty range waits for it.
    pub(crate) fn begin(&mut self, key: S::Key, range: QueryRange<S>) {
        let waiting = (!range.is_empty()).then_some(range);
        let entry = Entry {
            state: State::Preparing(Vec::from_iter(waiting)),
            used_at: 0,
        };
        let before = self.entries.insert(key, entry);
        assert!(before.is_none(), "a statement is prepared once at a time");
    }

    /// Adds a range that waits for a statement that is being prepared.
    pub(crate) fn wait<Q>(&mut self, key: &Q, range: QueryRange<S>)
    where
        Q: Hash + Equivalent<S::Key>,
    {
        match self.entries.get_mut(key).map(|entry| &mut entry.state) {
            Some(State::Preparing(waiting)) => waiting.push(range),
            _ => panic!("only what is being prepared is waited for"),
        }
    }

    /// The queries that wait for a statement that is being prepared.
    pub(crate) fn waiting(&self, key: &S::Key) -> &[QueryRange<S>] {
        match self.entries.get(key).map(|entry| &entry.state) {
            Some(State::Preparing(waiting)) => waiting,
            _ => &[],
        }
    }

    /// Whether a query of the request waits for this statement.
    pub(crate) fn is_awaited(&self, key: &S::Key, ticket: Ticket) -> bool {
        let mut waiting = self.waiting(key).iter();
        waiting.any(|range| range.ticket == ticket)
    }

    /// Whether a query of the request waits for any statement.
    pub(crate) fn is_any_awaited(&self, ticket: Ticket) -> bool {
        self.entries.values().any(|entry| match &entry.state {
            State::Preparing(waiting) => waiting.iter().any(|range| range.ticket == ticket),
            State::Ready(_) => false,
        })
    }

    /// Adds a prepared statement, and returns the queries that wait for it; it was prepared for the
    /// first of each range.
    pub(crate) fn prepared(&mut self, statement: &Arc<S>) -> Vec<QueryRange<S>> {
        let Some(entry) = self.entries.get_mut(statement.key()) else {
            panic!("what is being prepared stays in the cache");
        };
        self.use_count += 1;
        entry.used_at = self.use_count;
        self.recent = Some(Arc::clone(statement));
        let ready = State::Ready(Arc::clone(statement));
        let mut waiting = match std::mem::replace(&mut entry.state, ready) {
            State::Preparing(waiting) => waiting,
            State::Ready(_) => panic!("a statement is prepared once at a time"),
        };
        for range in &mut waiting {
            range.statement = Some(Arc::clone(statement));
        }
        self.check();
        waiting
    }

    /// Removes a refused statement, and returns the queries that wait for it.
    pub(crate) fn refused(&mut self, key: &S::Key) -> Vec<QueryRange<S>> {
        match self.entries.remove(key).map(|entry| entry.state) {
            Some(State::Preparing(waiting)) => waiting,
            _ => panic!("what is being prepared stays in the cache"),
        }
    }

    /// Clears the cache, since the connection is gone.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.recent = None;
        self.evicted.clear();
    }

    /// Evicts exactly this statement, if it is still cached, and not one that was prepared later.
    pub(crate) fn evict(&mut self, statement: &Arc<S>) {
        if self.holds(statement) {
            self.entries.remove(statement.key());
            self.recent.take_if(|recent| Arc::ptr_eq(recent, statement));
            self.discard(Arc::clone(statement));
        }
        self.check();
    }

    /// Evicts all statements.
    pub(crate) fn evict_all(&mut self) {
        let ready: Vec<_> = self.ready().map(|(_, it)| Arc::clone(it)).collect();
        for statement in &ready {
            self.evict(statement);
        }
    }

    /// Evicts statements beyond the limit. Those that are being prepared stay.
    pub(crate) fn trim(&mut self) {
        while self.entries.len() > self.count_max {
            let Some((_, oldest)) = self.ready().min_by_key(|&(used_at, _)| used_at) else {
                return;
            };
            let oldest = Arc::clone(oldest);
            self.evict(&oldest);
        }
    }

    /// Schedules closing a statement that is not in the cache.
    pub(crate) fn discard(&mut self, statement: Arc<S>) {
        if statement.must_be_closed() {
            self.evicted.push(statement);
        }
    }

    /// Like [`discard`](Self::discard), unless the statement is in the cache or was already evicted
    /// from it.
    pub(crate) fn discard_uncached(&mut self, statement: Arc<S>) {
        let mut evicted = self.evicted.iter();
        let is_evicted = evicted.any(|evicted| Arc::ptr_eq(evicted, &statement));
        if !self.holds(&statement) && !is_evicted {
            self.discard(statement);
        }
    }

    /// Whether evicted statements have to be closed on the server.
    pub(crate) fn has_evicted(&self) -> bool {
        !self.evicted.is_empty()
    }

    /// An evicted statement that can be closed now: no waiting query and no query in flight uses
    /// it.
    pub(crate) fn pop_evicted(&mut self) -> Option<Arc<S>> {
        let is_free = |statement: &Arc<S>| Arc::strong_count(statement) == 1;
        let index = self.evicted.iter().position(is_free)?;
        Some(self.evicted.swap_remove(index))
    }

    /// Whether the cache has exactly this statement.
    fn holds(&self, statement: &Arc<S>) -> bool {
        self.entries.get(statement.key()).is_some_and(
            |entry| matches!(&entry.state, State::Ready(ready) if Arc::ptr_eq(ready, statement)),
        )
    }

    /// The prepared statements, and when each was used last.
    fn ready(&self) -> impl Iterator<Item = (u64, &Arc<S>)> {
        self.entries
            .values()
            .filter_map(|entry| match &entry.state {
                State::Ready(statement) => Some((entry.used_at, statement)),
                State::Preparing(_) => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Syncs;
    use crate::request::RequestScope;

    #[derive(Debug)]
    struct Statement {
        key: String,
        sequence: u64,
    }

    impl CachedStatement for Statement {
        type Key = String;

        fn key(&self) -> &String {
            &self.key
        }

        fn sequence(&self) -> u64 {
            self.sequence
        }

        fn must_be_closed(&self) -> bool {
            true
        }
    }

    fn prepare(cache: &mut StatementCache<Statement>, sql: &str, sequence: u64) -> Arc<Statement> {
        let key = sql.to_owned();
        let range = QueryRange::all(Ticket(1), 1, RequestScope::Anywhere, Syncs::Each);
        cache.begin(key.clone(), range);
        let statement = Arc::new(Statement { key, sequence });
        let waiting = cache.prepared(&statement);
        assert!(matches!(&waiting[..], [range] if range.statement.is_some()));
        statement
    }

    fn is_ready(cache: &mut StatementCache<Statement>, sql: &str, valid_from: u64) -> bool {
        let found = cache.find(&sql.to_owned(), valid_from);
        matches!(found, Found::Ready(_))
    }

    #[test]
    fn the_least_recently_used_is_evicted() {
        let mut cache = StatementCache::new(2);
        for (sql, sequence) in [("a", 1), ("b", 2)] {
            prepare(&mut cache, sql, sequence);
        }
        assert!(is_ready(&mut cache, "a", 0));
        prepare(&mut cache, "c", 3);
        cache.trim();
        assert!(is_ready(&mut cache, "a", 0) && is_ready(&mut cache, "c", 0));
        assert!(!is_ready(&mut cache, "b", 0));
        assert_eq!(cache.pop_evicted().unwrap().key, "b");
        assert!(cache.pop_evicted().is_none());
    }

    #[test]
    fn an_outdated_statement_is_not_found_even_if_it_was_used_last() {
        let mut cache = StatementCache::new(2);
        prepare(&mut cache, "a", 1);
        assert!(is_ready(&mut cache, "a", 1));
        assert!(!is_ready(&mut cache, "a", 2));
        assert_eq!(cache.pop_evicted().unwrap().key, "a");
    }

    #[test]
    fn an_evicted_statement_is_closed_when_no_query_uses_it() {
        let mut cache = StatementCache::new(2);
        let used = prepare(&mut cache, "a", 1);
        cache.evict_all();
        assert!(cache.has_evicted() && !is_ready(&mut cache, "a", 0));
        assert!(cache.pop_evicted().is_none());
        drop(used);
        assert_eq!(cache.pop_evicted().unwrap().key, "a");
    }

    #[test]
    fn a_statement_is_discarded_once() {
        let mut cache = StatementCache::new(2);
        let cached = prepare(&mut cache, "a", 1);
        cache.discard_uncached(Arc::clone(&cached));
        assert!(!cache.has_evicted());
        cache.evict(&cached);
        cache.discard_uncached(cached);
        assert!(cache.pop_evicted().is_some() && cache.pop_evicted().is_none());
    }
}
