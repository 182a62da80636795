//! Lookups of providers, run by the I/O thread of their requests: the thread itself sends the query
//! and reads the answer.

use std::io;
use std::os::fd::AsFd as _;
use std::panic;
use std::time::Instant;

use lookaside_http::{Interest, Io, Timer, Waker, Watch};
use lookaside_knowledge::{EventLoop, Extent, Freshness, QueryResult, Session, Statement, Value};

use super::super::problem::Problem;
use super::Thread;
use super::wait::{Completion, Question, WaitOutcome};

/// The token of its timer; 0 is that of the waiters.
pub(super) const TIMER: u64 = 1;

/// The token of its descriptor, the only one that a thread registers.
const DESCRIPTOR: u64 = 0;

/// The queries of one I/O thread that wait for a provider.
pub(super) struct ProviderQueries {
    event_loop: EventLoop<Waiting>,
    is_readable: bool,
    /// Set if a provider may have been replaced, so that its connections have to be closed.
    is_woken: bool,
    timer: Option<(Instant, Timer)>,
    _watch: Watch,
}

/// A request whose query waits; boxed, since it is moved several times.
pub(super) type Waiting = Box<(Completion, Question)>;

impl ProviderQueries {
    pub(super) fn new(io: &mut Io, thread_count: usize, waker: Waker) -> io::Result<Self> {
        let event_loop = EventLoop::new(thread_count, move || waker.wake())?;
        let interest = Interest {
            read: true,
            write: false,
        };
        let watch = io.watch(event_loop.as_fd(), interest, DESCRIPTOR)?;
        Ok(Self {
            event_loop,
            is_readable: false,
            is_woken: false,
            timer: None,
            _watch: watch,
        })
    }

    /// Begins a query, or returns the request if it is not known whether a provider answers it.
    pub(super) fn begin(
        &mut self,
        waiting: Waiting,
        session: &mut Session,
        statement: &Statement,
        params: &[Value],
        (extent, freshness): (Extent, Freshness),
    ) -> Result<(), Waiting> {
        self.event_loop
            .begin(waiting, session, statement, params, extent, freshness)
    }

    /// The descriptor is ready.
    pub(super) fn ready(&mut self) {
        self.is_readable = true;
    }

    /// The thread was woken.
    pub(super) fn woken(&mut self) {
        self.is_woken = true;
    }

    /// The timer has expired.
    pub(super) fn timer(&mut self) {
        self.timer = None;
    }

    /// Sends and receives without blocking, and returns the answers that arrived.
    fn turn(&mut self, io: &mut Io) -> Vec<(Waiting, QueryResult)> {
        let mut answers = Vec::new();
        let now = io.now();
        let is_late = (self.event_loop.deadline()).is_some_and(|deadline| deadline <= now);
        let is_woken = std::mem::take(&mut self.is_woken);
        if self.is_readable || is_woken || is_late || self.event_loop.is_due() {
            let is_readable = std::mem::take(&mut self.is_readable);
            let answered = |waiting, answer| answers.push((waiting, answer));
            self.event_loop.turn(now, is_readable, answered);
            self.set_timer(io);
        } else if self.timer.is_none() {
            // The timer was set for a deadline that was met, and has expired.
            self.set_timer(io);
        }
        answers
    }

    /// Sets the timer to the next deadline, unless it expires before that anyway. Most deadlines
    /// are met; a timer that was set for one of those is set again when it expires.
    fn set_timer(&mut self, io: &mut Io) {
        let Some(deadline) = self.event_loop.deadline() else {
            return;
        };
        match self.timer.take() {
            Some((at, timer)) if at <= deadline => {
                self.timer = Some((at, timer));
                return;
            }
            Some((_, timer)) => io.cancel(timer),
            None => {}
        }
        self.timer = Some((deadline, io.timer(deadline, TIMER)));
    }
}

impl Thread {
    /// Sends the provider queries of the batch's requests, and answers the requests whose rows
    /// arrived.
    pub(super) fn turn_provider_queries(&mut self, io: &mut Io) {
        let Some(queries) = &mut self.provider_queries else {
            return;
        };
        for (waiting, answer) in queries.turn(io) {
            let (mut completion, question) = *waiting;
            let ticket = completion.ticket();
            // A panic fails only its own request.
            io.contain(ticket, |io| {
                match answer {
                    Ok(rows) => completion.set_rows(question, rows),
                    Err(panic) => {
                        self.responder.end_waiting();
                        panic::resume_unwind(panic);
                    }
                }
                self.complete(io, completion);
            });
        }
    }

    /// Cancels the waiting queries, and answers their requests.
    pub(super) fn cancel_provider_queries(&mut self, io: &mut Io) {
        let Some(queries) = &mut self.provider_queries else {
            return;
        };
        let waiting: Vec<_> = queries.event_loop.cancel_all().collect();
        for waiting in waiting {
            let (mut completion, _) = *waiting;
            completion.outcome = WaitOutcome::Body(Err(Problem::cancelled()));
            self.complete(io, completion);
        }
    }
}
