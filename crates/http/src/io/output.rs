//! The output of connections: the order of replies, and the count of unsent bytes.

use std::mem;

use crate::Io;
use crate::connection::Answer;
use crate::slab::Key;

impl Io {
    /// Moves completed replies, in order, into the output.
    pub(crate) fn advance(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.check();
        while let Some(pending) = connection.pending.front_mut() {
            // Once a reply is the first, its bytes go to the output.
            if !pending.bytes.is_empty() {
                let bytes = mem::take(&mut pending.bytes);
                if connection.output.is_empty() {
                    self.pool.give(mem::replace(&mut connection.output, bytes));
                } else {
                    connection.output.extend_from_slice(&bytes);
                    self.pool.give(bytes);
                }
            }
            connection.is_cut = matches!(pending.progress, Answer::Cut);
            if !matches!(pending.progress, Answer::Done | Answer::Cut) {
                return;
            }
            let close = pending.framing.close || connection.is_cut;
            connection.pending.pop_front();
            if close {
                connection.end_after_reply();
                for dropped in connection.pending.drain(..) {
                    self.pool.give(dropped.bytes);
                }
            }
        }
    }

    /// Ends a connection whose output is lost.
    pub(crate) fn break_off(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.output.clear();
            connection.sent = 0;
            connection.pending.clear();
            connection.is_cut = true;
            connection.end_after_reply();
            self.mark(key);
        }
    }

    /// Adds an unsent reply to the server's count, until [`Self::count_unsent`] counts everything:
    /// counting all waiting replies each time would be quadratic.
    pub(crate) fn add_unsent(&mut self, key: Key, size: usize) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.unsent_size += size;
            self.unsent.change(0, size);
        }
    }

    /// Updates the server's count with the unsent bytes of this connection.
    pub(crate) fn count_unsent(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            let size = connection.size_to_send();
            let counted = mem::replace(&mut connection.unsent_size, size);
            self.unsent.change(counted, size);
        }
    }
}
