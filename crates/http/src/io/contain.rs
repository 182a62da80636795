//! Contains panics to a request or a connection of a thread.

use crate::caught::{self, Caught};
use crate::{CaughtPanic, Io, PanicStage, Peer, Ticket};

impl Io {
    /// Runs work for the request of a ticket where a panic would otherwise end the server, for
    /// example in [`Service::woken`](crate::Service::woken). A panic is counted and reported like
    /// one of [`Service::call`](crate::Service::call), and the request is answered with 500 or cut
    /// off.
    pub fn contain(&mut self, ticket: Ticket, work: impl FnOnce(&mut Self)) {
        let key = self.connections.key_at(ticket.index());
        let connection = key.and_then(|key| self.connections.get(key));
        let peer = connection
            .filter(|connection| connection.position(ticket.sequence()).is_some())
            .map(|connection| connection.origin.peer);
        if let Err(caught) = caught::catch(|| work(self)) {
            self.note_panic(PanicStage::Service, peer, &caught);
            if let Some(stream) = self.stream(ticket) {
                stream.abort();
            } else {
                // A reply that is dropped without an answer sends 500.
                drop(self.reply(ticket));
            }
        }
    }

    /// Counts and reports a contained panic.
    pub(crate) fn note_panic(
        &mut self,
        stage: PanicStage,
        peer: impl Into<Option<Peer>>,
        caught: &Caught,
    ) {
        self.counters.panics += 1;
        if let Some(tell) = self.options.on_panic {
            let message = &caught.message;
            let peer = peer.into();
            tell(&CaughtPanic {
                stage,
                peer,
                message,
            });
        }
    }
}
