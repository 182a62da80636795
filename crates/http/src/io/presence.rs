//! Whether somebody still waits for the answer to a request.

use crate::{Io, Ticket};

/// Whether a client is still there, see [`Io::presence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It may send more, and waits.
    Here,
    /// It sends no more: it has closed its side of the connection, and perhaps both. TCP does not
    /// tell which before something is sent.
    Ended,
    /// Its connection is closed, or the request is answered.
    Gone,
}

impl Io {
    /// Whether the client of a request that was put off, or whose reply is streamed, is still there.
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
