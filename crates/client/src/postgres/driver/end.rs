//! Queries that get no answer from the server: given up, or lost with the connection.

use super::script::Script;
use super::session::{Job, Session};
use super::step::Step;
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
                Step::Run { run, .. } if run.ticket == ticket => {
                    is_under_way = true;
                    job.answers
                        .at(run.index)
                        .get_or_insert_with(|| Err(error(Sent::Something)));
                }
                Step::Script { ticket: of, .. } if *of == ticket => {
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
        self.reply(ticket, job, &error(Sent::Nothing));
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
                Step::Run { run, chunk, .. } if output.is_sent(chunk) => {
                    if let Some(job) = self.jobs.get_mut(run.ticket) {
                        job.answers
                            .at(run.index)
                            .get_or_insert_with(|| Err(sent.clone()));
                    }
                }
                Step::Script { ticket, chunk, .. } if output.is_sent(chunk) => {
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
