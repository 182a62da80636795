//! The loop of an I/O thread.

mod accept;
mod body;
mod drive;
mod flush;
mod read;
mod receive;
mod refuse;
#[cfg(test)]
mod tests;

use std::io;
use std::mem;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::connection::ConnectionState;
use crate::counters::Board;
use crate::io::Due;
use crate::mailbox::Message;
use crate::parse::Refusal;
use crate::poller::Source;
use crate::slab::Key;
use crate::{Io, Readiness, Service, Ticket};
use drive::Driven;

/// The number of events of a batch. Further ones wait for the next batch, at the cost of one more
/// call.
const EVENT_COUNT_MAX: usize = 256;

/// The buffers of a batch of events.
struct Batch {
    events: Vec<epoll::Event>,
    messages: Vec<Message>,
}

impl Batch {
    fn new() -> Self {
        Self {
            events: Vec::with_capacity(EVENT_COUNT_MAX),
            messages: Vec::new(),
        }
    }
}

/// The number of rounds of sending and writing more before other connections have their turn: a
/// client that reads a stream as fast as it is written would keep one connection busy.
const ROUND_COUNT_MAX: usize = 8;

/// An I/O thread: its state and its service.
pub(crate) struct Worker<S> {
    pub(crate) io: Io,
    pub(crate) service: S,
}

impl<S: Service> Worker<S> {
    /// Runs until the server is stopped and the last connection has ended.
    pub(crate) fn run(&mut self, board: &Board) -> io::Result<()> {
        let mut batch = Batch::new();
        while !(self.io.is_draining && self.io.connections.len() == 0) {
            self.turn(&mut batch)?;
            board.show(&self.io.counters);
        }
        Ok(())
    }

    /// Waits for events, and handles them as one batch.
    fn turn(&mut self, batch: &mut Batch) -> io::Result<()> {
        let Batch { events, messages } = batch;
        events.clear();
        let timeout = self.timeout();
        match epoll::wait(&self.io.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.io.clock.update();
        self.io.counters.batches += 1;
        for event in events.drain(..) {
            let flags = event.flags;
            let readiness = Readiness::from_flags(flags);
            match Source::from_data(event.data) {
                Source::Connection(key) => {
                    let is_ending = flags.contains(epoll::EventFlags::RDHUP);
                    self.connection_ready(key, readiness, is_ending || readiness.closed);
                }
                Source::Watch(key) => {
                    if let Some(token) = self.io.watch_token(key) {
                        self.hook(|service, io| service.ready(io, token, readiness));
                    }
                }
                Source::Listener(index) => self.accept(index),
                Source::Mailbox => self.drain_inbox(messages),
            }
        }
        self.timers();
        self.end_batch();
        Ok(())
    }

    fn drain_inbox(&mut self, messages: &mut Vec<Message>) {
        let mut jobs = mem::take(&mut self.io.submissions.returned);
        self.io.mailbox.receive(messages, &mut jobs);
        for job in jobs.drain(..) {
            self.io.complete(job);
        }
        self.io.submissions.returned = jobs;
        for message in messages.drain(..) {
            self.receive(message);
        }
    }

    /// How long to wait for events at most.
    fn timeout(&self) -> Option<Timespec> {
        let is_done = self.io.dirty.is_empty() && self.io.writable.is_empty();
        if !is_done || self.io.is_batch_cut || self.io.submissions.has_work() {
            return Some(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
        }
        let tick = self.io.wheel.next_tick()?;
        let wait = Duration::from_millis(tick.saturating_sub(self.io.clock.tick()));
        Some(Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        })
    }

    /// Calls the service for an event that is not a request. A panic in it ends the thread, and
    /// with it the server: requests of any connection may depend on its effect.
    pub(crate) fn hook(&mut self, call: impl FnOnce(&mut S, &mut Io)) {
        call(&mut self.service, &mut self.io);
    }

    /// Lets the service send what it has collected, and sends the replies that it makes; that may
    /// make room for waiting requests, so this repeats.
    fn end_batch(&mut self) {
        self.io.submissions.renew();
        self.io.is_batch_cut = false;
        for _ in 0..ROUND_COUNT_MAX {
            self.hook(|service, io| service.batch_end(io));
            self.io.send_jobs();
            if self.io.dirty.is_empty() && self.io.writable.is_empty() {
                return;
            }
            let mut dirty = mem::take(&mut self.io.dirty);
            for key in dirty.drain(..) {
                if let Some(connection) = self.io.connections.get_mut(key) {
                    connection.is_dirty = false;
                    self.drive_connection(key);
                }
            }
            if self.io.dirty.is_empty() {
                self.io.dirty = dirty;
            }
            for ticket in mem::take(&mut self.io.writable) {
                let ticket = Ticket::from_u64(ticket);
                match self.io.has_source(ticket) {
                    true => self.io.pull(ticket),
                    false => self.hook(|service, io| service.writable(io, ticket)),
                }
            }
        }
        // The requests called in the last round may have started something.
        self.io.is_batch_cut = true;
    }

    /// Sends output, and continues with requests that waited for room.
    pub(crate) fn drive_connection(&mut self, key: Key) {
        while self.io.drive_connection(key) == Driven::HasRoom {
            self.consume_input(key);
        }
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Connection(socket, peer, listen_index) => {
                self.adopt(socket, peer, listen_index)
            }
            Message::Wake(token) => self.hook(|service, io| service.woken(io, token)),
            Message::Respond(ticket, response) => {
                if let Some(reply) = self.io.reply(Ticket::from_u64(ticket)) {
                    reply.respond(response);
                }
            }
            Message::Stream(ticket, response, source) => {
                let ticket = Ticket::from_u64(ticket);
                if let Some(reply) = self.io.reply(ticket) {
                    reply.stream_from(&response, source);
                }
                self.io.pull(ticket);
            }
            Message::Written(ticket) => self.io.pull(Ticket::from_u64(ticket)),
            Message::Resume(ticket) => self.io.resume(Ticket::from_u64(ticket)),
            Message::Stop => self.drain(),
        }
    }

    /// Stops accepting, and closes connections without requests.
    fn drain(&mut self) {
        if mem::replace(&mut self.io.is_draining, true) {
            return;
        }
        // Connections in the backlog have been established, so they are served.
        for index in 0..self.io.listeners.len() {
            self.accept(index);
        }
        self.io.listeners.clear();
        let timeout = u64::try_from(self.io.options.drain_timeout.as_millis());
        let at = self
            .io
            .clock
            .tick()
            .saturating_add(timeout.unwrap_or(u64::MAX));
        self.io.wheel.insert(at, Due::Drain);
        let keys: Vec<Key> = self.io.connections.keys().collect();
        for key in keys {
            // A request that has been sent is answered.
            self.read(key);
            self.drive_connection(key);
        }
    }

    fn timers(&mut self) {
        let tick = self.io.clock.tick();
        while let Some(due) = self.io.wheel.advance(tick) {
            match due {
                Due::Connection(key) => self.connection_due(key),
                Due::Service(token) => self.hook(|service, io| service.timer(io, token)),
                Due::Accept => {
                    let is_full = self.io.connections.len() >= self.io.options.connection_count_max;
                    if is_full || self.io.listen(true).is_err() {
                        self.pause_accept();
                    }
                }
                // The end of the batch does it.
                Due::Depart => {}
                Due::Drain => {
                    self.io.is_drained = true;
                    let keys: Vec<Key> = self.io.connections.keys().collect();
                    for key in keys {
                        self.io.close(key);
                    }
                }
            }
        }
    }

    /// Handles an expired timer of a connection, whose deadline may be later by now.
    fn connection_due(&mut self, key: Key) {
        let tick = self.io.clock.tick();
        if let Some(connection) = self.io.connections.get_mut(key) {
            connection.timer = None;
        }
        let Some(connection) = self.io.connections.get(key) else {
            return;
        };
        // Something may have happened since the timer was set.
        if self.io.deadline(connection) > tick {
            return self.io.set_deadline(key);
        }
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let is_blocked = connection.write_deadline(&self.io.options) <= tick;
        let is_expected = connection.receiving.is_some() || !connection.input.is_empty();
        match connection.state {
            ConnectionState::Open | ConnectionState::Ending { .. } if is_blocked => {
                self.io.counters.write_timeouts += 1;
                self.io.close(key);
            }
            ConnectionState::Open | ConnectionState::Ending { .. } if is_expected => {
                match connection.receiving.take() {
                    Some(receiving) => self.io.refuse_slow_body(key, *receiving),
                    None => self.io.refuse(key, Refusal(408)),
                }
                self.drive_connection(key);
            }
            _ => self.io.close(key),
        }
    }
}
