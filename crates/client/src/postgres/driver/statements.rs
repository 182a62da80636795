//! The statements that a connection's server has prepared, and their names there.

use std::fmt::Write as _;

use super::options::Route;
use super::statement::Statement;
use crate::driver::StatementCache;

/// How many random bytes tell the names of connections apart. Among ten thousand of them, two are
/// equal once in five million times.
pub(super) const NONCE_SIZE: usize = 6;

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) cache: StatementCache<Statement>,
    /// Names that the server may forget, of statements that were never in the cache.
    closing: Vec<Box<str>>,
    /// How many names were given; `None` where statements have none.
    name_count: Option<u64>,
    /// What each name begins with.
    prefix: Box<str>,
}

impl Statements {
    pub(super) fn new(count_max: usize, route: Route) -> Self {
        Self {
            cache: StatementCache::new(count_max),
            closing: Vec::new(),
            name_count: (route == Route::Direct).then_some(0),
            prefix: "s".into(),
        }
    }

    /// Gives statements names that no other connection uses.
    ///
    /// With a pooler that the configuration does not mention, connections share sessions. With
    /// equal names, one would run the statement of another and get its rows; with unique names, the
    /// server reports an unknown statement.
    pub(super) fn set_unique_prefix(&mut self, nonce: [u8; NONCE_SIZE]) {
        let mut prefix = "s".to_owned();
        for byte in nonce {
            // Writing to a string cannot fail.
            let _ = write!(prefix, "{byte:02x}");
        }
        prefix.push('_');
        self.prefix = prefix.into();
    }

    /// A name that no statement of this connection had before. A name is never used again, so
    /// that what was on its way under an old one cannot reach a new statement. It is empty where no
    /// statement stays.
    pub(super) fn new_name(&mut self) -> Box<str> {
        match &mut self.name_count {
            Some(count) => {
                *count += 1;
                format!("{}{count}", self.prefix).into()
            }
            None => Box::default(),
        }
    }

    /// Forgets everything: the connection is gone.
    pub(super) fn clear(&mut self) {
        self.cache.clear();
        self.closing.clear();
    }

    /// A statement of this name may be on the server, and is of no use.
    pub(super) fn forget(&mut self, name: Box<str>) {
        if !name.is_empty() {
            self.closing.push(name);
        }
    }

    /// The name of a statement that the server can forget now.
    pub(super) fn pop_evicted(&mut self) -> Option<Box<str>> {
        if let Some(name) = self.closing.pop() {
            return Some(name);
        }
        let statement = self.cache.pop_evicted()?;
        Some(statement.name.clone())
    }
}
