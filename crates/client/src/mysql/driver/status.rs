//! The session status: whether a transaction is open, and whether autocommit is on.
//!
//! Each OK and each end of rows contains both. An ERR does not; after most statements, such as a
//! query or a change of rows, it leaves both unchanged. But a procedure can have begun a
//! transaction before it failed. Then the next OK has the status; in a shared session, that is the
//! answer to a COM_PING, before which nothing else is sent.

use lookaside_wire::mysql::{Request as Wire, StatusFlags};

use super::MysqlDriver;
use super::in_flight::InFlight;
use crate::Error;
use crate::request::RequestScope;

/// The session status after the last answers.
pub(super) struct Status {
    pub(super) is_in_transaction: bool,
    pub(super) is_autocommit: bool,
    /// Whether autocommit was on after the log-in, or after the set-up of a pool's session.
    pub(super) began_with_autocommit: bool,
    /// Whether the status cannot have changed since.
    is_known: bool,
    ping: Ping,
}

/// Whether the status is being queried, so that nothing else is sent until the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ping {
    Idle,
    Wanted,
    Sent,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            is_in_transaction: false,
            is_autocommit: true,
            began_with_autocommit: true,
            is_known: true,
            ping: Ping::Idle,
        }
    }
}

impl Status {
    /// Takes the status after the log-in, or after a part of the session set-up.
    pub(super) fn begin(&mut self, flags: StatusFlags) {
        self.report(flags);
        self.began_with_autocommit = self.is_autocommit;
    }

    /// Takes the status of an answer.
    pub(super) fn report(&mut self, flags: StatusFlags) {
        self.is_in_transaction = flags.is_in_transaction();
        self.is_autocommit = flags.is_autocommit();
        self.is_known = true;
    }

    /// Marks the status as unknown after an error.
    pub(super) fn forget(&mut self, scope: RequestScope) {
        self.is_known = false;
        if scope == RequestScope::Shared {
            self.ping = Ping::Wanted;
        }
    }

    /// Whether autocommit is known to be on and no transaction is open.
    pub(super) fn is_clean(&self) -> bool {
        self.is_known && !self.is_in_transaction && self.is_autocommit
    }

    /// Whether a transaction is open, or may be.
    pub(super) fn may_be_in_transaction(&self) -> bool {
        self.is_in_transaction || !self.is_known
    }

    /// The statement that restores the initial status.
    pub(super) fn restoring_statement(&self) -> Option<&'static str> {
        if self.may_be_in_transaction() {
            Some(crate::transaction::ROLLBACK)
        } else if self.is_autocommit == self.began_with_autocommit {
            None
        } else if self.began_with_autocommit {
            Some("set autocommit = 1")
        } else {
            Some("set autocommit = 0")
        }
    }

    /// Whether nothing is sent until the status is known.
    pub(super) fn is_awaited(&self) -> bool {
        self.ping != Ping::Idle
    }

    /// Handles a COM_PING that failed because of another query.
    pub(super) fn ping_failed(&mut self) {
        self.ping = Ping::Wanted;
    }

    /// The COM_PING is answered.
    pub(super) fn pinged(&mut self) {
        self.ping = Ping::Idle;
    }
}

impl MysqlDriver {
    /// Queries the status, if needed.
    pub(super) fn ask_for_status(&mut self) {
        let status = &mut self.session.status;
        if status.ping != Ping::Wanted {
            return;
        }
        status.ping = Ping::Sent;
        match self.connection.queue(Wire::Ping) {
            Ok(_) => {
                let sequence = self.session.next_sequence();
                self.session.push(InFlight::Ping { sequence });
            }
            Err(error) => self.session.end(Error::request(error), &self.output),
        }
    }
}
