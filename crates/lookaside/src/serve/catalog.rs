//! What is served at one moment: lookups that were prepared, keys, models; a reload makes the next
//! one beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use lookaside_knowledge::{Error, Knowledge, Statement};

use tracing::{info, warn};

use super::access::Access;
use super::config::{LookupConfig, ServerConfig};
use super::lookup::{Lookup, prepare};
use super::models::Models;
use super::openapi::openapi;
use super::overview::overview;
use super::problem::chain;
use crate::cli::failure::Failure;
use crate::cli::log::TOLD;
use crate::cli::settings::EnrichSettings;

/// One state of everything that is not rows.
pub(crate) struct Catalog {
    /// Counts up with each catalog of this process.
    pub(crate) number: u64,
    /// Sorted by name.
    pub(crate) lookups: Vec<Lookup>,
    pub(crate) models: Models,
    pub(crate) access: Access,
    pub(crate) query_rows_max: Option<usize>,
    pub(crate) error_detail: bool,
    /// How long caches keep answers; nothing where there are none.
    pub(crate) cache_ttl: Duration,
    /// How events are read and written where a request does not say.
    pub(crate) enrich: EnrichSettings,
    /// The body of `GET /v1/lookups`.
    pub(crate) overview: Vec<u8>,
    /// The body of `GET /openapi.json`.
    pub(crate) openapi: Vec<u8>,
}

/// What a catalog is made of beside tables.
pub(crate) struct Parts {
    pub(crate) lookups: Vec<LookupConfig>,
    pub(crate) server: ServerConfig,
    pub(crate) cache_ttl: Duration,
    pub(crate) enrich: EnrichSettings,
    pub(crate) models: Models,
}

impl Catalog {
    /// Prepares what is to be served. What `before` counted goes on being counted.
    ///
    /// # Errors
    /// When a statement is refused, or goes elsewhere than its lookup says.
    pub(crate) fn new(
        parts: Parts,
        knowledge: &Knowledge,
        before: Option<&Self>,
    ) -> Result<Self, Failure> {
        let mut lookups: Vec<Lookup> = Vec::new();
        for config in parts.lookups {
            let (prepared, away) = match prepare(&config, knowledge) {
                Ok(Ok(prepared)) => (Some(prepared), None),
                Ok(Err(error)) => (None, Some(error)),
                Err(failure) => {
                    release(&lookups, knowledge);
                    return Err(failure);
                }
            };
            let known = before.and_then(|before| before.lookup(&config.name));
            lookups.push(Lookup {
                counts: known.map(|known| known.counts.clone()).unwrap_or_default(),
                config,
                prepared,
                away,
            });
        }
        lookups.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        let server = parts.server;
        let mut catalog = Self {
            number: before.map_or(1, |before| before.number + 1),
            lookups,
            models: parts.models,
            access: Access::new(&server, before.map(|before| &before.access)),
            query_rows_max: server.query_rows_max,
            error_detail: server.error_detail,
            cache_ttl: parts.cache_ttl,
            enrich: parts.enrich,
            overview: Vec::new(),
            openapi: Vec::new(),
        };
        catalog.overview = overview(&catalog);
        catalog.openapi = openapi(&catalog);
        Ok(catalog)
    }

    /// Tells the log which lookups wait for which provider, as far as it did not hear that of the
    /// catalog `before`, and which ones wait no more.
    pub(crate) fn tell_waiting(&self, before: Option<&Self>) {
        let known = before.map(Self::waiting).unwrap_or_default();
        for (provider, (lookups, error)) in self.waiting() {
            if known.get(provider).is_none_or(|(old, _)| *old != lookups) {
                let (lookups, error) = (lookups.join(", "), chain(error));
                warn!(
                    provider,
                    lookups, error, "a provider does not answer, and these lookups wait for it"
                );
            }
        }
        for (provider, (lookups, _)) in known {
            let is_ready = |name: &&str| self.lookup(name).is_some_and(|it| it.prepared.is_some());
            let ready: Vec<&str> = lookups.into_iter().filter(is_ready).collect();
            if !ready.is_empty() {
                let lookups = ready.join(", ");
                info!(target: TOLD, provider, lookups, "a provider answers, and so do these lookups"
                );
            }
        }
    }

    /// By provider, the lookups that wait for it, and why.
    fn waiting(&self) -> BTreeMap<&str, (Vec<&str>, &Error)> {
        let mut waiting: BTreeMap<&str, (Vec<&str>, &Error)> = BTreeMap::new();
        for lookup in &self.lookups {
            if let Some(error) = &lookup.away {
                // Nothing else can be away.
                let provider = error.provider_name().unwrap_or_default();
                let entry = waiting.entry(provider).or_insert((Vec::new(), error));
                entry.0.push(lookup.name());
            }
        }
        waiting
    }

    /// The position of a lookup.
    #[inline]
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        let found = self
            .lookups
            .binary_search_by(|lookup| lookup.config.name.as_str().cmp(name));
        found.ok()
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<&Lookup> {
        self.position(name).map(|index| &self.lookups[index])
    }

    /// Lets a reload lose the statements, as far as nobody else holds on to them.
    pub(crate) fn release(&self, knowledge: &Knowledge) {
        release(&self.lookups, knowledge);
    }

    /// Lets a reload lose the statements that are not among those to come, and says which these are.
    /// The others keep their plans from the first moment of the new tables on.
    pub(crate) fn release_all_but(
        &self,
        next: &[LookupConfig],
        knowledge: &Knowledge,
    ) -> Vec<Statement> {
        let prepared = self.lookups.iter().flat_map(|lookup| &lookup.prepared);
        let statements = prepared.map(|prepared| &prepared.statement);
        let gone: Vec<Statement> = statements
            .filter(|statement| !next.iter().any(|config| config.sql == statement.sql()))
            .cloned()
            .collect();
        for statement in &gone {
            // It was prepared by this engine.
            let _ = knowledge.release(statement);
        }
        gone
    }

    /// Lets go of all but those statements, which were let go of already.
    pub(crate) fn release_rest(&self, gone: &[Statement], knowledge: &Knowledge) {
        for prepared in self.lookups.iter().flat_map(|lookup| &lookup.prepared) {
            let statement = &prepared.statement;
            if !gone.iter().any(|other| other.id() == statement.id()) {
                // It was prepared by this engine.
                let _ = knowledge.release(statement);
            }
        }
    }

    /// Whether a lookup that waits for its server could be prepared now.
    pub(crate) fn can_prepare_more(&self, knowledge: &Knowledge) -> bool {
        let mut waiting = self
            .lookups
            .iter()
            .filter(|lookup| lookup.prepared.is_none());
        waiting.any(|lookup| match knowledge.prepare(&lookup.config.sql) {
            Ok(statement) => {
                // It was prepared by this engine; whoever makes the catalog holds on to it.
                let _ = knowledge.release(&statement);
                true
            }
            // What is refused is refused again, with its place.
            Err(error) => !error.is_retryable(),
        })
    }
}

/// Holds on to statements again, on tables that they were prepared on before.
pub(crate) fn hold(statements: &[Statement], knowledge: &Knowledge) {
    for statement in statements {
        let _ = knowledge.prepare(statement.sql());
    }
}

fn release(lookups: &[Lookup], knowledge: &Knowledge) {
    for prepared in lookups.iter().flat_map(|lookup| &lookup.prepared) {
        // It was prepared by this engine.
        let _ = knowledge.release(&prepared.statement);
    }
}
