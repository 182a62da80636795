//! Whether the client of a request is still connected.

use crate::{Io, Ticket};

/// Whether a client is still connected, see [`Io::presence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The connection is open in both directions.
    Here,
    /// The client has closed its sending side, and perhaps both sides: TCP does not reveal which
    /// before something is sent.
    Ended,
    /// The connection is closed, or the request has been answered.
    Gone,
}

impl Io {
    /// Whether the client of a deferred request, or of a streamed reply, is still connected.
    pub fn presence(&self, ticket: Ticket) -> Presence {
        let key = self.connections.key_at(ticket.index());
        let connection = key.and_then(|key| self.connections.get(key));
        match connection.filter(|it| it.position(ticket.sequence()).is_some()) {
            None => Presence::Gone,
            Some(it) if it.is_input_ended || it.is_peer_ended => Presence::Ended,
            Some(_) => Presence::Here,
        }
    }
}
