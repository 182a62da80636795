//! Which caches a query uses.

use crate::cache::CallCache;

/// Which caches may answer a query that the database would answer, and store the answer. A native
/// plan needs no cache: it is always tried first and is always current.
#[derive(Debug, Default)]
pub enum Policy<'a> {
    /// Queries the database and caches nothing.
    Bypass,
    /// The session's cache, then the shared one, then the database.
    #[default]
    Global,
    /// The caller's own cache, then the shared one, then the database.
    CallScope(&'a mut CallCache),
}

impl Policy<'_> {
    /// The same policy for a part of the work.
    pub(crate) fn reborrow(&mut self) -> Policy<'_> {
        match self {
            Self::Bypass => Policy::Bypass,
            Self::Global => Policy::Global,
            Self::CallScope(cache) => Policy::CallScope(cache),
        }
    }
}
