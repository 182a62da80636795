//! A statement in one generation of an engine: its cache keys and its counters.

use std::sync::Arc;

use lookaside_value::{Extent, Value};

use super::Provider;
use crate::cache::KeyRef;
use crate::counters::Counters;
use crate::description::{Answerer, Description};
use crate::engine::Engine;
use crate::event::{CacheOutcome, Layer};
use crate::feed::TrackedStatement;
use crate::generation::Generation;
use crate::policy::Policy;
use crate::provenance::AnsweredBy;
use crate::remote::RemoteStatement;
use crate::statement::StatementInfo;

/// The context of a query: its statement, generation and engine.
#[derive(Clone, Copy)]
pub(crate) struct StatementContext<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) generation: &'a Generation,
    pub(crate) info: &'a StatementInfo,
    pub(crate) description: &'a Description,
}

impl<'a> StatementContext<'a> {
    #[inline(always)]
    pub(crate) fn key<'k>(&self, params: &'k [Value], extent: Extent) -> KeyRef<'k> {
        let key = KeyRef::new(&self.engine.hasher, self.info.id, extent, params);
        match self.tracked() {
            Some(tracked) => key.at(tracked.version(key.hash, params)),
            None => key,
        }
    }

    /// The statement as a change feed knows it, if its provider has one.
    #[inline]
    pub(crate) fn tracked(&self) -> Option<&'a TrackedStatement> {
        self.description.tracked.as_deref()
    }

    /// The text that a provider is queried with, after the version of the key was read.
    pub(super) fn sql_to_send(&self, statement: &RemoteStatement, extent: Extent) -> Arc<str> {
        let sql = statement.sql(extent);
        match self.tracked() {
            Some(tracked) => tracked.text_to_send(sql),
            None => Arc::clone(sql),
        }
    }

    /// The provider that answers, if it is not SQLite.
    #[inline]
    pub(crate) fn provider(&self) -> Option<Provider<'a>> {
        match &self.description.answerer {
            Answerer::Remote { remote, statement } => Some((remote, statement)),
            Answerer::Store(_) => None,
        }
    }

    /// Whether the policy's answers come from a cache.
    #[inline]
    pub(super) fn is_cached(&self, policy: &Policy<'_>) -> bool {
        match policy {
            Policy::Bypass => false,
            Policy::Global => self.generation.cache.is_some(),
            Policy::CallScope(_) => true,
        }
    }

    /// The database that answers.
    pub(super) fn database(&self) -> AnsweredBy {
        match self.description.answerer {
            Answerer::Remote { .. } => AnsweredBy::Provider,
            Answerer::Store(_) => AnsweredBy::Sqlite,
        }
    }

    /// Counts an event of a session.
    #[inline]
    pub(crate) fn count(&self, counters: &Counters, layer: Layer, outcome: CacheOutcome) {
        counters.of_cache(layer, outcome).add(1);
        self.tell(layer, outcome);
    }

    /// Counts an event outside of any session.
    pub(crate) fn count_shared(&self, layer: Layer, outcome: CacheOutcome) {
        let counters = &self.engine.counters.shared;
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
