//! What is served at one moment: lookups that were prepared, keys, models; a reload makes the next
//! one beside it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lookaside_knowledge::{Error, Explanation, Extent, Knowledge, PlanKind, Statement, Text};

use tracing::{info, warn};

use super::access::Access;
use super::config::{LookupConfig, ServerConfig};
use super::models::Models;
use super::overview::{openapi, overview};
use super::params::{PARAM_COUNT_MAX, Param, ParamType};
use super::problem::chain;
use crate::cli::failure::{Failure, did_you_mean};
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

/// One lookup.
pub(crate) struct Lookup {
    pub(crate) config: LookupConfig,
    /// How it is answered; not known while its server has never been asked.
    pub(crate) prepared: Option<Prepared>,
    /// Why it is not prepared.
    pub(crate) away: Option<Error>,
    /// What it was asked for; goes on over reloads.
    pub(crate) counts: Arc<LookupCounts>,
}

/// A statement that can be asked.
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    /// In the order of the statement.
    pub(crate) params: Vec<Param>,
    pub(crate) explanation: Explanation,
    pub(crate) validity: Validity,
}

/// As long as what an answer is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// The tables: nothing but a reload changes it.
    Tables,
    /// The moment: a provider's rows change, and so does the time of day.
    Moment,
}

/// What one lookup was asked for.
///
/// Threads count in stripes, so that cores seldom share a cache line; `Relaxed` throughout, since sums
/// order nothing.
#[derive(Debug, Default)]
pub(crate) struct LookupCounts {
    stripes: [Stripe; STRIPE_COUNT],
    /// When the log was told last that a provider does not answer.
    told: Mutex<Option<Instant>>,
}

/// How often the log hears of one lookup that its provider does not answer: each request would say it.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Enough that a machine's I/O threads meet seldom.
const STRIPE_COUNT: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    found: AtomicU64,
    absent: AtomicU64,
    failed: AtomicU64,
}

impl LookupCounts {
    /// Counts an answer that a thread gave.
    #[inline]
    pub(crate) fn add(&self, thread: usize, is_found: bool) {
        match is_found {
            true => self.add_many(thread, 1, 0),
            false => self.add_many(thread, 0, 1),
        }
    }

    /// Counts answers with rows and without.
    pub(crate) fn add_many(&self, thread: usize, found: u64, absent: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        for (counter, count) in [(&stripe.found, found), (&stripe.absent, absent)] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Counts questions that were not answered.
    pub(crate) fn add_failed(&self, thread: usize, count: u64) {
        let stripe = &self.stripes[thread % STRIPE_COUNT];
        stripe.failed.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether the log is to hear again that a provider does not answer.
    fn is_news(&self) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = told.is_none_or(|told| told.elapsed() >= TOLD_AGAIN);
        if is_news {
            *told = Some(Instant::now());
        }
        is_news
    }

    /// The sums with their names.
    pub(crate) fn named(&self) -> [(&'static str, u64); 3] {
        let sum = |of: fn(&Stripe) -> &AtomicU64| -> u64 {
            let stripes = self.stripes.iter();
            stripes
                .map(|stripe| of(stripe).load(Ordering::Relaxed))
                .sum()
        };
        [
            ("found", sum(|stripe| &stripe.found)),
            ("absent", sum(|stripe| &stripe.absent)),
            ("failed", sum(|stripe| &stripe.failed)),
        ]
    }
}

impl Lookup {
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Tells the log, in full, why a question was not answered.
    pub(crate) fn tell_failure(&self, error: &Error) {
        if !error.is_retryable() || self.counts.is_news() {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            warn!(lookup = self.name(), %error, cause, "a lookup failed");
        }
    }

    /// Whether bodies are worth keeping: a native plan finds one row again as fast as a body is found.
    #[inline]
    pub(crate) fn keeps_bodies(&self, prepared: &Prepared) -> bool {
        self.config.many || !prepared.is_native()
    }

    pub(crate) fn extent(&self) -> Extent {
        match self.config.many {
            true => Extent::All,
            false => Extent::First,
        }
    }
}

impl Prepared {
    /// Whether a native plan answers, nearly always without looking anywhere else.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self.explanation.kind, PlanKind::Hash | PlanKind::Interval)
    }
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

/// Prepares one lookup, or says why its server does not answer now.
fn prepare(
    config: &LookupConfig,
    knowledge: &Knowledge,
) -> Result<Result<Prepared, Error>, Failure> {
    let place = |problem: &str| format!("{}: lookups.{} {problem}", config.place, config.name);
    let statement = match knowledge.prepare(&config.sql) {
        Ok(statement) => statement,
        Err(error) if error.is_retryable() => return Ok(Err(error)),
        Err(error) => return Err(refused(config, &error)),
    };
    let explanation = match knowledge.explain(&config.sql) {
        Ok(explanation) => explanation,
        Err(error) if error.is_retryable() => return Ok(Err(error)),
        Err(error) => return Err(refused(config, &error)),
    };
    let answerer = explanation
        .provider
        .as_ref()
        .map(|provider| &*provider.name);
    if let Some(wanted) = &config.provider {
        let is_local = answerer.is_none() && wanted == "local";
        if !is_local && answerer != Some(wanted) {
            let found = answerer.unwrap_or("local");
            let problem = place(&format!(
                "is to be answered by {wanted:?}, and its tables are those of {found:?}"
            ));
            let help = "write the name before the table, as in assets.hosts, or correct provider";
            return Err(Failure::new(problem).with_help(help));
        }
    }
    let params = statement_params(config, &statement)?;
    let is_here = answerer.is_none() && is_timeless(&config.sql);
    Ok(Ok(Prepared {
        params,
        validity: match is_here {
            true => Validity::Tables,
            false => Validity::Moment,
        },
        statement,
        explanation,
    }))
}

/// A lookup whose statement is wrong, with its place.
pub(crate) fn refused(config: &LookupConfig, error: &Error) -> Failure {
    let (place, name) = (&config.place, &config.name);
    Failure::new(format!("{place}: lookups.{name}: {error}")).with_sources(error)
}

/// The parameters of the statement with the types that are declared.
fn statement_params(config: &LookupConfig, statement: &Statement) -> Result<Vec<Param>, Failure> {
    let place = |problem: &str| format!("{}: lookups.{} {problem}", config.place, config.name);
    let names = statement.params();
    if names.len() > PARAM_COUNT_MAX {
        let problem = format!(
            "has {} parameters, and {PARAM_COUNT_MAX} are the most",
            names.len()
        );
        return Err(Failure::new(place(&problem)));
    }
    for (declared, _) in &config.params {
        if !names.iter().any(|name| name == declared.as_str()) {
            let hint = did_you_mean(declared, names.iter().map(Text::as_str));
            let problem = place(&format!(
                "declares the parameter {declared}, {}",
                match names {
                    [] => "and its statement has none".to_owned(),
                    _ => format!("which its statement does not have{hint}"),
                }
            ));
            return Err(Failure::new(problem).with_help("parameters are written :name in the SQL"));
        }
    }
    let kind = |name: &Text| {
        let declared = config
            .params
            .iter()
            .find(|(declared, _)| name == declared.as_str());
        declared.map_or(ParamType::Any, |(_, kind)| *kind)
    };
    for (name, text) in &config.example {
        let Some(param) = names.iter().find(|known| *known == name.as_str()) else {
            let problem =
                format!("has an example of {name}, which is no parameter of its statement");
            return Err(Failure::new(place(&problem)));
        };
        let kind = kind(param);
        if kind.parse(text).is_none() {
            let (at, lookup, wanted) = (&config.place, &config.name, kind.wanted());
            let problem = format!("{at}: lookups.{lookup}.example.{name} is {text:?} and {wanted}");
            let help = format!("correct it, or the type in params.{name}");
            return Err(Failure::new(problem).with_help(help));
        }
    }
    let params = names.iter().map(|name| Param {
        name: name.clone(),
        kind: kind(name),
    });
    Ok(params.collect())
}

/// Whether nothing in a statement asks for the time of day or for chance. A word in a text or a name
/// counts as well: that costs a conditional request, and a wrong answer never.
fn is_timeless(sql: &str) -> bool {
    const MOODS: [&str; 9] = [
        "random",
        "now",
        "current_",
        "date(",
        "time(",
        "julianday",
        "unixepoch",
        "changes(",
        "last_insert_rowid",
    ];
    let sql: String = sql.to_ascii_lowercase().split_whitespace().collect();
    !MOODS.iter().any(|mood| sql.contains(mood))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_moment_are_told() {
        for (sql, expected) in [
            ("select org from asn where first_ip <= :ip", true),
            ("select random()", false),
            ("select datetime ('NOW')", false),
            ("select CURRENT_TIMESTAMP", false),
            ("select date (\n)", false),
            ("select updated from t", true),
        ] {
            assert_eq!(is_timeless(sql), expected, "{sql}");
        }
    }
}
