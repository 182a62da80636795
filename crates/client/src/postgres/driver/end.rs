//! Queries that get no answer from the server: given up, or lost with the connection.

use super::in_flight::InFlight;
use super::session::{Job, Rows, Script, Session};
use crate::Error;
use crate::error::Sent;
use crate::output::Output;
use crate::{Reply, Ticket};

impl Session {
    /// Answers what is open of a request with an error that says whether it was sent, and has
    /// cancelled what the server is doing for it.
    #[cold]
    pub(super) fn give_up(&mut self, ticket: Ticket, error: impl Fn(Sent) -> Error) {
        let Some(mut job) = self.remove(ticket) else {
            return;
        };
        let mut is_under_way = false;
        for step in &self.steps {
            // What is queued will be sent, even if no byte of it is yet.
            match step {
                InFlight::Run { run, .. } if run.ticket == ticket => {
                    is_under_way = true;
                    job.answers
                        .at(run.index)
                        .get_or_insert_with(|| Err(error(Sent::Something)));
                }
                InFlight::Script { ticket: of, .. } if *of == ticket => {
                    is_under_way = true;
                    job.answers = Script::cut(self.script.take(), error(Sent::Something));
                }
                _ => {}
            }
        }
        for settled in &self.settled {
            if settled.run.ticket == ticket {
                job.answers
                    .at(settled.run.index)
                    .get_or_insert_with(|| Err(error(Sent::Something)));
            }
        }
        if is_under_way || self.statements.is_awaited(&job.key, ticket) {
            self.cancel.wanted.push(ticket);
        }
        self.discard_rows(ticket, || Rows::Discarded);
        self.reply(ticket, job, &error(Sent::Nothing));
    }

    /// The request whose answer is coming in, if rows of it are kept.
    pub(super) fn collecting(&self) -> Option<Ticket> {
        match self.steps.front() {
            Some(InFlight::Run { run, .. })
                if matches!(self.rows, Rows::Begun { .. } | Rows::Raw { .. }) =>
            {
                Some(run.ticket)
            }
            Some(InFlight::Script { ticket, .. }) if self.script.is_some() => Some(*ticket),
            _ => None,
        }
    }

    /// Keeps no rows of the answers to a request that goes on.
    #[cold]
    pub(super) fn discard(&mut self, ticket: Ticket) {
        if let Some(InFlight::Script { ticket: of, .. }) = self.steps.front()
            && *of == ticket
        {
            // The rest of it is discarded once it is out of the books.
            if let Some(job) = self.remove(ticket) {
                self.reply(ticket, job, &Error::canceled(Sent::Something));
            }
            self.script = None;
            return;
        }
        let error = Error::canceled(Sent::Something);
        if let Some(job) = self.jobs.get_mut(ticket) {
            job.discard(error.clone());
        }
        self.discard_rows(ticket, || Rows::Failed(error));
    }

    /// Keeps no more rows of an answer whose caller is gone.
    pub(super) fn discard_rows(&mut self, ticket: Ticket, rows: impl FnOnce() -> Rows) {
        let head = self.steps.front();
        let is_head = matches!(head, Some(InFlight::Run { run, .. }) if run.ticket == ticket);
        if is_head && matches!(self.rows, Rows::Begun { .. } | Rows::Raw { .. }) {
            self.rows = rows();
        }
    }

    /// The connection is of no more use, and nothing that waits will be answered.
    #[cold]
    pub(super) fn end(&mut self, error: Error, output: &Output) {
        if self.end.is_some() {
            return;
        }
        let sent = error.of_query(Sent::Something);
        for step in self.steps.drain(..) {
            match step {
                InFlight::Run { run, chunk, .. } if output.is_sent(chunk) => {
                    if let Some(job) = self.jobs.get_mut(run.ticket) {
                        job.answers
                            .at(run.index)
                            .get_or_insert_with(|| Err(sent.clone()));
                    }
                }
                InFlight::Script { ticket, chunk, .. } if output.is_sent(chunk) => {
                    if let Some(job) = self.jobs.get_mut(ticket) {
                        job.answers = Script::cut(self.script.take(), sent.clone());
                    }
                }
                _ => {}
            }
        }
        for settled in self.settled.drain(..) {
            if let Some(job) = self.jobs.get_mut(settled.run.ticket) {
                job.answers
                    .at(settled.run.index)
                    .get_or_insert_with(|| Err(sent.clone()));
            }
        }
        let unsent = error.of_query(Sent::Nothing);
        let tickets: Vec<_> = self.jobs.iter().collect();
        for ticket in tickets {
            let job = self.remove(ticket).expect("the ticket is of a request");
            self.reply(ticket, job, &unsent);
        }
        self.end_copy();
        self.backlog.clear();
        self.statements.clear();
        self.in_flight_count = 0;
        self.begin_count = 0;
        self.end = Some(error);
    }

    /// Answers a request, with `error` where there is no answer yet.
    fn reply(&mut self, ticket: Ticket, job: Job, error: &Error) {
        let answers = job.answers.or_error(|| error.clone());
        self.replies.push_back(Reply { ticket, answers });
    }
}
