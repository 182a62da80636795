//! COM_RESET_CONNECTION: resets the session to its state after the log-in, without another log-in.
//!
//! The server rolls back, and discards prepared statements, variables, temporary tables and locks.
//! The character set becomes the server's default, so ours has to be set again. The database stays
//! the last one chosen, so that of the log-in is chosen again. It is not possible to choose none:
//! such a connection is closed.

use lookaside_value::{RowSetBuilder, Text};
use lookaside_wire::mysql::Request as Wire;

use super::MysqlDriver;
use super::in_flight::InFlight;
use super::pipelined_prepare::PrepareGuard;
use super::session::{Mode, ServerSession, TransactionState};
use super::statement::QueryRange;
use crate::mysql::login::Login;
use crate::{Answer, Error};

/// The character set that the log-in specifies by a number.
const CHARACTER_SET: &str = "set names utf8mb4";

impl MysqlDriver {
    /// Queues a reset if nothing else is in flight; returns whether it was queued.
    pub(super) fn reset(&mut self, range: QueryRange) -> bool {
        if !self.session.in_flight.is_empty() {
            self.session.backlog.push_front(range);
            return false;
        }
        let query = range.first();
        let database = self.login.as_ref().and_then(Login::database);
        let choice = database.map(|name| format!("use `{}`", name.replace('`', "``")));
        if choice.is_none() && self.session.has_chosen {
            self.session.backlog.push_front(range);
            self.session.end(Error::database_chosen(), &self.output);
            return true;
        }
        if let Err(error) = self.connection.queue(Wire::ResetConnection) {
            self.session
                .requests
                .answer(query, Err(Error::request(error)));
            return true;
        }
        let sequence = self.session.next_sequence();
        self.session.push(InFlight::Reset {
            query,
            sequence,
            chunk: self.output.next_chunk(),
        });
        // Directly after it, before any other query.
        self.ask(CHARACTER_SET);
        if let Some(choice) = choice {
            self.ask(&choice);
        }
        true
    }
}

impl ServerSession {
    /// Handles the completed reset.
    pub(super) fn was_reset(&mut self) {
        let Some(InFlight::Reset { query, .. }) = self.pop() else {
            panic!("only a reset resets");
        };
        self.incoming.reset();
        self.statements.clear();
        self.streams.clear();
        self.guard = PrepareGuard::default();
        self.mode = Mode::Full;
        self.transaction = TransactionState::Open;
        self.valid_from = self.next_sequence();
        let none = RowSetBuilder::new(std::iter::empty::<Text>());
        self.requests
            .answer(query, Ok(Answer::of_rows(none.build())));
    }
}
