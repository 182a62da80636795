//! Request bodies that are received in pieces.

use std::sync::Arc;

use super::Receiving;
use super::reply::ReplyTarget;
use crate::caught;
use crate::connection::{Answer, BodyTarget, Pending};
use crate::peer::Peer;
use crate::render::{INTERIM, ResponseFraming};
use crate::slab::Key;
use crate::{BodyReader, Deferred, Io, PanicStage, Reply, Ticket};

/// The receiver of the body of a [streamed](crate::Route::streamed) route, on its I/O thread.
///
/// If the client disconnects, is too slow or violates the protocol, the sink is dropped, and the
/// client gets an error response if possible.
pub trait BodySink {
    /// Takes a piece.
    fn data(&mut self, io: &mut Io, piece: &[u8]);

    /// Whether the rest of the body is wanted, by default it is. If it is not, [`end`](Self::end) is
    /// called at once, nothing more is read, and the connection closes after the reply.
    fn wants_more(&self) -> bool {
        true
    }

    /// Answers the request, since the body is complete, or the rest is not wanted.
    fn end(self: Box<Self>, reply: Reply<'_>);
}

/// The body of a request that is being called.
enum Body {
    Empty,
    /// It will arrive, possibly only after a `100 Continue`.
    Waits {
        is_expected: bool,
    },
}

impl Reply<'_> {
    /// Passes the body of a [streamed](crate::Route::streamed) route to a sink, piece by piece as
    /// it arrives. This must be called within the call of the request; later the body is gone, and
    /// the request gets 500.
    pub fn receive(mut self, sink: Box<dyn BodySink>) {
        if matches!(self.target, ReplyTarget::Ticket { .. }) {
            return;
        }
        match self.claim_body() {
            Body::Empty => sink.end(self),
            Body::Waits { is_expected } => {
                let key = self.key;
                if is_expected {
                    self.interim();
                }
                let out = self.draft.take_back();
                let ticket = self.queue(Answer::Waiting, out);
                self.io.deliver_to(
                    key,
                    BodyTarget::Sink {
                        sink,
                        ticket: ticket.into(),
                    },
                );
            }
        }
    }

    /// Lets another thread read the body of a [streamed](crate::Route::streamed) route, and answer.
    /// As with [`receive`](Self::receive), this must be called within the call of the request:
    /// later, reads return an error.
    pub fn receive_remote(mut self) -> (BodyReader, Deferred) {
        let mailbox = Arc::clone(&self.io.mailbox);
        if matches!(self.target, ReplyTarget::Ticket { .. }) {
            let (reader, feed) = BodyReader::new(Arc::clone(&mailbox), 0);
            drop(feed);
            return (reader, Deferred::new(mailbox, self.defer()));
        }
        let body = self.claim_body();
        let key = self.key;
        if let Body::Waits { is_expected: true } = body {
            self.interim();
        }
        let out = self.draft.take_back();
        let ticket = self.queue(Answer::Waiting, out);
        let (reader, feed) = BodyReader::new(Arc::clone(&mailbox), ticket.into());
        match body {
            Body::Empty => feed.end(),
            Body::Waits { .. } => self.io.deliver_to(
                key,
                BodyTarget::Feed {
                    feed,
                    ticket: ticket.into(),
                },
            ),
        }
        (reader, Deferred::new(mailbox, ticket))
    }

    /// Takes the body of the current request; the connection then closes or persists as the client
    /// requested.
    fn claim_body(&mut self) -> Body {
        match self.io.claim_body(self.key) {
            None => Body::Empty,
            Some((close, is_expected)) => {
                self.draft.framing.close = close || self.io.is_draining;
                Body::Waits { is_expected }
            }
        }
    }

    /// Tells the client to send its body.
    fn interim(&mut self) {
        match self.target {
            ReplyTarget::Direct => self.draft.interim(),
            ReplyTarget::Queued | ReplyTarget::Ticket { .. } => self.io.interim(self.key),
        }
    }
}

impl Io {
    /// Ends the bodies of which the sinks do not want the rest ([`BodySink::wants_more`]), also if
    /// nothing of them arrives.
    pub fn end_unwanted_bodies(&mut self) {
        let keys: Vec<_> = self.connections.keys().collect();
        for key in keys {
            let connection = self.connections.get_mut(key);
            let receiving = connection.and_then(|found| {
                let is_unwanted = |receiving: &mut Box<Receiving>| !receiving.is_wanted();
                found.receiving.take_if(is_unwanted)
            });
            if let Some(receiving) = receiving {
                self.end_unwanted_body(key, *receiving);
            }
        }
    }

    /// Ends a body of which the sink does not want the rest.
    pub(crate) fn end_unwanted_body(&mut self, key: Key, receiving: Receiving) {
        let BodyTarget::Sink { sink, ticket } = receiving.target else {
            unreachable!("other bodies are wanted");
        };
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
        }
        self.end_sink(sink, ticket, receiving.peer, |reply| reply.close());
    }

    /// Lets a sink answer its request.
    pub(crate) fn end_sink(
        &mut self,
        sink: Box<dyn BodySink>,
        ticket: u64,
        peer: Peer,
        with: fn(Reply<'_>) -> Reply<'_>,
    ) {
        let ended = caught::catch(|| {
            if let Some(reply) = self.reply(Ticket::from_u64(ticket)) {
                sink.end(with(reply));
            }
        });
        if let Err(caught) = ended {
            self.note_panic(PanicStage::Service, peer, &caught);
        }
    }

    /// Whether the connection closes after the body of the current request, and whether the client
    /// waits for a `100 Continue`. `None` if there is no body.
    fn claim_body(&mut self, key: Key) -> Option<(bool, bool)> {
        let receiving = self.connections.get_mut(key)?.receiving.as_mut()?;
        Some((receiving.close, receiving.is_expected))
    }

    /// Sets the receiver of the current request's body.
    fn deliver_to(&mut self, key: Key, target: BodyTarget<Box<dyn BodySink>>) {
        let receiving = self
            .connections
            .get_mut(key)
            .and_then(|found| found.receiving.as_mut());
        receiving.expect("the body was claimed").target = target;
    }

    /// Tells the client to send its body (RFC 9110, 10.1.1), after the replies before it.
    pub(crate) fn interim(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.pending.is_empty() {
            if connection.output.capacity() == 0 {
                connection.output = self.pool.take();
            }
            connection.output.extend_from_slice(INTERIM);
            return;
        }
        let mut bytes = self.pool.take();
        bytes.extend_from_slice(INTERIM);
        connection.pending.push_back(Pending {
            sequence: u64::MAX,
            framing: ResponseFraming::default(),
            progress: Answer::Done,
            bytes,
        });
        self.advance(key);
    }
}
