//! Applies recorded messages of a change feed, without its connections, to measure what a change costs.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use lookaside_client::postgres::feed::LogicalReplicationMessage as Message;
use lookaside_value::Position;

use super::changes::Changes;
use super::gate::Gate;
use super::task::receive;
use super::{Feed, Shared};

/// A snapshot that shows each transaction with an identifier below 2^31.
const SHOWS_ALL: &str = "2147483647:2147483647:";

/// A change feed whose messages the caller passes, from
/// [`Knowledge::replay_changes`](crate::Knowledge::replay_changes).
///
/// It knows the statements that the live feed tracks, and has its own counters: the answers of the
/// engine stay valid.
pub struct ChangeReplay {
    shared: Arc<Shared>,
    changes: Changes,
    gate: Gate,
}

impl Feed {
    /// A feed for recorded messages, with the statements that are tracked now.
    pub(crate) fn replay(&self) -> ChangeReplay {
        let mut changes = Changes::default();
        let statements = (self.statements.lock()).unwrap_or_else(PoisonError::into_inner);
        for statement in statements.values().filter(|it| it.is_live()) {
            changes.add(statement, &statement.relations());
        }
        let shared = Shared::new(None);
        let mut gate = Gate::new(Position(0));
        let snapshot = SHOWS_ALL.parse().expect("it is a snapshot");
        gate.apply(snapshot, Instant::now(), &shared.versions);
        ChangeReplay {
            shared,
            changes,
            gate,
        }
    }
}

impl ChangeReplay {
    /// Decodes a message of the plugin `pgoutput`, protocol version 1, and applies the transaction
    /// that it completes at once.
    ///
    /// # Errors
    /// When the message cannot be decoded, or may not come here. The text says why.
    pub fn take(&mut self, message: &[u8]) -> Result<(), String> {
        let message = Message::decode(message).map_err(|error| error.to_string())?;
        receive(&self.shared, &mut self.changes, &mut self.gate, message)
            .map(drop)
            .map_err(|failure| failure.text)
    }

    /// Rows that concerned a tracked statement, since the last call.
    pub fn take_row_count(&mut self) -> u64 {
        self.gate.take_waits();
        std::mem::take(&mut self.changes.row_count)
    }
}
