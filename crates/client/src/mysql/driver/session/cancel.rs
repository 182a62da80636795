//! Cancel requests, of which at most one is in flight.

use std::time::Instant;

use lookaside_wire::mysql::ErrPacket;

use super::ServerSession;
use crate::mysql::driver::in_flight::{InFlight, Work};

/// `ER_QUERY_INTERRUPTED`
const INTERRUPTED: u16 = 1317;

/// Whether a cancel request is the cause of an error.
pub(super) fn is_interrupted(error: &ErrPacket<'_>) -> bool {
    error.code() == INTERRUPTED
}

impl ServerSession {
    /// Whether an error results from a cancel request that may have hit this query by mistake.
    pub(in crate::mysql::driver) fn is_victim(&self, error: &ErrPacket<'_>, sequence: u64) -> bool {
        is_interrupted(error) && self.cancel.may_have_hit(sequence)
    }

    /// Chooses to cancel the current query if its caller has abandoned it.
    ///
    /// If the query completes at that moment, the next one is hit. So nothing is cancelled while a
    /// query that cannot be repeated is queued after it.
    pub(in crate::mysql::driver) fn choose_cancel(&mut self, now: Instant) {
        if self.cancel.is_idle() {
            return;
        }
        let (in_flight, statements) = (&self.in_flight, &self.statements.cache);
        self.cancel.wanted.retain(|&ticket| {
            in_flight.iter().any(|step| match step {
                InFlight::Own { .. }
                | InFlight::Ping { .. }
                | InFlight::Reset { .. }
                | InFlight::Guard { .. }
                | InFlight::Void { .. } => false,
                InFlight::Query { query, .. } => query.ticket == ticket,
                InFlight::Bulk { range, .. } => range.ticket == ticket,
                InFlight::Prepare { key, .. } => statements.is_awaited(key, ticket),
            })
        });
        if self.cancel.is_under_way() {
            return;
        }
        let mut later = self.in_flight.iter().skip(1);
        let is_alone = later.all(|step| step.is_repeatable() || self.is_given_up(step));
        let unwanted = self.unwanted().filter(|_| is_alone);
        self.cancel.choose(unwanted, now);
    }

    /// Whether the caller of a query has abandoned it.
    fn is_given_up(&self, step: &InFlight) -> bool {
        match step {
            InFlight::Query { query, .. } => self.cancel.wanted.contains(&query.ticket),
            InFlight::Bulk { range, .. } => self.cancel.wanted.contains(&range.ticket),
            _ => false,
        }
    }

    /// The first request in flight, if it was abandoned.
    fn unwanted(&self) -> Option<u64> {
        let step = self.in_flight.front()?;
        let is_unwanted = match step {
            InFlight::Own { .. }
            | InFlight::Ping { .. }
            | InFlight::Reset { .. }
            | InFlight::Guard { .. }
            | InFlight::Void { .. } => false,
            InFlight::Query { .. } | InFlight::Bulk { .. } => self.is_given_up(step),
            // A Prepare without callers is only cancelled if one of them requested that: it
            // completes before the server could be reached, unless it waits for a lock.
            InFlight::Prepare { key, .. } => {
                let waiting = self.statements.cache.waiting(key).iter();
                let along = match self.in_flight.get(1) {
                    Some(InFlight::Query {
                        query,
                        work: Work::Last,
                        ..
                    }) => Some(query.ticket),
                    _ => None,
                };
                let mut tickets = waiting.map(|range| range.ticket).chain(along);
                let is_open = tickets.clone().any(|ticket| self.requests.contains(ticket));
                !is_open && tickets.any(|ticket| self.cancel.wanted.contains(&ticket))
            }
        };
        is_unwanted.then(|| step.sequence())
    }

    pub(in crate::mysql::driver) fn cancel_done(&mut self) {
        if self.cancel.is_under_way() {
            // A server that had nothing to interrupt may still interrupt the next query.
            let risk_end = self.next_sequence() + 1;
            self.cancel.done(risk_end);
        }
    }
}
