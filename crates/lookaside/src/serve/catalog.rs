//! What is served at one moment: prepared lookups, bound models, keys. A reload builds the next
//! catalog beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use lookaside_knowledge::{Error, Knowledge, Statement};

use tracing::{info, warn};

use super::access::Access;
use super::lookup::{Lookup, prepare};
use super::models::{ModelSources, Models};
use super::openapi::openapi;
use super::overview::overview;
use super::problem::chain;
use crate::config::{ClientFreshness, EnrichSettings, LookupConfig, ServerConfig};
use crate::failure::Failure;
use crate::log::CONFIRMATION;
use crate::models::lookups::{Note, tell_notes, without_repetitions};

/// One version of everything that is served except the rows.
pub(crate) struct Catalog {
    /// Increases with each catalog of this process.
    pub(crate) number: u64,
    /// Sorted by name.
    pub(crate) lookups: Vec<Lookup>,
    pub(crate) models: Models,
    pub(crate) access: Access,
    pub(crate) query_rows_max: Option<usize>,
    pub(crate) error_detail: bool,
    /// How fresh an answer a client may demand.
    pub(crate) client_freshness: ClientFreshness,
    /// How long caches keep answers; zero if there are none.
    pub(crate) cache_ttl: Duration,
    /// How events are read and written unless a request sets it.
    pub(crate) enrich: EnrichSettings,
    /// The body of `GET /v1/lookups`.
    pub(crate) overview: Vec<u8>,
    /// The body of `GET /openapi.json`.
    pub(crate) openapi: Vec<u8>,
}

/// The parts that a catalog is built from, except the tables.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) lookups: Vec<LookupConfig>,
    pub(crate) server: ServerConfig,
    pub(crate) cache_ttl: Duration,
    pub(crate) enrich: EnrichSettings,
    pub(crate) models: ModelSources,
}

impl Catalog {
    /// Prepares what is to be served, continuing the counts of `before`. All providers together
    /// have this long to describe their statements; the lookups and models of a provider that does
    /// not respond wait for it.
    ///
    /// # Errors
    /// When a model is invalid, or a statement is refused or routed to another provider than its
    /// lookup requires.
    pub(crate) fn new(
        parts: Parts,
        knowledge: &Knowledge,
        before: Option<&Self>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let statements = parts.lookups.iter().map(|config| config.sql.as_str());
        let statements = statements.chain(parts.models.statements());
        let mut silent = knowledge.describe_all(statements, timeout);
        let silent_models = silent.split_off(parts.lookups.len());
        let models = Models::bind(&parts.models, silent_models, knowledge)?;
        let mut lookups: Vec<Lookup> = Vec::new();
        for (config, silent) in parts.lookups.into_iter().zip(silent) {
            let (prepared, away) = match silent {
                Some(error) => (None, Some(error)),
                None => match prepare(&config, knowledge) {
                    Ok(Ok(prepared)) => (Some(prepared), None),
                    Ok(Err(error)) => (None, Some(error)),
                    Err(failure) => {
                        release(&lookups, knowledge);
                        return Err(failure);
                    }
                },
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
        let access = Access::new(&server, before.map(|before| &before.access));
        let has_queries = server.query_rows_max.is_some();
        Ok(Self {
            number: before.map_or(1, |before| before.number + 1),
            query_rows_max: server.query_rows_max,
            error_detail: server.error_detail,
            client_freshness: server.client_freshness,
            cache_ttl: parts.cache_ttl,
            enrich: parts.enrich,
            overview: overview(&lookups, &models),
            openapi: openapi(
                (&lookups, server.client_freshness),
                &models,
                &access,
                has_queries,
            ),
            lookups,
            models,
            access,
        })
    }

    /// Logs which lookups and models wait for which provider, and which no longer wait, as far as
    /// that has changed since the catalog `before`.
    pub(crate) fn log_waiting(&self, before: Option<&Self>) {
        let known = before.map(Self::waiting).unwrap_or_default();
        for (provider, (waiting, error)) in self.waiting() {
            if known.get(provider).is_none_or(|(old, _)| *old != waiting) {
                let (lookups, models) = (listed(&waiting.lookups), listed(&waiting.models));
                let error = chain(error);
                warn!(
                    provider,
                    lookups,
                    models,
                    error,
                    "a provider does not answer; these lookups and models wait for it"
                );
            }
        }
        for (provider, (mut waiting, _)) in known {
            let is_ready = |name: &&str| self.lookup(name).is_some_and(|it| it.prepared.is_some());
            waiting.lookups.retain(is_ready);
            waiting
                .models
                .retain(|name| self.models.find(name).is_some());
            if waiting != Waiting::default() {
                let (lookups, models) = (listed(&waiting.lookups), listed(&waiting.models));
                info!(
                    target: CONFIRMATION,
                    provider,
                    lookups,
                    models,
                    "a provider answers; these lookups and models are ready"
                );
            }
        }
    }

    /// Logs warnings about lookups, and lookups that scan large tables for each query, unless they
    /// were logged for the catalog `before`.
    pub(crate) fn log_notes(&self, before: Option<&Self>) {
        let known = before.map(Self::notes).unwrap_or_default();
        let is_new = |note: &Note| {
            let is_same = |it: &Note| it.place == note.place && it.message == note.message;
            !known.iter().any(is_same)
        };
        let new: Vec<Note> = self.notes().into_iter().filter(is_new).collect();
        tell_notes(&new);
    }

    /// The same warnings as lines of text.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let notes = self.notes();
        let lines = without_repetitions(&notes)
            .into_iter()
            .map(|(note, others)| {
                let Note { place, message, .. } = note;
                match others {
                    0 => format!("{place}: {message}"),
                    1 => format!("{place} and another lookup: {message}"),
                    others => format!("{place} and {others} other lookups: {message}"),
                }
            });
        lines.collect()
    }

    fn notes(&self) -> Vec<Note> {
        let lookups = self.lookups.iter().flat_map(Lookup::notes);
        lookups.chain(self.models.notes().cloned()).collect()
    }

    /// What waits for each provider, and why.
    pub(crate) fn waiting(&self) -> BTreeMap<&str, (Waiting<'_>, &Error)> {
        let mut waiting = BTreeMap::new();
        for lookup in &self.lookups {
            if let Some(error) = &lookup.away {
                let entry = waiting.entry(provider_of(error));
                let (entry, _) = entry.or_insert((Waiting::default(), error));
                entry.lookups.push(lookup.name());
            }
        }
        for model in self.models.waiting() {
            for silent in &model.silent {
                let entry = waiting.entry(provider_of(&silent.error));
                let (entry, _) = entry.or_insert((Waiting::default(), &silent.error));
                // One model may have several lookups there.
                if entry.models.last() != Some(&model.name.as_str()) {
                    entry.models.push(&model.name);
                }
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

    /// Releases the statements, so that a reload may drop those that are not held otherwise.
    pub(crate) fn release(&self, knowledge: &Knowledge) {
        release(&self.lookups, knowledge);
    }

    /// Releases the statements that are not among the new lookups, so that a reload may drop them,
    /// and returns them. The other statements have their plans from the first moment of the new
    /// tables on.
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

    /// Releases all statements except `gone`, which were released before.
    pub(crate) fn release_rest(&self, gone: &[Statement], knowledge: &Knowledge) {
        for prepared in self.lookups.iter().flat_map(|lookup| &lookup.prepared) {
            let statement = &prepared.statement;
            if !gone.iter().any(|other| other.id() == statement.id()) {
                // It was prepared by this engine.
                let _ = knowledge.release(statement);
            }
        }
    }

    /// Whether a lookup that waits for its server, in a model or not, could be prepared, or
    /// refused, within `timeout`.
    pub(crate) fn can_prepare_more(&self, knowledge: &Knowledge, timeout: Duration) -> bool {
        let waiting = self.lookups.iter().filter(|it| it.prepared.is_none());
        let statements = waiting.map(|lookup| lookup.config.sql.as_str());
        let of_models = self.models.waiting().iter().flat_map(|it| &it.silent);
        let statements = statements.chain(of_models.map(|silent| silent.sql.as_str()));
        let silent = knowledge.describe_all(statements, timeout);
        silent.iter().any(Option::is_none)
    }

    /// The names of the lookups that wait for their server.
    pub(crate) fn waiting_lookups(&self) -> impl Iterator<Item = &str> {
        let waiting = self.lookups.iter().filter(|it| it.prepared.is_none());
        waiting.map(Lookup::name)
    }

    /// Whether a lookup or a model waits for its server.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting_lookups().next().is_some() || !self.models.waiting().is_empty()
    }

    /// Whether all lookups and models wait for their servers, so that nothing can be queried.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_any_ready = self.lookups.iter().any(|it| it.prepared.is_some());
        self.has_waiting() && !is_any_ready && self.models.ready_count() == 0
    }
}

/// The names of the lookups and models that wait for one provider.
#[derive(Default, PartialEq)]
pub(crate) struct Waiting<'a> {
    pub(crate) lookups: Vec<&'a str>,
    pub(crate) models: Vec<&'a str>,
}

/// The provider that does not respond; only providers can be unavailable.
fn provider_of(error: &Error) -> &str {
    error.provider_name().unwrap_or_default()
}

/// Names as they are logged; `None` if there are none.
fn listed(names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| names.join(", "))
}

/// Holds statements again, on tables that they were prepared on before.
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
