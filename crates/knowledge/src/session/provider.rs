//! Statements that a provider answers, for async callers: no session is held while waiting.

use std::sync::Arc;

use lookaside_value::{Extent, RowSet, Value};

use super::{Admitted, Session};
use crate::Result;
use crate::cache::{CacheEntry, KeyRef};
use crate::description::Answerer;
use crate::engine::Engine;
use crate::event::{CacheOutcome, Layer};
use crate::freshness::Freshness;
use crate::generation::{Generation, Prepared};
use crate::policy::Policy;
use crate::provenance::{AnsweredBy, Provenance};
use crate::remote::{Pooled, Transport};
use crate::resolver::{AgeLimit, StatementContext};
use crate::statement::{Params, Query, Statement, StatementInfo};

/// The database that answers a statement, if the session can tell.
pub(crate) enum Backend {
    /// SQLite.
    Local,
    /// A provider.
    Provider(ProviderQuery),
    /// Not known yet; the generation can determine it.
    Unresolved(Arc<Generation>),
}

/// A statement that a provider answers, in one generation.
pub(crate) struct ProviderQuery {
    generation: Arc<Generation>,
    subject: Subject,
}

enum Subject {
    Statement(Statement),
    /// The text is answered without being registered.
    Once(StatementInfo, Box<Prepared>),
}

impl Session {
    /// The database that answers a query that no cache of this session answers.
    pub(crate) fn backend(&mut self, query: Query<'_>) -> Result<Backend> {
        self.renew();
        if !self.generation.names().has_providers() {
            return Ok(Backend::Local);
        }
        let known = match query {
            Query::Statement(statement) => Some(statement.clone()),
            Query::Text(sql) => self.engine.registry().find_text(sql).cloned(),
        };
        let prepared = known.and_then(|statement| self.generation.prepared(statement.id()));
        match prepared.map(|prepared| &prepared.description.answerer) {
            Some(Answerer::Store(_)) => Ok(Backend::Local),
            Some(Answerer::Remote { .. }) => self.described_backend(query),
            None => Ok(Backend::Unresolved(Arc::clone(&self.generation))),
        }
    }

    /// As [`Self::backend`], for a statement that is already described. So it does not block,
    /// unless there was a reload in between.
    pub(crate) fn described_backend(&mut self, query: Query<'_>) -> Result<Backend> {
        let subject = match self.admit(query)? {
            Admitted::Statement(statement) => {
                self.enter(&statement)?;
                self.resolver.prepared(&self.generation, &statement.0)?;
                Subject::Statement(statement)
            }
            Admitted::Once(info) => {
                let prepared = self.resolver.describe(&self.generation, &info)?;
                Subject::Once(info, Box::new(prepared))
            }
        };
        let query = ProviderQuery {
            generation: Arc::clone(&self.generation),
            subject,
        };
        Ok(match query.parts().1.description.answerer {
            Answerer::Store(_) => Backend::Local,
            Answerer::Remote { .. } => Backend::Provider(query),
        })
    }
}

impl ProviderQuery {
    fn parts(&self) -> (&StatementInfo, &Prepared) {
        match &self.subject {
            Subject::Statement(statement) => {
                let prepared = self.generation.prepared(statement.id());
                (&statement.0, prepared.expect("a session prepared it"))
            }
            Subject::Once(info, prepared) => (info, prepared),
        }
    }

    fn context<'a>(&'a self, engine: &'a Engine) -> StatementContext<'a> {
        let (info, prepared) = self.parts();
        StatementContext {
            engine,
            generation: &self.generation,
            info,
            description: &prepared.description,
        }
    }

    /// The rows, for a caller that has already searched the caches of the session and of the
    /// policy.
    pub(crate) async fn rows(
        &self,
        engine: &Engine,
        params: Params<'_>,
        extent: Extent,
        policy: Policy<'_>,
    ) -> Result<RowSet> {
        let params = self.parts().0.to_positional(params)?;
        let limit = AgeLimit::cached(engine.clock.now());
        let missed = match policy {
            Policy::Bypass => None,
            Policy::Global => Some(Layer::L0),
            Policy::CallScope(_) => Some(Layer::Call),
        };
        let entry = self.entry(engine, &params, extent, &limit, missed, &Pooled);
        let entry = entry.await?;
        let rows = entry.rows.clone();
        if let Policy::CallScope(own) = policy
            && let Subject::Statement(statement) = &self.subject
            && entry.is_fresh(engine.clock.now())
        {
            own.enter(engine.number, self.generation.number);
            let key = KeyRef::new(&engine.hasher, statement.id(), extent, &params);
            own.insert(key.to_key(), entry);
        }
        Ok(rows)
    }

    /// The rows and their origin, for a caller that has already searched the session's cache.
    pub(crate) async fn answer(
        &self,
        engine: &Engine,
        params: &[Value],
        extent: Extent,
        freshness: Freshness,
        transport: &impl Transport,
    ) -> Result<(RowSet, Provenance)> {
        let context = self.context(engine);
        let limit = AgeLimit::of(&context, freshness);
        let missed = Some(Layer::L0);
        let entry = self.entry(engine, params, extent, &limit, missed, transport);
        let entry = entry.await?;
        let tracking = limit.waited(&context.key(params, extent));
        let by = AnsweredBy::of_provider(&entry, limit.now);
        let provenance = Provenance::of(by, &entry, engine.clock.now(), tracking);
        Ok((entry.rows, provenance))
    }

    /// The answer; from the shared cache if `missed` names the layer before it.
    async fn entry(
        &self,
        engine: &Engine,
        params: &[Value],
        extent: Extent,
        limit: &AgeLimit,
        missed: Option<Layer>,
        transport: &impl Transport,
    ) -> Result<CacheEntry> {
        let context = self.context(engine);
        let provider = context.provider().expect("a provider answers it");
        let missed = missed.filter(|_| matches!(self.subject, Subject::Statement(_)));
        let cache = self.generation.cache.as_ref().filter(|_| missed.is_some());
        // Without a shared cache, sessions cache nothing either.
        if let Some(layer) = missed.filter(|layer| cache.is_some() || *layer == Layer::Call) {
            context.count_shared(layer, CacheOutcome::Miss);
        }
        let key = context.key(params, extent);
        let fetching = context.fetch_from_provider(provider, cache, &key, limit, transport);
        fetching.await
    }
}
