//! Which change of which table can change the answers to a statement of a PostgreSQL provider.
//!
//! Three steps, of which only the second needs the server:
//!
//! 1. [`Shape::of`] reads the text as it is sent. It lists everything that the text uses, and
//!    refuses what it does not know: this is a list of what is allowed, not of what is forbidden.
//! 2. [`Catalog`] is what the server says about these names, in one query.
//! 3. [`classify`] decides. The lower class is right whenever there is doubt: it costs queries,
//!    while a class that is too high costs correctness.
//!
//! [`keys`] then computes the same key from the parameters of a lookup and from a row of the change
//! feed. What the change feed does not report, such as a change of a table's definition, is found by
//! comparing a fingerprint of the catalog ([`Names::fingerprint_sql`]).
//!
//! The catalog is read in several steps by the server, and names are resolved by its newest state.
//! So a caller reads the fingerprint before and after the catalog, and classifies only if both are
//! equal.

mod catalog;
mod classify;
mod explain;
mod expressions;
mod fingerprint;
mod keys;
mod names;
mod queries;
mod shape;
#[cfg(test)]
mod tests;
mod tokens;
mod types;
mod uses;

use std::borrow::Cow;

pub(crate) use self::catalog::Catalog;
pub(crate) use self::classify::{Dependency, classify};
pub use self::explain::{DependencyClass, StatementDependency};
pub(crate) use self::fingerprint::{
    Names, SETTINGS, definitions_fingerprint_sql, publication_fingerprint_sql,
};
pub(crate) use self::keys::{Family, Field, KeyColumn, KeyDependency, RowKey};
pub(crate) use self::shape::Shape;

/// Why a statement has no higher class: a lower-case clause for users, which completes "it …".
pub(crate) type Reason = Cow<'static, str>;
