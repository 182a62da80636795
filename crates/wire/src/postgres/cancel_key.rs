//! Keys with which a query of a connection can be cancelled from another one.

use std::fmt;

/// Identifies a session to its server; see [`CancelKey::cancel_request`].
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    process_id: u32,
    secret: Box<[u8]>,
}

impl CancelKey {
    pub(crate) fn new(process_id: u32, secret: &[u8]) -> Self {
        Self {
            process_id,
            secret: secret.into(),
        }
    }

    /// The process that serves the session, as in `pg_stat_activity`.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelKey")
            .field("process_id", &self.process_id)
            .finish_non_exhaustive()
    }
}
