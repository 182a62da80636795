//! Panics that end a request or a connection of a thread, and not the thread.

use crate::caught::{self, Caught};
use crate::{CaughtPanic, Io, PanicStage, Peer, Ticket};

impl Io {
    /// Runs what belongs to the request of a ticket, where a panic would otherwise end the server: in
    /// [`Service::woken`](crate::Service::woken), say. A panic is counted and told as one of
    /// [`Service::call`](crate::Service::call), and the request is answered with 500 or breaks off.
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
                // Without an answer it is one of 500.
                drop(self.reply(ticket));
            }
        }
    }

    /// Counts and tells a panic that ends one connection or one request and nothing else.
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
