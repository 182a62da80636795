//! The databases behind the engine: the SQLite store of a generation, and the choice between it and
//! providers.
//!
//! The other modules (statements, plans, caches, sessions) only let a database describe a statement
//! and return its rows. The database of a statement is determined when it is described: by the name
//! that qualifies its tables, or by where its tables are ([`route`]).

mod hint;
mod names;
mod reader;
mod route;

pub(crate) use self::names::{Names, RouteTarget};
pub(crate) use self::reader::{Reader, StoreStatement};
pub(crate) use self::route::{LocalTables, ProviderRoute, named, route, unknown_prefix};
