//! Queries that get no answer from the server: given up, or lost with the connection.

use super::in_flight::InFlight;
use super::session::{Rows, Script, ServerSession};
use crate::Error;
use crate::Ticket;
use crate::error::Sent;
use crate::output::Output;

impl ServerSession {
    /// Answers the open queries of a request with an error that tells whether they were sent, and
    /// cancels those in flight.
    #[cold]
    pub(super) fn give_up(&mut self, ticket: Ticket, error: impl Fn(Sent) -> Error) {
        let Some(mut request) = self.requests.remove(ticket) else {
            return;
        };
        let mut is_under_way = false;
        for step in &self.in_flight {
            // Queued queries will be sent, even if no byte of them is written yet.
            match step {
                InFlight::Query { query, .. } if query.ticket == ticket => {
                    is_under_way = true;
                    request.fail(query.index, || error(Sent::Something));
                }
                InFlight::Script { ticket: of, .. } if *of == ticket => {
                    is_under_way = true;
                    request.set_answers(Script::cut(self.script.take(), error(Sent::Something)));
                }
                _ => {}
            }
        }
        for settled in &self.settled {
            if settled.query.ticket == ticket {
                request.fail(settled.query.index, || error(Sent::Something));
            }
        }
        if is_under_way
            || self
                .statements
                .cache
                .is_awaited(&request.details.key, ticket)
        {
            self.cancel.wanted.push(ticket);
        }
        self.discard_rows(ticket, || Rows::Discarded);
        self.requests.reply(ticket, request, &error(Sent::Nothing));
    }

    /// The request whose rows are being received, if they are kept.
    pub(super) fn collecting(&self) -> Option<Ticket> {
        match self.in_flight.front() {
            Some(InFlight::Query { query, .. })
                if matches!(self.rows, Rows::Begun { .. } | Rows::Raw { .. }) =>
            {
                Some(query.ticket)
            }
            Some(InFlight::Script { ticket, .. }) if self.script.is_some() => Some(*ticket),
            _ => None,
        }
    }

    /// Discards the rows of a request that continues.
    #[cold]
    pub(super) fn discard(&mut self, ticket: Ticket) {
        if let Some(InFlight::Script { ticket: of, .. }) = self.in_flight.front()
            && *of == ticket
        {
            // The rest of it is discarded once the request is removed.
            if let Some(request) = self.requests.remove(ticket) {
                self.requests
                    .reply(ticket, request, &Error::canceled(Sent::Something));
            }
            self.script = None;
            return;
        }
        let error = Error::canceled(Sent::Something);
        if let Some(request) = self.requests.get_mut(ticket) {
            request.discard(error.clone());
        }
        self.discard_rows(ticket, || Rows::Failed(error));
    }

    /// Discards further rows of an answer whose caller is gone.
    pub(super) fn discard_rows(&mut self, ticket: Ticket, rows: impl FnOnce() -> Rows) {
        let head = self.in_flight.front();
        let is_head = matches!(head, Some(InFlight::Query { query, .. }) if query.ticket == ticket);
        if is_head && matches!(self.rows, Rows::Begun { .. } | Rows::Raw { .. }) {
            self.rows = rows();
        }
    }

    /// Ends the connection, and fails all waiting requests.
    #[cold]
    pub(super) fn end(&mut self, error: Error, output: &Output) {
        if self.end.is_some() {
            return;
        }
        let sent = error.of_query(Sent::Something);
        for step in self.in_flight.drain(..) {
            match step {
                InFlight::Query { query, chunk, .. } if output.is_sent(chunk) => {
                    if let Some(request) = self.requests.get_mut(query.ticket) {
                        request.fail(query.index, || sent.clone());
                    }
                }
                InFlight::Script { ticket, chunk, .. } if output.is_sent(chunk) => {
                    if let Some(request) = self.requests.get_mut(ticket) {
                        request.set_answers(Script::cut(self.script.take(), sent.clone()));
                    }
                }
                _ => {}
            }
        }
        for settled in self.settled.drain(..) {
            if let Some(request) = self.requests.get_mut(settled.query.ticket) {
                request.fail(settled.query.index, || sent.clone());
            }
        }
        self.requests.fail_all(&error.of_query(Sent::Nothing));
        self.end_copy();
        self.backlog.clear();
        self.statements.clear();
        self.in_flight_count = 0;
        self.begin_count = 0;
        self.end = Some(error);
    }
}
