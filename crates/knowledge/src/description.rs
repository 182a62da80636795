//! A statement as the database that answers it describes it.

use std::sync::Arc;

use lookaside_value::Text;

use crate::provider::StoreStatement;
use crate::remote::{Remote, RemoteStatement};

/// What the database says about a statement.
#[derive(Debug)]
pub(crate) struct Description {
    /// The names of the columns.
    pub(crate) columns: Arc<[Text]>,
    pub(crate) answerer: Answerer,
}

/// The database that answers a statement, and the statement as it reads it.
#[derive(Debug)]
pub(crate) enum Answerer {
    Store(StoreStatement),
    Remote {
        remote: Arc<Remote>,
        statement: Arc<RemoteStatement>,
    },
}
