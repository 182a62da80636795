//! Descriptions of statements by the database that answers them.

use std::sync::Arc;

use lookaside_value::Text;

use crate::feed::TrackedStatement;
use crate::provider::StoreStatement;
use crate::remote::{Remote, RemoteStatement};

/// The database's description of a statement.
#[derive(Debug)]
pub(crate) struct Description {
    /// The names of the columns.
    pub(crate) columns: Arc<[Text]>,
    pub(crate) answerer: Answerer,
    /// `None` if its provider has no change feed.
    pub(crate) tracked: Option<Arc<TrackedStatement>>,
}

/// The database that answers a statement, and the statement in its form.
#[derive(Debug)]
pub(crate) enum Answerer {
    Store(StoreStatement),
    Remote {
        remote: Arc<Remote>,
        statement: Arc<RemoteStatement>,
    },
}
