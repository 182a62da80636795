//! Receives request bodies, and passes them on piece by piece.

use crate::caught;
use crate::channel::Pushed;
use crate::connection::BodyTarget;
use crate::io::Receiving;
use crate::parse::{Progress, Refusal};
use crate::slab::Key;
use crate::{Io, PanicStage, Ticket};

impl Receiving {
    /// Takes the received part of the body; returns the number of bytes if the body has ended.
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

    /// Whether the rest of the body is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.target {
            BodyTarget::Sink { sink, .. } => sink.wants_more(),
            _ => true,
        }
    }

    fn deliver(&mut self, io: &mut Io, piece: &[u8]) -> Result<(), Refusal> {
        match &mut self.target {
            BodyTarget::Call { body, .. } => body.extend_from_slice(piece),
            BodyTarget::Sink { sink, .. } => {
                if let Err(caught) = caught::catch(|| sink.data(io, piece)) {
                    io.note_panic(PanicStage::Service, self.peer, &caught);
                    return Err(Refusal(500));
                }
            }
            BodyTarget::Feed { feed, .. } => match feed.push(piece) {
                Pushed::HasRoom => self.is_paused = false,
                Pushed::Full => self.is_paused = true,
                Pushed::Unwanted => self.discard(),
            },
            BodyTarget::Unknown | BodyTarget::Discarded => {}
        }
        Ok(())
    }
}

impl Io {
    /// Continues a body that was paused for lack of room.
    pub(crate) fn resume(&mut self, ticket: Ticket) {
        let tick = self.clock.tick();
        let Some(key) = self.connections.key_at(ticket.index()) else {
            return;
        };
        let connection = self.connections.get_mut(key);
        if let Some(receiving) = connection.and_then(|found| found.receiving.as_mut())
            && let BodyTarget::Feed { ticket: other, .. } = receiving.target
            && other == u64::from(ticket)
        {
            receiving.resume(tick);
            self.mark(key);
        }
    }

    /// Decides what to do with a streamed body that the call did not take.
    pub(crate) fn leave_body(&mut self, key: Key, keeps: bool) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let Some(receiving) = &mut connection.receiving else {
            return;
        };
        if let BodyTarget::Unknown = receiving.target {
            receiving.target = BodyTarget::Discarded;
            // A client that waits for `100 Continue` and gets another answer may or may not send
            // the body.
            if !keeps {
                connection.receiving = None;
                connection.end(true);
            }
        }
    }
}
