//! What an answer says of the session, and the end of one that others cannot use any more.

use lookaside_wire::mysql::StatusFlags;

use super::Session;
use crate::mysql::driver::in_flight::InFlight;
use crate::output::Output;
use crate::request::Place;
use crate::{Error, Result};

/// What says in which character set texts are sent and read.
const CHARACTER_SETS: [&[u8]; 3] = [
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
];

/// The one of each session.
const CHARACTER_SET: &str = "utf8mb4";

impl Session {
    /// Takes where the answer to the first step left the session. If that is where no other query may
    /// come, the connection ends: what was done is undone, and no answer to it is handed out.
    pub(super) fn report(&mut self, flags: StatusFlags, output: &Output) -> Result<(), Ended> {
        let was_clean = self.status.is_clean();
        self.status.report(flags);
        let run = match self.steps.front() {
            Some(InFlight::Run { run, .. } | InFlight::Void { run, .. }) => Some(*run),
            Some(InFlight::Bulk { span, .. }) => Some(span.first()),
            Some(InFlight::Ping { .. }) => None,
            _ => return Ok(()),
        };
        if run.is_some_and(|run| run.place == Place::Session) {
            self.status.begin(flags);
        }
        let is_shared = run.is_none_or(|run| run.place == Place::Shared);
        if !is_shared || self.status.is_clean() {
            return Ok(());
        }
        let error = match self.status.is_autocommit {
            true => Error::left_in_transaction(),
            false => Error::autocommit_off(),
        };
        // Nobody else can have done it.
        if was_clean && let Some(run) = run {
            self.requests.answer(run, Err(error.clone()));
        }
        self.incoming.reset();
        self.end(error, output);
        Err(Ended)
    }

    /// Ends the connection if a statement has changed the character set in which texts are sent and
    /// read.
    pub(super) fn has_other_charset(&mut self, name: &[u8], value: &[u8], output: &Output) -> bool {
        let run = match self.steps.front() {
            Some(InFlight::Run { run, .. } | InFlight::Void { run, .. }) => *run,
            _ => return false,
        };
        if !CHARACTER_SETS.contains(&name) || value == CHARACTER_SET.as_bytes() {
            return false;
        }
        let [name, value] = [name, value].map(String::from_utf8_lossy);
        let error = Error::other_encoding(&name, &value, CHARACTER_SET);
        self.requests.answer(run, Err(error.clone()));
        self.incoming.reset();
        self.end(error, output);
        true
    }
}

/// The connection has ended.
pub(super) struct Ended;
