//! One thread of the generator: its connections, its epoll instance and its schedule.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::connection::{Connection, InFlight};
use super::figures::{Fault, Figures};
use super::head::{HEAD_SIZE_MAX, Malformed};
use super::plan::{Clock, DRAIN_NS_MAX, LoadPlan, nanoseconds};
use super::response::{KnownHead, Response, SentRequest};
use super::schedule::Schedule;
use crate::workload::Random;

/// The number of events per call of epoll.
const EVENT_COUNT_MAX: usize = 256;
/// The bytes of one read, in addition to a partial line.
const READ_SIZE_MAX: usize = 256 << 10;
/// The interval of checking idle connections.
const CHECK_NS: u64 = 50_000_000;
/// A connection that was refused, or ended without an answer, is reopened after this delay.
const RETRY_NS: u64 = 20_000_000;
/// The epoll data of the timer; that of connections are their indexes.
const TIMER: u64 = u64::MAX;

pub(super) struct Worker<'a> {
    pub(super) plan: &'a LoadPlan,
    pub(super) clock: &'a Clock,
    /// Answers so far, for the progress.
    live: &'a AtomicU64,
    pub(super) epoll: OwnedFd,
    pub(super) connections: Vec<Connection>,
    /// At a fixed rate.
    pub(super) schedule: Option<Schedule>,
    /// The connections that may send at a fixed rate, the longest waiting first.
    pub(super) free: VecDeque<usize>,
    known_heads: Vec<KnownHead>,
    /// The number of the next request of each template; the threads share one sequence.
    pub(super) turns: Vec<u64>,
    pub(super) turn_step: u64,
    /// The template of the next request, if each request takes another.
    pub(super) next_template: usize,
    pub(super) random: Random,
    input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) figures: Figures,
    answer_count: u64,
    checked_ns: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        plan: &'a LoadPlan,
        clock: &'a Clock,
        index: usize,
        live: &'a AtomicU64,
    ) -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let schedule = match plan.options.rate {
            Some(rate) => Some(Schedule::new(rate, index, plan.options.thread_count)?),
            None => None,
        };
        if let Some(schedule) = &schedule {
            // Edge-triggered: reported once each time it expires, so that it need not be read.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(TIMER);
            epoll::add(&epoll, schedule.timer(), data, flags)?;
        }
        let template_count = plan.templates.len();
        let connections = (index..plan.options.connection_count)
            .step_by(plan.options.thread_count)
            .map(|number| Connection::new(number % template_count, plan.options.depth))
            .collect();
        Ok(Self {
            plan,
            clock,
            live,
            epoll,
            connections,
            schedule,
            free: VecDeque::new(),
            known_heads: (0..template_count).map(|_| KnownHead::default()).collect(),
            turns: vec![index as u64; template_count],
            turn_step: plan.options.thread_count as u64,
            next_template: index % template_count,
            random: Random::new(plan.options.seed.wrapping_add(index as u64)),
            input: vec![0; HEAD_SIZE_MAX + READ_SIZE_MAX],
            output: Vec::new(),
            figures: Figures::new(template_count),
            answer_count: 0,
            checked_ns: 0,
        })
    }

    /// Works until the run is over.
    pub(super) fn run(mut self) -> rustix::io::Result<Figures> {
        let mut now_ns = self.clock.now_ns();
        for index in 0..self.connections.len() {
            self.open(index, now_ns);
        }
        let mut events = Vec::with_capacity(EVENT_COUNT_MAX);
        loop {
            self.send_due();
            let wait_ns = self.wait_ns()?;
            // The timeout is in whole milliseconds; earlier events are left to the timer.
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: wait_ns.cast_signed(),
            };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            for event in &events {
                let index = event.data.u64();
                if index != TIMER {
                    self.serve(index as usize);
                }
            }
            now_ns = self.clock.now_ns();
            if now_ns >= self.checked_ns + CHECK_NS {
                self.checked_ns = now_ns;
                self.check_connections(now_ns);
            }
            // Relaxed: a figure for display, which synchronizes nothing else.
            self.live.store(self.answer_count, Ordering::Relaxed);
            if self.is_over(now_ns) {
                return Ok(self.finish(now_ns));
            }
        }
    }

    /// The time until something has to be done.
    fn wait_ns(&mut self) -> rustix::io::Result<u64> {
        let Some(schedule) = &mut self.schedule else {
            return Ok(CHECK_NS);
        };
        if self.free.is_empty() {
            return Ok(CHECK_NS);
        }
        let now_ns = self.clock.now_ns();
        let due_ns = schedule.due_ns();
        if due_ns >= self.clock.end_ns() {
            return Ok(CHECK_NS);
        }
        if due_ns <= now_ns {
            return Ok(0);
        }
        schedule.wake_in(due_ns - now_ns)?;
        Ok(CHECK_NS)
    }

    /// At a fixed rate, outstanding answers are waited for, since the late ones matter most.
    fn is_over(&self, now_ns: u64) -> bool {
        let end_ns = self.clock.end_ns();
        if now_ns < end_ns {
            return false;
        }
        let Some(schedule) = &self.schedule else {
            return true;
        };
        let is_idle = schedule.due_ns() >= end_ns
            && self
                .connections
                .iter()
                .all(|connection| connection.in_flight.is_empty());
        is_idle || now_ns >= end_ns.saturating_add(DRAIN_NS_MAX)
    }

    fn finish(mut self, now_ns: u64) -> Figures {
        let mut waiting: Vec<u64> = Vec::new();
        for connection in &self.connections {
            waiting.extend(connection.in_flight.iter().map(|request| request.due_ns));
        }
        if let Some(schedule) = &mut self.schedule {
            let end_ns = self.clock.end_ns();
            while schedule.due_ns() < end_ns {
                waiting.push(schedule.take());
            }
            // Their latency is at least the time that they have been waiting.
            for due_ns in waiting.iter().filter(|&&due_ns| self.clock.counts(due_ns)) {
                self.figures.latency(now_ns - due_ns);
            }
        }
        self.figures.unanswered = waiting.len() as u64;
        self.figures
    }

    /// Reopens connections that are due, and gives up answers that take too long.
    fn check_connections(&mut self, now_ns: u64) {
        let timeout_ns = nanoseconds(self.plan.options.timeout);
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.socket.is_none() {
                if connection.retry_ns <= now_ns {
                    self.open(index, now_ns);
                }
                continue;
            }
            let first = connection.in_flight.front();
            if first.is_some_and(|first| now_ns.saturating_sub(first.sent_ns) > timeout_ns) {
                let timeout = self.plan.options.timeout;
                self.fail(index, now_ns, Fault::Timeout, || {
                    format!("no answer within {timeout:?}")
                });
            }
        }
    }

    fn open(&mut self, index: usize, now_ns: u64) {
        let connected = self.plan.target.connect().and_then(|socket| {
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => {
                self.connections[index].socket = Some(socket);
                self.figures.connections += 1;
                self.send_more(index, now_ns);
            }
            // Its queue of a Unix socket is full; that is not a failure yet.
            Err(Errno::AGAIN) => self.connections[index].retry_ns = now_ns + RETRY_NS,
            Err(error) => {
                self.connections[index].retry_ns = now_ns + RETRY_NS;
                self.figures
                    .fault(Fault::Connect, 1, || connect_error(error));
            }
        }
    }

    /// Closes a connection, and reopens it for the next template.
    fn reopen(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        connection.template = (connection.template + 1) % self.plan.templates.len();
        connection.reset();
        self.open(index, now_ns);
    }

    /// Gives up the requests in flight on a connection.
    pub(super) fn fail(
        &mut self,
        index: usize,
        now_ns: u64,
        fault: Fault,
        text: impl FnOnce() -> String,
    ) {
        let connection = &mut self.connections[index];
        let count = connection.in_flight.len().max(1) as u64;
        let had_answers = connection.answered > 0;
        self.figures.fault(fault, count, text);
        if had_answers {
            self.reopen(index, now_ns);
        } else {
            connection.reset();
            connection.retry_ns = now_ns + RETRY_NS;
        }
    }

    /// Handles an event of a connection.
    fn serve(&mut self, index: usize) {
        if self.connections[index].awaits_writable {
            self.flush(index);
        }
        loop {
            let connection = &mut self.connections[index];
            let Some(socket) = connection.socket.as_ref() else {
                return;
            };
            let kept = connection.pending.len();
            self.input[..kept].copy_from_slice(&connection.pending);
            let room = &mut self.input[kept..];
            let room_size = room.len();
            let received = recv(socket.as_fd(), room, RecvFlags::empty());
            let now_ns = self.clock.now_ns();
            match received {
                Ok((0, _)) => return self.ended(index, now_ns),
                Ok((size, _)) => {
                    self.connections[index].pending.clear();
                    if self.clock.counts(now_ns) {
                        self.figures.bytes += size as u64;
                    }
                    let is_open = self.take(index, kept + size, now_ns);
                    // The rest is reported again, which costs no more than another read.
                    if !is_open || size < room_size {
                        return;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(error) => return self.lost(index, now_ns, error),
            }
        }
    }

    /// Reads the answers in the first `size` bytes of the input. Returns whether the connection is
    /// still the same.
    fn take(&mut self, index: usize, size: usize, now_ns: u64) -> bool {
        let mut at = 0;
        while at < size {
            let connection = &mut self.connections[index];
            let Some(&request) = connection.in_flight.front() else {
                let text = || "bytes that no request asked for".to_owned();
                self.fail(index, now_ns, Fault::Malformed, text);
                return false;
            };
            let mut asked = SentRequest {
                is_head: self.plan.templates[request.template].is_head,
                body: self.plan.options.expected_body.as_deref(),
                known: &mut self.known_heads[request.template],
            };
            match connection.reader.read(&self.input[at..size], &mut asked) {
                Ok((taken, Some(response))) => {
                    at += taken;
                    connection.in_flight.pop_front();
                    connection.answered += 1;
                    let answered = connection.answered;
                    self.answered(request, response, now_ns);
                    if response.closes {
                        self.closed(index, now_ns);
                        return false;
                    }
                    if self.plan.options.requests_per_connection == Some(answered) {
                        self.reopen(index, now_ns);
                        return false;
                    }
                }
                Ok((taken, None)) => {
                    connection
                        .pending
                        .extend_from_slice(&self.input[at + taken..size]);
                    break;
                }
                Err(Malformed(text)) => {
                    let name = &self.plan.templates[request.template].name;
                    self.fail(index, now_ns, Fault::Malformed, || {
                        format!("{text}, to {name}")
                    });
                    return false;
                }
            }
        }
        self.send_more(index, now_ns);
        true
    }

    fn answered(&mut self, request: InFlight, response: Response, now_ns: u64) {
        self.answer_count += 1;
        if self.clock.counts(now_ns) {
            self.figures.answer(request.template, response.status);
        }
        let decides_ns = match self.schedule {
            Some(_) => request.due_ns,
            None => now_ns,
        };
        if self.clock.counts(decides_ns) {
            self.figures.latency(now_ns.saturating_sub(request.due_ns));
        }
        let name = &self.plan.templates[request.template].name;
        if !self.plan.expects(response.status) {
            self.figures.fault(Fault::Status, 1, || {
                format!("{} to {name}", response.status)
            });
        } else if !response.is_expected {
            self.figures.fault(Fault::Body, 1, || format!("to {name}"));
        }
    }

    /// Handles an answer after which the server closes the connection.
    fn closed(&mut self, index: usize, now_ns: u64) {
        let count = self.connections[index].in_flight.len() as u64;
        self.figures.fault(Fault::Lost, count, || {
            "closed by Connection: close with requests unanswered".into()
        });
        self.reopen(index, now_ns);
    }

    /// Handles a lost connection.
    pub(super) fn lost(&mut self, index: usize, now_ns: u64, error: Errno) {
        let request = self.connections[index].in_flight.front();
        let name = request.map(|request| &self.plan.templates[request.template].name);
        self.fail(index, now_ns, Fault::Lost, || {
            let error = std::io::Error::from(error);
            match name {
                Some(name) => format!("{error}, to {name}"),
                None => error.to_string(),
            }
        });
    }

    /// Handles the end of a connection.
    fn ended(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        let Some(&request) = connection.in_flight.front() else {
            // Idle connections may be closed, though not before they were of any use.
            if connection.answered > 0 {
                return self.reopen(index, now_ns);
            }
            connection.reset();
            connection.retry_ns = now_ns + RETRY_NS;
            return;
        };
        let mut asked = SentRequest {
            is_head: self.plan.templates[request.template].is_head,
            body: self.plan.options.expected_body.as_deref(),
            known: &mut self.known_heads[request.template],
        };
        if let Some(response) = connection.reader.end(&mut asked) {
            connection.in_flight.pop_front();
            connection.answered += 1;
            self.answered(request, response, now_ns);
            return self.closed(index, now_ns);
        }
        let place = if connection.reader.is_within() || !connection.pending.is_empty() {
            "closed within the answer"
        } else {
            "closed before the answer"
        };
        let name = &self.plan.templates[request.template].name;
        self.fail(index, now_ns, Fault::Lost, || format!("{place} to {name}"));
    }
}

pub(super) fn connect_error(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    match error {
        Errno::ADDRNOTAVAIL => format!(
            "{text}: all local ports are in use; fewer connections, more requests on each, or a Unix \
             socket need fewer"
        ),
        Errno::MFILE | Errno::NFILE => format!("{text}; raise it by ulimit -n"),
        _ => text,
    }
}
