//! A thread's connections to the database, on its own poller: no handover to another thread, and
//! one send for all queries of a batch of requests to one connection.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use lookaside_client::postgres::{Options, poll::Connection};
use lookaside_client::{Answer, Error, PostgresConfig, Request, Ticket};
use lookaside_http::{Interest, Io, Readiness, Timer, Watch};

/// The number of queries in flight per connection. Further queries wait here for the first free
/// connection: a deeper pipeline makes no server faster.
const WINDOW: usize = 64;

/// How many queries go to a connection that has something to send before another one gets any: with
/// 64 clients that is 2.4 system calls a request where always choosing the shortest queue makes
/// 2.6.
const FILL: usize = 8;

/// The first and the longest delay before a reconnect.
const RETRY_DELAY: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);

/// Timeouts of the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// When an attempt to connect is given up.
    pub(crate) connect: Duration,
    /// When a query is given up and cancelled on the server.
    pub(crate) query: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            query: Duration::from_secs(10),
        }
    }
}

/// The connections of one thread; each query has a purpose, which is returned with its answer.
pub(super) struct Database<P> {
    config: Option<PostgresConfig>,
    timeouts: Timeouts,
    /// The statements that are prepared on each new connection.
    statements: &'static [&'static str],
    slots: Vec<Slot<P>>,
    waiting: VecDeque<(Request, P)>,
    answered: VecDeque<(P, Outcome)>,
    /// Whether the loss of all connections was reported.
    is_away: bool,
}

/// The result of a query.
pub(super) type Outcome = Result<Answer, Silence>;

/// Why there is no answer. Whether the database has executed the query is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// There is no connection, or it was lost.
    Away,
    /// The query was refused, or took too long.
    Failed,
}

struct Slot<P> {
    state: State<P>,
    timer: Option<(Instant, Timer)>,
    retry_delay: Duration,
}

enum State<P> {
    Down { retry_at: Instant },
    Open(Box<Open<P>>),
}

struct Open<P> {
    connection: Connection,
    watch: Watch,
    /// In the order of the queries, which is mostly that of the answers. Preparations have no
    /// purpose.
    asked: VecDeque<(Ticket, Option<P>)>,
    /// Whether there is work at the end of the batch.
    is_due: bool,
    /// Whether the poller has reported input.
    is_readable: bool,
    since: Instant,
}

impl<P> Database<P> {
    /// Starts connecting.
    pub(super) fn new(
        io: &mut Io,
        config: Option<PostgresConfig>,
        timeouts: Timeouts,
        count: usize,
        statements: &'static [&'static str],
    ) -> Self {
        let count = if config.is_some() { count } else { 0 };
        let retry_at = io.now();
        let mut database = Self {
            config,
            timeouts,
            statements,
            slots: Vec::with_capacity(count),
            waiting: VecDeque::new(),
            answered: VecDeque::new(),
            is_away: false,
        };
        for index in 0..count {
            database.slots.push(Slot {
                state: State::Down { retry_at },
                timer: None,
                retry_delay: RETRY_DELAY,
            });
            database.connect(io, index);
        }
        database
    }

    /// Sends a query as soon as there is room. Without any connection, it fails at once.
    pub(super) fn ask(&mut self, request: Request, purpose: P, now: Instant) {
        if self.slots.iter_mut().all(|slot| slot.open().is_none()) {
            self.answered.push_back((purpose, Err(Silence::Away)));
        } else {
            let request = request.deadline(now + self.timeouts.query);
            self.waiting.push_back((request, purpose));
        }
    }

    /// The next answer.
    pub(super) fn next_answer(&mut self) -> Option<(P, Outcome)> {
        self.answered.pop_front()
    }

    /// A connection can be read or written.
    pub(super) fn ready(&mut self, index: usize, readiness: Readiness) {
        if let Some(open) = self.slots[index].open() {
            open.is_due = true;
            open.is_readable |= readiness.read;
        }
    }

    /// A timer of a connection has expired.
    pub(super) fn timer(&mut self, io: &mut Io, index: usize) {
        let slot = &mut self.slots[index];
        slot.timer = None;
        match &mut slot.state {
            State::Open(open) => open.is_due = true,
            State::Down { retry_at } if *retry_at <= io.now() => self.connect(io, index),
            State::Down { retry_at } => {
                let at = *retry_at;
                slot.set_timer(io, index, at);
            }
        }
    }

    /// Sends and receives without blocking.
    pub(super) fn turn(&mut self, io: &mut Io) {
        loop {
            self.hand_out();
            let is_due = |slot: &mut Slot<P>| slot.open().is_some_and(|open| open.is_due);
            let Some(index) = self.slots.iter_mut().position(is_due) else {
                return;
            };
            self.turn_one(io, index);
        }
    }

    /// Hands the waiting queries to the least loaded connections.
    fn hand_out(&mut self) {
        while !self.waiting.is_empty() {
            let open = self.slots.iter_mut().filter_map(Slot::open);
            let least = open.min_by_key(|open| match open.asked.len() {
                // Queries that are sent together with others need no separate send.
                count if open.is_due && count < FILL => 0,
                count => count + 1,
            });
            let Some(open) = least.filter(|open| open.asked.len() < WINDOW) else {
                return;
            };
            let Some((request, purpose)) = self.waiting.pop_front() else {
                return;
            };
            open.is_due = true;
            match open.connection.submit(request) {
                Ok(ticket) => open.asked.push_back((ticket, Some(purpose))),
                Err(_) => self.answered.push_back((purpose, Err(Silence::Away))),
            }
        }
    }

    fn turn_one(&mut self, io: &mut Io, index: usize) {
        let now = io.now();
        let slot = &mut self.slots[index];
        let Some(open) = slot.open() else { return };
        open.is_due = false;
        match std::mem::take(&mut open.is_readable) {
            true => open.connection.turn(now),
            false => open.connection.flush(now),
        }
        while let Some(reply) = open.connection.next_reply() {
            let mut asked = open.asked.iter();
            let place = asked.position(|(ticket, _)| *ticket == reply.ticket);
            // A failed preparation is repeated and reported with the query that needs it.
            if let Some((_, Some(purpose))) = place.and_then(|place| open.asked.remove(place)) {
                let outcome = reply.into_answer().map_err(|error| {
                    if error.is_connection_lost() {
                        return Silence::Away;
                    }
                    say(&format!("a query failed: {}", chain(&error)));
                    Silence::Failed
                });
                self.answered.push_back((purpose, outcome));
            }
        }
        if let Some(error) = open.connection.end() {
            let why = chain(error);
            return self.lose(io, index, &why);
        }
        let interest = Interest {
            read: true,
            write: open.connection.wants_write(),
        };
        if let Err(error) = io.rewatch(&open.watch, open.connection.as_fd(), interest) {
            return self.lose(io, index, &error.to_string());
        }
        let mut due = open.connection.deadline();
        if open.connection.is_ready() {
            slot.retry_delay = RETRY_DELAY;
            if std::mem::take(&mut self.is_away) {
                say("the database is back");
            }
        } else {
            let end = open.since + self.timeouts.connect;
            if end <= now {
                return self.lose(io, index, "it does not let us in");
            }
            due = Some(due.map_or(end, |due| due.min(end)));
        }
        if let Some(due) = due {
            self.slots[index].set_timer(io, index, due);
        }
    }

    fn connect(&mut self, io: &mut Io, index: usize) {
        let Some(config) = &self.config else { return };
        let opened = Connection::connect(config, &config.hosts[0], Options::default());
        let opened = opened.and_then(|mut connection| {
            let prepared = self.statements.iter();
            let prepared = prepared.map(|sql| connection.submit(Request::describe(*sql)));
            let asked = prepared.collect::<Result<Vec<_>, Error>>()?;
            Ok((connection, asked))
        });
        let (connection, asked) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.lose(io, index, &chain(&error)),
        };
        let interest = Interest {
            read: true,
            write: true,
        };
        match io.watch(connection.as_fd(), interest, index as u64) {
            Ok(watch) => {
                self.slots[index].state = State::Open(Box::new(Open {
                    connection,
                    watch,
                    asked: asked.into_iter().map(|ticket| (ticket, None)).collect(),
                    is_due: true,
                    is_readable: false,
                    since: io.now(),
                }));
            }
            Err(error) => self.lose(io, index, &error.to_string()),
        }
    }

    /// Gives up a connection with its queries, and reconnects later.
    fn lose(&mut self, io: &mut Io, index: usize, why: &str) {
        let slot = &mut self.slots[index];
        let retry_at = io.now() + slot.retry_delay;
        slot.retry_delay = (slot.retry_delay * 2).min(RETRY_DELAY_MAX);
        let state = std::mem::replace(&mut slot.state, State::Down { retry_at });
        slot.set_timer(io, index, retry_at);
        if let State::Open(open) = state {
            let Open {
                connection,
                watch,
                asked,
                ..
            } = *open;
            // If the descriptor cannot be removed from the poller, closing it does that.
            let _ = io.unwatch(watch, connection.as_fd());
            let purposes = asked.into_iter().filter_map(|(_, purpose)| purpose);
            let away = purposes.map(|purpose| (purpose, Err(Silence::Away)));
            self.answered.extend(away);
        }
        if self.slots.iter_mut().all(|slot| slot.open().is_none()) {
            if !std::mem::replace(&mut self.is_away, true) {
                say(&format!("the database is away: {why}; it is tried again"));
            }
            let waiting = self.waiting.drain(..);
            let away = waiting.map(|(_, purpose)| (purpose, Err(Silence::Away)));
            self.answered.extend(away);
        }
    }
}

impl<P> Slot<P> {
    fn open(&mut self) -> Option<&mut Open<P>> {
        match &mut self.state {
            State::Open(open) => Some(open),
            State::Down { .. } => None,
        }
    }

    /// Sets the timer to a time, unless it expires before that.
    fn set_timer(&mut self, io: &mut Io, index: usize, at: Instant) {
        match self.timer {
            Some((sooner, _)) if sooner <= at => return,
            Some((_, later)) => io.cancel(later),
            None => {}
        }
        let token = super::DATABASE_TIMER | index as u64;
        self.timer = Some((at, io.timer(at, token)));
    }
}

/// An error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

fn say(what: &str) {
    // A failure to write to standard error is ignored.
    let _ = writeln!(io::stderr(), "{what}");
}
