//! Bodies of requests that are not here as a whole, and who gets them.

use crate::caught;
use crate::channel::{Pushed, SlowBody};
use crate::connection::Target;
use crate::io::Receiving;
use crate::parse::{Progress, Refusal};
use crate::slab::Key;
use crate::{Io, PanicStage, Ticket};

impl Receiving {
    /// Takes what is here of the body; how many bytes those are when it has ended.
    pub(crate) fn take(&mut self, io: &mut Io, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let mut at = 0;
        self.note_arrival(io.clock.tick());
        loop {
            let progress = match caught::catch(|| self.next(bytes, at)) {
                Ok(progress) => progress?,
                Err(caught) => {
                    io.note_panic(PanicStage::Parser, self.peer, &caught);
                    return Err(Refusal(500));
                }
            };
            match progress {
                Progress::Data { from, to } => {
                    self.deliver(io, &bytes[from..to])?;
                    at = to;
                }
                Progress::More => return Ok(None),
                Progress::End { at } => return Ok(Some(at)),
            }
        }
    }

    fn deliver(&mut self, io: &mut Io, piece: &[u8]) -> Result<(), Refusal> {
        match &mut self.target {
            Target::Call { body, .. } => body.extend_from_slice(piece),
            Target::Sink { sink, .. } => {
                if let Err(caught) = caught::catch(|| sink.data(io, piece)) {
                    io.note_panic(PanicStage::Service, self.peer, &caught);
                    return Err(Refusal(500));
                }
            }
            Target::Feed { feed, .. } => match feed.push(piece) {
                Pushed::HasRoom => self.is_paused = false,
                Pushed::Full => self.is_paused = true,
                Pushed::Unwanted => self.discard(),
            },
            Target::Unknown | Target::Nobody => {}
        }
        Ok(())
    }
}

impl Io {
    /// Refuses a request in the middle of its body.
    pub(crate) fn refuse_body(&mut self, key: Key, receiving: Receiving, refusal: Refusal) {
        let ticket = match receiving.target {
            Target::Sink { ticket, .. } | Target::Feed { ticket, .. } => Ticket::from_u64(ticket),
            Target::Call { .. } if refusal == Refusal(413) => {
                return self.refuse_long(key, None, receiving.size_max);
            }
            Target::Call { .. } => return self.refuse(key, refusal),
            Target::Unknown | Target::Nobody => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.end(true);
                }
                return;
            }
        };
        self.counters.refused += 1;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
        }
        if let Some(reply) = self.reply(ticket) {
            reply.close().refuse_request(refusal);
        } else if let Some(stream) = self.stream(ticket) {
            // The reply has begun, so only its end can say that something went wrong.
            stream.abort();
        }
    }

    /// Refuses a request whose body does not come fast enough. Another thread that reads that of a
    /// live route is told why, and answers: how long such a body may pause is a matter of the
    /// service, and so are the words for it.
    pub(crate) fn refuse_slow_body(&mut self, key: Key, receiving: Receiving) {
        let is_idle = receiving.idle_deadline(&self.options) <= self.clock.tick();
        let (feed, ticket) = match receiving {
            Receiving {
                is_live: true,
                target: Target::Feed { feed, ticket },
                ..
            } => (feed, ticket),
            receiving => return self.refuse_body(key, receiving, Refusal(408)),
        };
        self.counters.refused += 1;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.end(true);
            let position = connection.position(Ticket::from_u64(ticket).sequence());
            if let Some(pending) = position.and_then(|at| connection.pending.get_mut(at)) {
                pending.manner.close = true;
            }
        }
        feed.give_up(match is_idle {
            true => SlowBody::Idle(self.options.stream_idle_timeout),
            false => SlowBody::Rate(self.options.stream_rate_min),
        });
    }

    /// There is room for more of a body.
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        let tick = self.clock.tick();
        let Some(key) = self.connections.key_at(ticket.index()) else {
            return;
        };
        let connection = self.connections.get_mut(key);
        if let Some(receiving) = connection.and_then(|found| found.receiving.as_mut())
            && let Target::Feed { ticket: other, .. } = receiving.target
            && other == u64::from(ticket)
        {
            receiving.resume(tick);
            self.mark(key);
        }
    }

    /// Decides what becomes of a streamed body that the call did not want.
    pub(crate) fn leave_body(&mut self, key: Key, keeps: bool) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Some(receiving) = &mut connection.receiving else {
            return;
        };
        if let Target::Unknown = receiving.target {
            receiving.target = Target::Nobody;
            // Who waits for leave and gets another answer sends no body, or sends it all the same.
            if !keeps {
                connection.receiving = None;
                connection.end(true);
            }
        }
    }
}
