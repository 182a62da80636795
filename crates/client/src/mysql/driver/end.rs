//! Queries that get no answer from the server: given up, or lost with the connection.

use super::in_flight::InFlight;
use super::session::Session;
use crate::error::Sent;
use crate::output::Output;
use crate::{Error, Ticket};

impl Session {
    /// Answers what is open of a request with an error that says whether it was sent, and has
    /// cancelled what the server is doing for it.
    pub(super) fn give_up(&mut self, ticket: Ticket, error: impl Fn(Sent) -> Error) {
        let Some(mut job) = self.requests.remove(ticket) else {
            return;
        };
        let mut is_under_way = false;
        for step in &self.steps {
            // What is queued will be sent, even if no byte of it is yet.
            if let InFlight::Run { run, .. } | InFlight::Reset { run, .. } = step
                && run.ticket == ticket
            {
                is_under_way = true;
                job.settle(run.index, || error(Sent::Something));
            }
            if let InFlight::Bulk { span, .. } = step
                && span.ticket == ticket
            {
                is_under_way = true;
                for index in span.start..span.end {
                    job.settle(index, || error(Sent::Something));
                }
            }
        }
        if is_under_way || self.statements.is_awaited(ticket) {
            self.cancel.wanted.push(ticket);
        }
        if self.is_answering(ticket) {
            self.incoming.give_up();
        }
        self.requests.reply(ticket, job, &error(Sent::Nothing));
    }

    /// Whether what comes in is the answer to a query of the request.
    pub(super) fn is_answering(&self, ticket: Ticket) -> bool {
        matches!(self.steps.front(), Some(InFlight::Run { run, .. }) if run.ticket == ticket)
    }

    /// The request whose answer is coming in, if rows of it are kept.
    pub(super) fn collecting(&self) -> Option<Ticket> {
        match self.steps.front() {
            Some(InFlight::Run { run, .. }) if self.incoming.is_kept() => Some(run.ticket),
            _ => None,
        }
    }

    /// Keeps no rows of the answers to a request that goes on.
    pub(super) fn discard(&mut self, ticket: Ticket) {
        let error = Error::canceled(Sent::Something);
        if self.is_answering(ticket) {
            self.incoming.fail(error.clone());
        }
        if let Some(job) = self.requests.job_mut(ticket) {
            job.discard(error);
        }
    }

    /// The connection is of no more use, and nothing that waits will be answered.
    pub(super) fn end(&mut self, error: Error, output: &Output) {
        if self.end.is_some() {
            return;
        }
        let sent = error.of_query(Sent::Something);
        for step in self.steps.drain(..) {
            if let InFlight::Bulk { span, chunk, .. } = &step
                && output.is_sent(*chunk)
                && let Some(job) = self.requests.job_mut(span.ticket)
            {
                for index in span.start..span.end {
                    job.settle(index, || sent.clone());
                }
            }
            let (run, error) = match step {
                InFlight::Run { run, chunk, .. } | InFlight::Reset { run, chunk, .. }
                    if output.is_sent(chunk) =>
                {
                    (run, sent.clone())
                }
                // It was not done, whatever else happened.
                InFlight::Void {
                    run,
                    error: Some(error),
                    ..
                } => (run, error),
                _ => continue,
            };
            if let Some(job) = self.requests.job_mut(run.ticket) {
                job.settle(run.index, || error);
            }
        }
        let unsent = error.of_query(Sent::Nothing);
        for ticket in self.requests.tickets() {
            let job = self.requests.remove(ticket);
            let job = job.expect("the ticket is of an open request");
            self.requests.reply(ticket, job, &unsent);
        }
        self.backlog.clear();
        self.statements.clear();
        self.streams.clear();
        self.begin_count = 0;
        self.end = Some(error);
    }
}
