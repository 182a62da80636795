//! The async way into a session, for statements of other databases.

use lookaside_value::RowSet;

use super::{Policy, Resolved, Session};
use crate::Result;
use crate::ask::Ask;
use crate::cache::Extent;
use crate::provider::Answerer;
use crate::statement::{Params, Query};

impl Session {
    /// The rows of a statement of another database, without holding up a thread; `None` if the
    /// statement is not of another database.
    pub(crate) async fn rows_elsewhere(
        &mut self,
        query: Query<'_>,
        params: Params<'_>,
        extent: Extent,
        policy: Policy<'_>,
    ) -> Result<Option<RowSet>> {
        self.renew();
        if !self.generation.names().has_providers() {
            return Ok(None);
        }
        let known = match query {
            Query::Statement(statement) => Some(statement.clone()),
            Query::Text(sql) => self.engine.registry().find_text(sql).cloned(),
        };
        let prepared = known.and_then(|statement| self.generation.prepared(statement.id()));
        let is_elsewhere = match (prepared, query) {
            (Some(prepared), _) => matches!(prepared.description.answerer, Answerer::Remote { .. }),
            (None, Query::Statement(statement)) => {
                self.generation.describe_elsewhere(statement.sql()).await?
            }
            (None, Query::Text(sql)) => self.generation.describe_elsewhere(sql).await?,
        };
        if !is_elsewhere {
            return Ok(None);
        }
        // It is described, so nothing here waits; unless a reload came in between, perhaps.
        let resolved = self.resolve(query)?;
        let Self {
            engine,
            generation,
            asker,
            ..
        } = self;
        let (info, own);
        let description = match &resolved {
            Resolved::Statement(statement) => {
                info = &*statement.0;
                &asker.prepared(generation, info)?.description
            }
            Resolved::Once(once) => {
                info = once;
                own = asker.describe(generation, info)?;
                &own.description
            }
        };
        let Answerer::Remote { remote, statement } = &description.answerer else {
            return Ok(None);
        };
        let params = info.place(params)?;
        let ask = Ask {
            engine,
            generation,
            info,
            description,
        };
        let policy = match &resolved {
            Resolved::Statement(_) => policy,
            Resolved::Once(_) => Policy::Bypass,
        };
        let elsewhere = (&**remote, &**statement);
        let rows = asker.rows_elsewhere(&ask, elsewhere, &params, extent, policy);
        Ok(Some(rows.await?))
    }
}
