//! Where questions leave the engine: the SQLite store of a generation, or another database.
//!
//! Everything above (statements, plans, caches, sessions) asks only to describe a statement and for
//! its rows. Which database a statement belongs to is decided when it is described: by the name
//! before its tables, or by where its tables are ([`route`]).

mod hint;
mod names;
mod reader;
mod route;

pub(crate) use self::names::{Names, Target};
pub(crate) use self::reader::{Reader, StoreStatement};
pub(crate) use self::route::{LocalTables, Route, named, route, unknown_prefix};
