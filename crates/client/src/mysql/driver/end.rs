//! Queries that get no answer from the server: given up, or lost with the connection.

use super::in_flight::InFlight;
use super::session::ServerSession;
use crate::error::Sent;
use crate::output::Output;
use crate::{Error, Ticket};

impl ServerSession {
    /// Answers the open queries of a request with an error that tells whether they were sent, and
    /// cancels those in flight.
    pub(super) fn give_up(&mut self, ticket: Ticket, error: impl Fn(Sent) -> Error) {
        let Some(mut request) = self.requests.remove(ticket) else {
            return;
        };
        let mut is_under_way = false;
        for step in &self.in_flight {
            // Queued queries will be sent, even if no byte of them is written yet.
            if let InFlight::Query { query, .. } | InFlight::Reset { query, .. } = step
                && query.ticket == ticket
            {
                is_under_way = true;
                request.fail(query.index, || error(Sent::Something));
            }
            if let InFlight::Bulk { range, .. } = step
                && range.ticket == ticket
            {
                is_under_way = true;
                for index in range.start..range.end {
                    request.fail(index, || error(Sent::Something));
                }
            }
        }
        if is_under_way || self.statements.cache.is_any_awaited(ticket) {
            self.cancel.wanted.push(ticket);
        }
        if self.is_answering(ticket) {
            self.incoming.give_up();
        }
        self.requests.reply(ticket, request, &error(Sent::Nothing));
    }

    /// Whether the answer to a query of the request is being received.
    pub(super) fn is_answering(&self, ticket: Ticket) -> bool {
        matches!(self.in_flight.front(), Some(InFlight::Query { query, .. }) if query.ticket == ticket)
    }

    /// The request whose rows are being received, if they are kept.
    pub(super) fn collecting(&self) -> Option<Ticket> {
        match self.in_flight.front() {
            Some(InFlight::Query { query, .. }) if self.incoming.is_kept() => Some(query.ticket),
            _ => None,
        }
    }

    /// Discards the rows of a request that continues.
    pub(super) fn discard(&mut self, ticket: Ticket) {
        let error = Error::canceled(Sent::Something);
        if self.is_answering(ticket) {
            self.incoming.fail(error.clone());
        }
        if let Some(request) = self.requests.get_mut(ticket) {
            request.discard(error);
        }
    }

    /// Ends the connection, and fails all waiting requests.
    pub(super) fn end(&mut self, error: Error, output: &Output) {
        if self.end.is_some() {
            return;
        }
        let sent = error.of_query(Sent::Something);
        for step in self.in_flight.drain(..) {
            if let InFlight::Bulk { range, chunk, .. } = &step
                && output.is_sent(*chunk)
                && let Some(request) = self.requests.get_mut(range.ticket)
            {
                for index in range.start..range.end {
                    request.fail(index, || sent.clone());
                }
            }
            let (query, error) = match step {
                InFlight::Query { query, chunk, .. } | InFlight::Reset { query, chunk, .. }
                    if output.is_sent(chunk) =>
                {
                    (query, sent.clone())
                }
                // It was not executed in any case.
                InFlight::Void {
                    query,
                    error: Some(error),
                    ..
                } => (query, error),
                _ => continue,
            };
            if let Some(request) = self.requests.get_mut(query.ticket) {
                request.fail(query.index, || error);
            }
        }
        self.requests.fail_all(&error.of_query(Sent::Nothing));
        self.backlog.clear();
        self.statements.clear();
        self.streams.clear();
        self.begin_count = 0;
        self.end = Some(error);
    }
}
