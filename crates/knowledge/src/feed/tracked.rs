//! A statement whose cached answers a change feed invalidates.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use std::time::Duration;

use foldhash::quality::RandomState;
use lookaside_value::{Extent, StatementId, Value};

use super::horizon::Horizon;
use crate::cache::KeyRef;
use crate::depends::{Dependency, Family, Field, KeyColumn, KeyDependency, RowKey, Shape};
use crate::versions::{DataVersion, TouchedSlots, VersionSlot, Versions};

/// A statement of a provider with a change feed.
///
/// It is tracked from the moment on when its dependency is known and all changes have been applied
/// that were received before that. Until then, and while the feed is interrupted, its entries are not
/// invalidated, and their age alone counts.
#[derive(Debug)]
pub(crate) struct TrackedStatement {
    pub(crate) id: StatementId,
    /// The text that is sent, with numbered parameters.
    pub(super) sql: Box<str>,
    /// For each of the numbered parameters, the position of its value in a parameter set.
    binds: Box<[usize]>,
    /// The tables that it names, without their schemas.
    tables: Box<[Box<str>]>,
    hasher: RandomState,
    versions: Arc<Versions>,
    pub(crate) horizon: Arc<Horizon>,
    /// The number of the scope that callers use; [`NO_SCOPE`] while the statement is not tracked.
    live: AtomicUsize,
    /// How often it has become live, or ceased to be. Incremented before the change is published.
    transition_count: AtomicU32,
    /// The number of the text that is sent; 0 for the statement as it is.
    text_number: AtomicU32,
    /// The number of the scope that changes are compared with. Only the feed sets it.
    selected: AtomicUsize,
    scopes: Scopes,
    /// Of all statements of the provider.
    refused_fill_count: Arc<AtomicU64>,
    /// The counter that all keys share.
    slot_of_all: VersionSlot,
}

const NO_SCOPE: usize = usize::MAX;

/// The scopes that a statement has had. There is another one when the definition of a table has changed
/// what the statement depends on. They are never removed, so callers read them without a lock.
#[derive(Debug, Default)]
struct Scopes(OnceLock<Box<(Scope, Scopes)>>);

impl Scopes {
    #[inline]
    fn get(&self, number: usize) -> Option<&Scope> {
        let mut scopes = self;
        for _ in 0..number {
            scopes = &scopes.0.get()?.1;
        }
        scopes.0.get().map(|link| &link.0)
    }

    /// The number of a scope, which is added if there is none like it.
    fn number_of(&self, scope: Scope) -> usize {
        let mut scopes = self;
        let mut number = 0;
        while let Some(link) = scopes.0.get() {
            if link.0 == scope {
                return number;
            }
            scopes = &link.1;
            number += 1;
        }
        let added = scopes.0.set(Box::new((scope, Self::default())));
        added.expect("only the feed adds scopes");
        number
    }
}

/// Which entries of the statement a change of a row invalidates.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Those of the old and the new key of the row.
    Key {
        key: KeyDependency,
        /// For each parameter, the type of the column that it equals.
        families: Box<[Family]>,
    },
    /// All; the tables.
    Statement(Vec<u32>),
}

/// A change of a table.
pub(super) enum Change<'a, 'f> {
    /// A version of a row, by its columns.
    Row(&'a dyn Fn(&KeyColumn) -> Field<'f>),
    /// All rows.
    All,
}

impl TrackedStatement {
    pub(super) fn new(
        id: StatementId,
        (sql, binds): (&str, &[usize]),
        hasher: RandomState,
        (versions, horizon): (&Arc<Versions>, &Arc<Horizon>),
        refused_fill_count: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            id,
            sql: sql.into(),
            binds: binds.into(),
            tables: Shape::of(sql).tables().map(Box::from).collect(),
            slot_of_all: VersionSlot::of(KeyRef::new(&hasher, id, Extent::First, &[]).hash),
            hasher,
            versions: Arc::clone(versions),
            horizon: Arc::clone(horizon),
            live: AtomicUsize::new(NO_SCOPE),
            transition_count: AtomicU32::new(0),
            text_number: AtomicU32::new(0),
            selected: AtomicUsize::new(NO_SCOPE),
            scopes: Scopes::default(),
            refused_fill_count: Arc::clone(refused_fill_count),
        }
    }

    /// The version of a key's data. `hash` is that of the key.
    #[inline]
    pub(crate) fn version(&self, hash: u64, params: &[Value]) -> DataVersion {
        let number = self.live.load(Ordering::Acquire);
        if number == NO_SCOPE {
            return self.untracked();
        }
        let Some(slot) = self.slot(number, hash, params) else {
            return DataVersion::UNTRACKED;
        };
        let version = self.versions.get(slot);
        // If the feed was interrupted meanwhile, the version may be the one from which it goes on, and
        // an answer with it would miss the changes in between.
        match self.live.load(Ordering::Acquire) == number {
            true => version,
            false => DataVersion::UNTRACKED,
        }
    }

    /// Whether the feed was live, and its horizon is as old as this now, or there is none.
    pub(crate) fn is_behind(&self, age: Duration) -> bool {
        match self.is_live() {
            true => {
                let horizon = self.horizon.fresh_as_of();
                horizon.is_none_or(|horizon| horizon.elapsed() >= age)
            }
            // One transition is the beginning, before it is published. A statement that is not followed
            // any more has no scope.
            false => {
                self.transition_count.load(Ordering::Relaxed) > 1 && self.selected_scope().is_some()
            }
        }
    }

    /// The version of all answers while the statement is not tracked. It is another one each time, so
    /// that an answer from before is not used again, which callers may know to be outdated.
    fn untracked(&self) -> DataVersion {
        DataVersion::untracked(self.transition_count.load(Ordering::Acquire))
    }

    /// The text to send for a text of this statement, after the version of the key was read.
    ///
    /// A prepared statement keeps its tables even when the same name means another table from now on,
    /// which precedes them in the `search_path`, and its literals even when a label of an enum is renamed.
    /// The changes of the former table are followed, so the server has to read the statement anew when a
    /// definition has changed, and after each classification: a text that it has not seen makes it do so.
    pub(crate) fn text_to_send(&self, sql: &Arc<str>) -> Arc<str> {
        match self.text_number.load(Ordering::Acquire) {
            0 => Arc::clone(sql),
            count => format!("{sql}\n/* {count} */").into(),
        }
    }

    /// Lets the server read the statement anew.
    pub(super) fn renew_text(&self) {
        self.text_number.fetch_add(1, Ordering::Release);
    }

    /// Whether an answer to the statement is valid still; one that is untracked, if its age permits.
    #[inline]
    pub(crate) fn is_current(&self, version: DataVersion) -> bool {
        match (self.is_live(), version.is_tracked()) {
            (true, true) => self.versions.is_current(version),
            (false, false) => self.untracked().version() == version.version(),
            _ => false,
        }
    }

    /// Counts an answer that has arrived from the server, if its rows were changed since this version.
    pub(crate) fn count_fill(&self, version: DataVersion) {
        if version.is_tracked() && !self.is_current(version) {
            self.refused_fill_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire) != NO_SCOPE
    }

    /// The counter for a key in a scope; `None` for parameters that cannot be compared with the key of
    /// a row.
    #[inline]
    fn slot(&self, number: usize, hash: u64, params: &[Value]) -> Option<VersionSlot> {
        match self.scopes.get(number)? {
            Scope::Statement(_) => Some(self.slot_of_all),
            Scope::Key { key, families } => {
                let is_canonical = match (&**families, params) {
                    // Most keys.
                    ([family], [param]) => family.is_canonical(param),
                    _ => {
                        let mut both = families.iter().zip(params);
                        both.all(|(family, param)| family.is_canonical(param))
                    }
                };
                match is_canonical {
                    true => Some(VersionSlot::of(hash)),
                    false => self.slot_of_converted(key, params),
                }
            }
        }
    }

    /// The counter for a key whose parameters have other types than its columns: that of the key which
    /// the server compares.
    #[cold]
    fn slot_of_converted(&self, key: &KeyDependency, params: &[Value]) -> Option<VersionSlot> {
        let sent: Vec<Value> = (self.binds.iter())
            .map(|position| params.get(*position).cloned())
            .collect::<Option<_>>()?;
        let params = self.positional(key.canonical_params(&sent)?)?;
        Some(VersionSlot::of(self.hash(Extent::First, &params)))
    }

    fn hash(&self, extent: Extent, params: &[Value]) -> u64 {
        KeyRef::new(&self.hasher, self.id, extent, params).hash
    }

    /// Values by the numbers of the parameters, as a parameter set.
    fn positional(&self, numbered: Vec<Option<Value>>) -> Option<Vec<Value>> {
        let len = self.binds.iter().max().map_or(0, |last| last + 1);
        let mut params = vec![None; len];
        for (value, position) in numbered.into_iter().zip(&self.binds) {
            if params[*position].is_none() {
                params[*position] = value;
            }
        }
        params.into_iter().collect()
    }

    /// The scope that changes are compared with.
    fn selected_scope(&self) -> Option<&Scope> {
        let number = self.selected.load(Ordering::Relaxed);
        (number != NO_SCOPE).then(|| self.scopes.get(number))?
    }

    /// Whether the statement names a table, in any schema.
    pub(super) fn names_table(&self, table: &str) -> bool {
        self.tables.iter().any(|name| **name == *table)
    }

    /// Adds the slots of the keys that a row concerns, by the names of its columns. All, if the row
    /// lacks a column of the key.
    pub(super) fn touch_row(&self, row: &[(&str, Value)], touched: &mut TouchedSlots) {
        match self.selected_scope() {
            Some(Scope::Statement(_)) => touched.add(self.slot_of_all),
            Some(Scope::Key { key, .. }) => {
                let params = key.named_key(row);
                self.touch_key(params.and_then(|it| self.positional(it)), touched);
            }
            None => {}
        }
    }

    /// Adds the slots of a key, or all if it is not known.
    fn touch_key(&self, params: Option<Vec<Value>>, touched: &mut TouchedSlots) {
        match params {
            // The first row and all rows are different entries.
            Some(params) => {
                touched.add(VersionSlot::of(self.hash(Extent::First, &params)));
                touched.add(VersionSlot::of(self.hash(Extent::All, &params)));
            }
            None => touched.add_all(),
        }
    }

    /// Adds the slots of the keys that a change invalidates.
    pub(super) fn touch(&self, change: Change<'_, '_>, touched: &mut TouchedSlots) {
        match (self.selected_scope(), change) {
            (Some(Scope::Statement(_)), _) => touched.add(self.slot_of_all),
            (Some(Scope::Key { key, .. }), Change::Row(field)) => {
                let params = match key.row_key(field) {
                    RowKey::Absent => return,
                    RowKey::Unknown => None,
                    RowKey::Values(values) => self.positional(values),
                };
                self.touch_key(params, touched);
            }
            // Counters do not know their statements.
            (Some(Scope::Key { .. }), Change::All) => touched.add_all(),
            (None, _) => {}
        }
    }

    /// Sets what the statement depends on, and returns the tables; `None` if no feed can tell when an
    /// answer changes. All versions have to have been [renewed](Versions::renew) since it was tracked
    /// the last time, because its keys may have other counters now.
    pub(super) fn set_dependency(&self, dependency: Dependency) -> Option<Vec<u32>> {
        self.renew_text();
        self.selected.store(NO_SCOPE, Ordering::Relaxed);
        let (scope, relations) = match dependency {
            Dependency::None { .. } => return None,
            Dependency::Table { relations, .. } => (Scope::Statement(relations.clone()), relations),
            Dependency::Key(key) => {
                let relations = vec![key.relation];
                let numbered = key.families_of_params(self.binds.len())?;
                let mut families = vec![None; self.binds.iter().max().map_or(0, |last| last + 1)];
                for (family, position) in numbered.into_iter().zip(&self.binds) {
                    families[*position] = Some(family);
                }
                let families: Vec<Family> = families.into_iter().collect::<Option<_>>()?;
                let scope = Scope::Key {
                    key,
                    families: families.into(),
                };
                (scope, relations)
            }
        };
        let number = self.scopes.number_of(scope);
        self.selected.store(number, Ordering::Relaxed);
        Some(relations)
    }

    /// The tables that it depends on, once that is known.
    #[cfg(feature = "replay")]
    pub(super) fn relations(&self) -> Vec<u32> {
        match self.selected_scope() {
            Some(Scope::Key { key, .. }) => vec![key.relation],
            Some(Scope::Statement(relations)) => relations.clone(),
            None => Vec::new(),
        }
    }

    /// Lets callers use the change feed, or not.
    pub(super) fn set_live(&self, is_live: bool) {
        let number = match is_live {
            true => self.selected.load(Ordering::Relaxed),
            false => NO_SCOPE,
        };
        // A caller that reads the new number queries the server after the change.
        if is_live != self.is_live() {
            self.transition_count.fetch_add(1, Ordering::Release);
        }
        self.live.store(number, Ordering::Release);
    }
}
