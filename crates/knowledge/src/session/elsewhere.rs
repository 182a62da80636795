//! The async way past a session, for statements of other databases: whoever waits holds none.

use std::sync::Arc;
use std::time::Duration;

use lookaside_value::{RowSet, Value};

use super::{Policy, Resolved, Session};
use crate::Result;
use crate::ask::{Ask, Moment};
use crate::cache::{Entry, Extent, KeyRef};
use crate::engine::Engine;
use crate::generation::{Generation, Prepared};
use crate::provider::Answerer;
use crate::statement::{Params, Query, Statement, StatementInfo};
use crate::telemetry::{CacheOutcome, Layer};

/// Who answers a statement, as far as a session knows.
pub(crate) enum Whose {
    /// SQLite.
    Ours,
    /// Another database.
    Theirs(Elsewhere),
    /// Nobody has asked yet. The generation can find out.
    Unknown(Arc<Generation>),
}

/// A statement of another database, in one generation.
pub(crate) struct Elsewhere {
    generation: Arc<Generation>,
    subject: Subject,
}

enum Subject {
    Statement(Statement),
    /// The text is answered without becoming a statement.
    Once(StatementInfo, Box<Prepared>),
}

impl Session {
    /// Who answers a question that no cache of this session does.
    pub(crate) fn whose(&mut self, query: Query<'_>) -> Result<Whose> {
        self.renew();
        if !self.generation.names().has_providers() {
            return Ok(Whose::Ours);
        }
        let known = match query {
            Query::Statement(statement) => Some(statement.clone()),
            Query::Text(sql) => self.engine.registry().find_text(sql).cloned(),
        };
        let prepared = known.and_then(|statement| self.generation.prepared(statement.id()));
        match prepared.map(|prepared| &prepared.description.answerer) {
            Some(Answerer::Store(_)) => Ok(Whose::Ours),
            Some(Answerer::Remote { .. }) => self.elsewhere(query),
            None => Ok(Whose::Unknown(Arc::clone(&self.generation))),
        }
    }

    /// The same of a statement that its database has described. So nothing here waits, unless a
    /// reload came in between.
    pub(crate) fn elsewhere(&mut self, query: Query<'_>) -> Result<Whose> {
        let subject = match self.resolve(query)? {
            Resolved::Statement(statement) => {
                self.enter(&statement)?;
                self.asker.prepared(&self.generation, &statement.0)?;
                Subject::Statement(statement)
            }
            Resolved::Once(info) => {
                let prepared = self.asker.describe(&self.generation, &info)?;
                Subject::Once(info, Box::new(prepared))
            }
        };
        let elsewhere = Elsewhere {
            generation: Arc::clone(&self.generation),
            subject,
        };
        Ok(match elsewhere.parts().1.description.answerer {
            Answerer::Store(_) => Whose::Ours,
            Answerer::Remote { .. } => Whose::Theirs(elsewhere),
        })
    }
}

impl Elsewhere {
    fn parts(&self) -> (&StatementInfo, &Prepared) {
        match &self.subject {
            Subject::Statement(statement) => {
                let prepared = self.generation.prepared(statement.id());
                (&statement.0, prepared.expect("a session prepared it"))
            }
            Subject::Once(info, prepared) => (info, prepared),
        }
    }

    /// How long its answers are kept.
    pub(super) fn ttl(&self) -> Duration {
        self.generation.ttl
    }

    /// The rows. A caller's cache was looked into before, and so was the session's, which holds
    /// them when they are asked for again.
    pub(crate) async fn rows(
        &self,
        engine: &Engine,
        params: Params<'_>,
        extent: Extent,
        policy: Policy<'_>,
    ) -> Result<RowSet> {
        let params = self.parts().0.place(params)?;
        let moment = Moment::new(engine.clock.now());
        let missed = match policy {
            Policy::Bypass => None,
            Policy::Global => Some(Layer::L0),
            Policy::CallScope(_) => Some(Layer::Call),
        };
        let entry = self.entry(engine, &params, extent, moment, missed).await?;
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

    /// The answer; by way of the shared cache if it was missed in the layer before that.
    pub(super) async fn entry(
        &self,
        engine: &Engine,
        params: &[Value],
        extent: Extent,
        moment: Moment,
        missed: Option<Layer>,
    ) -> Result<Entry> {
        let (info, prepared) = self.parts();
        let Answerer::Remote { remote, statement } = &prepared.description.answerer else {
            unreachable!("another database answers it");
        };
        let ask = Ask {
            engine,
            generation: &self.generation,
            info,
            description: &prepared.description,
        };
        let missed = missed.filter(|_| matches!(self.subject, Subject::Statement(_)));
        let cache = self.generation.cache.as_ref().filter(|_| missed.is_some());
        // Without a shared cache, sessions keep nothing either.
        if let Some(layer) = missed.filter(|layer| cache.is_some() || *layer == Layer::Call) {
            ask.count_elsewhere(layer, CacheOutcome::Miss);
        }
        let key = ask.key(params, extent);
        ask.remote_entry((remote, statement), cache, &key, moment)
            .await
    }
}
