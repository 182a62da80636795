//! Makes it safe to execute "the last prepared statement" in the same batch as its Prepare.
//!
//! If `max_prepared_stmt_count` is reached, MariaDB (seen with 10.11.19) refuses the Prepare and
//! executes the statement prepared before it, with our values. So each Prepare is followed by that
//! of a no-op statement, and only if that is known to be the server's last one, the next Prepare is
//! pipelined with an execution.

use lookaside_wire::mysql::{Request as Wire, StatementId};

use super::MysqlDriver;
use super::in_flight::InFlight;

/// If it is executed instead of another statement, nothing changes.
const NOTHING: &str = "do 0";

/// Tracks the statement that the server has prepared last.
#[derive(Default)]
pub(super) struct PrepareGuard {
    /// The id of the no-op statement.
    statement: Option<StatementId>,
    /// The number of other Prepares that were sent.
    prepare_count: u64,
    /// The number of Prepares before the last no-op. A connection begins with none.
    guarded_count: u64,
}

impl PrepareGuard {
    /// Whether the last statement is absent or a no-op.
    pub(super) fn is_guarded(&self) -> bool {
        self.guarded_count == self.prepare_count
    }

    /// Counts a Prepare of another statement.
    pub(super) fn count(&mut self) {
        self.prepare_count += 1;
    }

    /// Records that the no-op was prepared after `count` others; returns the previous no-op, which
    /// is no longer needed.
    pub(super) fn prepared(&mut self, count: u64, statement: StatementId) -> Option<StatementId> {
        self.guarded_count = count;
        self.statement.replace(statement)
    }
}

impl MysqlDriver {
    /// Queues the no-op after a Prepare and its execution.
    pub(super) fn put_guard(&mut self) {
        if !self.connection.can_execute_last() {
            return;
        }
        // If there is no room for it, the next Prepare is not pipelined with an execution.
        if self.connection.queue(Wire::Prepare(NOTHING)).is_ok() {
            let sequence = self.session.next_sequence();
            let count = self.session.guard.prepare_count;
            self.session.push(InFlight::Guard { sequence, count });
        }
    }
}
