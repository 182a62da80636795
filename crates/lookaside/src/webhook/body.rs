//! The body of a request while it is received.

use std::mem;
use std::rc::Rc;

use lookaside_http::{BodySink, Io, Reply};

use super::answer;
use super::buffer::Reservation;
use super::events::{BodyKind, Events};
use super::pending::PendingRequests;
use super::queue::Metadata;
use crate::serve::{Coding, Problem, decode};

/// Collects the body, within the limit of all bodies. It is dropped with its reservation if the
/// client disconnects or is too slow.
pub(super) struct Body {
    pending: Rc<PendingRequests>,
    kind: BodyKind,
    coding: Option<Coding>,
    metadata: Metadata,
    /// `None` when the limit was reached: the rest is not kept.
    reservation: Option<Reservation>,
    bytes: Vec<u8>,
}

impl Body {
    pub(super) fn new(
        pending: Rc<PendingRequests>,
        kind: BodyKind,
        coding: Option<Coding>,
        metadata: Metadata,
        reservation: Reservation,
    ) -> Self {
        Self {
            pending,
            kind,
            coding,
            metadata,
            reservation: Some(reservation),
            bytes: Vec::new(),
        }
    }

    /// The complete body, decoded.
    fn decoded(&mut self, reservation: &mut Reservation) -> Result<Events, Problem> {
        let shared = &self.pending.shared;
        let mut bytes = mem::take(&mut self.bytes);
        if let Some(coding) = self.coding
            && !bytes.is_empty()
        {
            // A thread decodes one body at a time, so that what is not reserved yet is at most
            // `body_max` for each thread.
            bytes = decode(coding, &bytes, shared.options.body_max)?;
            if !reservation.grow(bytes.len()) {
                return Err(answer::at_limit(shared.buffer.max()));
            }
        }
        // It may have grown to twice its size.
        bytes.shrink_to_fit();
        Events::new(bytes, self.kind)
    }
}

impl BodySink for Body {
    fn data(&mut self, _: &mut Io, piece: &[u8]) {
        let Some(reservation) = &mut self.reservation else {
            return;
        };
        match reservation.grow(piece.len()) {
            true => self.bytes.extend_from_slice(piece),
            false => {
                self.reservation = None;
                self.bytes = Vec::new();
            }
        }
    }

    fn wants_more(&self) -> bool {
        self.reservation.is_some() && !self.pending.shared.is_ending()
    }

    fn end(mut self: Box<Self>, reply: Reply<'_>) {
        let shared = &self.pending.shared;
        if shared.is_ending() {
            return answer::refuse_at_end(reply);
        }
        let Some(mut reservation) = self.reservation.take() else {
            return answer::refuse(reply, &answer::at_limit(shared.buffer.max()));
        };
        match self.decoded(&mut reservation) {
            Ok(events) => {
                let metadata = mem::take(&mut self.metadata);
                self.pending.submit(events, metadata, reservation, reply);
            }
            Err(problem) => answer::refuse(reply, &problem),
        }
    }
}
