//! What a statement of a provider depends on, asked without waiting for the change feed.

use std::error::Error as StdError;

use super::{Remote, RemoteStatement};
use crate::config::ProviderKind;
use crate::depends::{Catalog, DependencyClass, Names, Shape, StatementDependency};

impl Remote {
    /// What the configured change feed does for a statement; `None` if the configuration sets none.
    pub(crate) async fn dependency(
        &self,
        statement: &RemoteStatement,
    ) -> Option<StatementDependency> {
        let config = self.config.feed.as_ref()?;
        match self.feed.as_ref().and_then(|feed| feed.refusal()) {
            Some(refusal) => Some(StatementDependency::without(
                DependencyClass::None,
                format!("is of a provider without a change feed: {refusal}"),
            )),
            None => self.dependency_in(statement, &config.publication).await,
        }
    }

    /// What a change feed of a publication would do for a statement; `None` if the server is not
    /// PostgreSQL.
    pub(crate) async fn dependency_in(
        &self,
        statement: &RemoteStatement,
        publication: &str,
    ) -> Option<StatementDependency> {
        if self.config.kind() != ProviderKind::Postgres {
            return None;
        }
        let (sql, _) = statement.numbered();
        let shape = Shape::of(sql);
        // The pool's sessions run the statement, so they resolve its names.
        let params = Names::of(&shape).catalog_params(publication);
        let asking = async {
            let asking = self.pool.query(Catalog::sql(), &params);
            match self.timeouts().timeout {
                Some(timeout) => tokio::time::timeout(timeout, asking).await.ok(),
                None => Some(asking.await),
            }
        };
        let unknown = |reason: String| {
            let reason = format!("was not classified: {reason}");
            StatementDependency::without(DependencyClass::Unknown, reason)
        };
        Some(match self.runtime.within(asking).await {
            None => unknown("the server did not answer in time".to_owned()),
            Some(Err(error)) => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                unknown(format!("{error}{}", cause.unwrap_or_default()))
            }
            Some(Ok(answer)) => match Catalog::from_rows(&answer.rows) {
                Ok(Some(catalog)) => StatementDependency::of(&shape, &catalog),
                Ok(None) => unknown("the server's catalog is empty".to_owned()),
                Err(error) => unknown(format!("the server's catalog cannot be read: {error}")),
            },
        })
    }
}
