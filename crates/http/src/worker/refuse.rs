//! Requests that the server itself answers with an error. Nothing is read after them.

use crate::channel::SlowBody;
use crate::connection::BodyTarget;
use crate::io::Receiving;
use crate::parse::Refusal;
use crate::render::ResponseFraming;
use crate::slab::Key;
use crate::status::{PLAIN_PROBLEM, refusal_problem, too_long_problem};
use crate::{Io, Reply, Ticket};

impl Io {
    /// Counts a request that is refused.
    fn note_refusal(&mut self, status: u16) {
        self.counters.refused += 1;
        if let Some(on_refusal) = self.options.on_refusal {
            on_refusal(status);
        }
    }

    /// Answers with an error after the pending replies, and reads no more.
    pub(crate) fn refuse(&mut self, key: Key, refusal: Refusal) {
        self.refuse_as(key, refusal.0, refusal_problem(refusal));
    }

    /// Refuses a request whose body is too long; the size of a chunked one is unknown.
    pub(crate) fn refuse_long(&mut self, key: Key, size: Option<u64>, size_max: u64) {
        let is_usual = size_max == self.options.body_size_max as u64;
        let problem = too_long_problem(size, size_max, is_usual);
        self.refuse_as(key, 413, &problem);
    }

    /// Refuses a plaintext request on a TLS port.
    pub(crate) fn refuse_plain(&mut self, key: Key) {
        self.refuse_as(key, 400, PLAIN_PROBLEM);
    }

    fn refuse_as(&mut self, key: Key, status: u16, problem: &str) {
        self.note_refusal(status);
        let framing = ResponseFraming {
            close: true,
            ..ResponseFraming::default()
        };
        let connection = self.connections.get(key);
        if connection.is_none_or(|connection| connection.says_close) {
            return;
        }
        Reply::of_call(self, key, framing).problem(status, problem);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.receiving = None;
            connection.end(true);
        }
    }

    /// Refuses a request in the middle of its body.
    pub(crate) fn refuse_body(&mut self, key: Key, receiving: Receiving, refusal: Refusal) {
        let ticket = match receiving.target {
            BodyTarget::Sink { ticket, .. } | BodyTarget::Feed { ticket, .. } => {
                Ticket::from_u64(ticket)
            }
            BodyTarget::Call { .. } if refusal == Refusal(413) => {
                return self.refuse_long(key, None, receiving.size_max);
            }
            BodyTarget::Call { .. } => return self.refuse(key, refusal),
            BodyTarget::Unknown | BodyTarget::Discarded => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.end(true);
                }
                return;
            }
        };
        self.note_refusal(refusal.0);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
        }
        if let Some(reply) = self.reply(ticket) {
            reply.close().refuse_request(refusal);
        } else if let Some(stream) = self.stream(ticket) {
            // The reply has begun, so only aborting it can signal the error.
            stream.abort();
        }
    }

    /// Refuses a request whose body does not come fast enough. If another thread reads the body of
    /// a live route, it gets the reason and answers itself: how long such a body may pause is a
    /// setting of the service, and so is the message.
    pub(crate) fn refuse_slow_body(&mut self, key: Key, receiving: Receiving) {
        let is_idle = receiving.idle_deadline(&self.options) <= self.clock.tick();
        let (feed, ticket) = match receiving {
            Receiving {
                is_live: true,
                target: BodyTarget::Feed { feed, ticket },
                ..
            } => (feed, ticket),
            receiving => return self.refuse_body(key, receiving, Refusal(408)),
        };
        self.note_refusal(408);
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
            let position = connection.position(Ticket::from_u64(ticket).sequence());
            if let Some(pending) = position.and_then(|at| connection.pending.get_mut(at)) {
                pending.framing.close = true;
            }
        }
        feed.give_up(match is_idle {
            true => SlowBody::Idle(self.options.stream_idle_timeout),
            false => SlowBody::Rate(self.options.stream_rate_min),
        });
    }
}
