//! The session status in answers, and closing a session that cannot be shared any more.

use lookaside_wire::mysql::StatusFlags;

use super::ServerSession;
use crate::mysql::driver::in_flight::InFlight;
use crate::output::Output;
use crate::request::RequestScope;
use crate::{Error, Result};

/// The variables that determine the character sets of texts.
const CHARACTER_SETS: [&[u8]; 3] = [
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
];

/// The character set of each session.
const CHARACTER_SET: &str = "utf8mb4";

impl ServerSession {
    /// Takes the session status from an answer. If no other query may run in that state, the
    /// connection is closed: the server rolls back, and the answer is not returned.
    pub(super) fn report(&mut self, flags: StatusFlags, output: &Output) -> Result<(), Ended> {
        let was_clean = self.status.is_clean();
        self.status.report(flags);
        let query = match self.in_flight.front() {
            Some(InFlight::Query { query, .. } | InFlight::Void { query, .. }) => Some(*query),
            Some(InFlight::Bulk { range, .. }) => Some(range.first()),
            Some(InFlight::Ping { .. }) => None,
            _ => return Ok(()),
        };
        if query.is_some_and(|query| query.scope == RequestScope::Session) {
            self.status.begin(flags);
        }
        let is_shared = query.is_none_or(|query| query.scope == RequestScope::Shared);
        if !is_shared || self.status.is_clean() {
            return Ok(());
        }
        let error = match self.status.is_autocommit {
            true => Error::left_in_transaction(),
            false => Error::autocommit_off(),
        };
        // No other query can have done it.
        if was_clean && let Some(query) = query {
            self.requests.answer(query, Err(error.clone()));
        }
        self.incoming.reset();
        self.end(error, output);
        Err(Ended)
    }

    /// Ends the connection if a statement has changed the character set in which texts are sent and
    /// read.
    pub(super) fn has_other_charset(&mut self, name: &[u8], value: &[u8], output: &Output) -> bool {
        let query = match self.in_flight.front() {
            Some(InFlight::Query { query, .. } | InFlight::Void { query, .. }) => *query,
            _ => return false,
        };
        if !CHARACTER_SETS.contains(&name) || value == CHARACTER_SET.as_bytes() {
            return false;
        }
        let [name, value] = [name, value].map(String::from_utf8_lossy);
        let error = Error::other_encoding(&name, &value, CHARACTER_SET);
        self.requests.answer(query, Err(error.clone()));
        self.incoming.reset();
        self.end(error, output);
        true
    }
}

/// The connection has ended.
pub(super) struct Ended;
