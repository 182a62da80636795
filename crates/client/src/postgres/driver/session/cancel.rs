//! Cancel requests, and queries that they may have hit by mistake.

use std::time::Instant;

use lookaside_wire::postgres::ErrorResponse;

use super::ServerSession;
use crate::postgres::driver::QueryRange;
use crate::postgres::driver::in_flight::InFlight;

impl ServerSession {
    /// Whether an error results from a cancel request that may have hit this query by mistake.
    pub(super) fn is_victim(&self, error: &ErrorResponse<'_>, sequence: u64) -> bool {
        let canceled = error
            .sqlstate()
            .is_some_and(|state| state.as_bytes() == b"57014");
        canceled && self.cancel.may_have_hit(sequence)
    }

    /// Chooses to cancel the current query if its caller has abandoned it.
    #[inline]
    pub(in crate::postgres::driver) fn choose_cancel(&mut self, now: Instant) {
        if !self.cancel.is_idle() {
            self.choose_cancel_of(now);
        }
    }

    #[cold]
    fn choose_cancel_of(&mut self, now: Instant) {
        if !self.cancel.wanted.is_empty() {
            let (in_flight, statements) = (&self.in_flight, &self.statements.cache);
            self.cancel.wanted.retain(|&ticket| {
                in_flight.iter().any(|step| match step {
                    InFlight::Query { query, .. } => query.ticket == ticket,
                    InFlight::Script { ticket: of, .. } => *of == ticket,
                    InFlight::Prepare { key, .. } => statements.is_awaited(key, ticket),
                    InFlight::Close(_) | InFlight::Sync => false,
                })
            });
        }
        let unwanted = match self.in_flight.front() {
            Some(InFlight::Query {
                query, sequence, ..
            }) if self.cancel.wanted.contains(&query.ticket) => Some(*sequence),
            Some(InFlight::Script {
                ticket, sequence, ..
            }) if self.cancel.wanted.contains(ticket) => Some(*sequence),
            // A Prepare without callers is only cancelled if one of them requested that: it
            // completes before the server could be reached, unless it waits for a lock.
            Some(InFlight::Prepare { key, sequence, .. }) => {
                let waiting = self.statements.cache.waiting(key);
                let is_open = |range: &QueryRange| self.requests.contains(range.ticket);
                let is_given_up = |range: &QueryRange| self.cancel.wanted.contains(&range.ticket);
                let is_unwanted = !waiting.iter().any(is_open) && waiting.iter().any(is_given_up);
                is_unwanted.then_some(*sequence)
            }
            _ => None,
        };
        self.cancel.choose(unwanted, now);
    }

    pub(in crate::postgres::driver) fn cancel_done(&mut self) {
        if self.cancel.is_under_way() {
            self.cancel.done(self.sequence);
            self.sequence += 1;
        }
    }
}
