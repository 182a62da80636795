//! Where questions leave the engine: the SQLite store of a generation, or another database.
//!
//! Everything above (statements, plans, caches, sessions) asks only to describe a statement and for
//! its rows. Which database a statement belongs to is decided when it is described: by the name
//! before its tables, or by where its tables are ([`route`]).

mod hint;
mod names;
mod reader;
mod route;

use std::sync::Arc;

use lookaside_value::Text;

pub(crate) use self::names::{Names, Target};
pub(crate) use self::reader::{Reader, StoreStatement};
pub(crate) use self::route::{LocalTables, Route, named, route, unknown_prefix};
use crate::remote::{Remote, RemoteStatement};

/// What the database says about a statement.
#[derive(Debug)]
pub(crate) struct Description {
    /// The names of the columns.
    pub(crate) columns: Arc<[Text]>,
    pub(crate) answerer: Answerer,
}

/// Who answers a statement, and how they read it.
#[derive(Debug)]
pub(crate) enum Answerer {
    Store(StoreStatement),
    Remote {
        remote: Arc<Remote>,
        statement: Arc<RemoteStatement>,
    },
}
