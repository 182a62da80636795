//! The loop of an I/O thread.

use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv};

use crate::connection::{Connection, Sealing, State};
use crate::counters::Board;
use crate::io::{Due, Source};
use crate::mailbox::Message;
use crate::parse::Refusal;
use crate::request::{Origin, Peer};
use crate::settle::Settled;
use crate::slab::Key;
use crate::tls::Session;
use crate::{Io, Readiness, Service, Ticket};

/// Events of a batch. What is more waits for the next one, and costs one more call.
const EVENT_COUNT_MAX: usize = 256;

/// What one call receives at most.
const READ_SIZE: usize = 64 << 10;

/// How often a connection is read before the others have their turn.
const READ_COUNT_MAX: usize = 4;

/// Connections accepted in a row before the others have their turn.
const ACCEPT_COUNT_MAX: usize = 256;

/// How long accepting rests when descriptors are used up: until some have been closed.
const ACCEPT_PAUSE_MS: u64 = 50;

/// What a batch of events is received in.
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

/// A thread: its state, and the service that answers.
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
            let readiness = Readiness::from_flags(event.flags);
            match Source::from_data(event.data) {
                Source::Connection(key) => self.connection_ready(key, readiness),
                Source::Watch(key) => {
                    if let Some(token) = self.io.watch_token(key) {
                        self.hook(|service, io| service.ready(io, token, readiness));
                    }
                }
                Source::Listener(index) => self.accept(index),
                Source::Mailbox => self.open_mailbox(messages),
            }
        }
        self.timers();
        self.end_batch();
        Ok(())
    }

    fn open_mailbox(&mut self, messages: &mut Vec<Message>) {
        let mut jobs = mem::take(&mut self.io.travel.returned);
        self.io.mailbox.receive(messages, &mut jobs);
        for job in jobs.drain(..) {
            self.io.arrive(job);
        }
        self.io.travel.returned = jobs;
        for message in messages.drain(..) {
            self.receive(message);
        }
    }

    /// How long to wait for events at most.
    fn timeout(&self) -> Option<Timespec> {
        let tick = self.io.wheel.next_tick()?;
        let wait = Duration::from_millis(tick.saturating_sub(self.io.clock.tick()));
        Some(Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        })
    }

    /// Calls the service about something that is no request.
    fn hook(&mut self, call: impl FnOnce(&mut S, &mut Io)) {
        let Self { io, service } = self;
        if catch_unwind(AssertUnwindSafe(|| call(service, io))).is_err() {
            self.io.counters.panics += 1;
        }
    }

    /// Lets the service send what it gathered, and sends what it answered meanwhile; that may make
    /// room for requests that waited, and so on.
    fn end_batch(&mut self) {
        loop {
            self.hook(|service, io| service.batch_end(io));
            self.io.send_jobs();
            if self.io.dirty.is_empty() && self.io.writable.is_empty() {
                return;
            }
            let mut dirty = mem::take(&mut self.io.dirty);
            for key in dirty.drain(..) {
                if let Some(connection) = self.io.connections.get_mut(key) {
                    connection.is_dirty = false;
                    self.settle(key);
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
    }

    fn connection_ready(&mut self, key: Key, readiness: Readiness) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let is_ended = connection.is_input_ended;
        if readiness.read && !is_ended && connection.wants_input(&self.io.options) {
            self.read(key);
        } else if readiness.closed {
            // There is nobody to answer to.
            return self.io.close(key);
        }
        self.settle(key);
        if readiness.closed
            && let Some(connection) = self.io.connections.get(key)
            && connection.is_input_ended
        {
            self.io.close(key);
        }
    }

    /// Receives what is there. A read that leaves room in the buffer has emptied the socket.
    fn read(&mut self, key: Key) {
        for _ in 0..READ_COUNT_MAX {
            let mut buffer = mem::take(&mut self.io.read_buffer);
            // It is lost when a sink panics.
            buffer.resize(READ_SIZE, 0);
            let is_emptied = self.read_into(key, &mut buffer);
            self.io.read_buffer = buffer;
            let connection = self.io.connections.get_mut(key);
            let wants_input = |connection: &mut Connection| {
                !connection.is_input_ended && connection.wants_input(&self.io.options)
            };
            if is_emptied || !connection.is_some_and(wants_input) {
                return;
            }
        }
    }

    fn read_into(&mut self, key: Key, buffer: &mut [u8]) -> bool {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return true;
        };
        let size = match recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => {
                connection.is_input_ended = true;
                return true;
            }
            Ok((_, size)) => size,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => {
                self.io.close(key);
                return true;
            }
        };
        if connection.state != State::Lingering {
            connection.active_at = self.io.clock.tick();
        }
        self.io.counters.bytes_in += size as u64;
        if connection.sealing.is_some() {
            self.unseal(key, &mut buffer[..size]);
        } else {
            self.take_input(key, &buffer[..size]);
        }
        size < buffer.len()
    }

    /// Takes what came through TLS.
    fn unseal(&mut self, key: Key, bytes: &mut [u8]) {
        let mut plain = self.io.pool.take();
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let Some(sealing) = &mut connection.sealing else {
            return;
        };
        let result = sealing.receive(bytes, &mut plain);
        connection.is_input_ended |= sealing.session.is_end_of_input();
        if result.is_err() {
            // The client is told by an alert; what it said before that is not answered, as
            // somebody else may have said it.
            connection.pending.clear();
            connection.output.clear();
            connection.sent = 0;
            connection.end(true);
        } else if !plain.is_empty() {
            self.take_input(key, &plain);
        }
        self.io.pool.give(plain);
    }

    fn take_input(&mut self, key: Key, bytes: &[u8]) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        if connection.state == State::Lingering {
            return;
        }
        if connection.input.is_empty() {
            let used = self.consume(key, bytes);
            return self.keep_input(key, &bytes[used..]);
        }
        connection.input.extend_from_slice(bytes);
        // Until a line ends, a head that is not whole stays so.
        if connection.receiving.is_some()
            || connection.is_stalled
            || connection.input.len() >= self.io.options.head_size_max
            || memchr::memchr(b'\n', bytes).is_some()
        {
            self.consume_input(key);
        }
    }

    fn keep_input(&mut self, key: Key, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let tick = self.io.clock.tick();
        if let Some(connection) = self.io.connections.get_mut(key) {
            if connection.input.capacity() == 0 {
                connection.input = self.io.pool.take();
            }
            connection.input.extend_from_slice(bytes);
            connection.head_since = tick;
        }
    }

    /// Goes on with what was kept.
    fn consume_input(&mut self, key: Key) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        connection.is_stalled = false;
        let mut input = mem::take(&mut connection.input);
        let used = self.consume(key, &input);
        let tick = self.io.clock.tick();
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        if used == input.len() {
            self.io.pool.give(input);
        } else {
            input.drain(..used);
            connection.input = input;
            if used > 0 {
                connection.head_since = tick;
            }
        }
    }

    /// Sends what is to be sent, and goes on with requests that waited for that.
    fn settle(&mut self, key: Key) {
        while self.io.settle(key) == Settled::HasRoom {
            self.consume_input(key);
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_COUNT_MAX {
            if self.io.connections.len() >= self.io.options.connection_count_max {
                return self.pause_accept();
            }
            let Some(listener) = self.io.listeners.get(index) else {
                return;
            };
            let place = listener.place;
            match listener.accept() {
                Ok((socket, peer)) if listener.is_shared => {
                    self.spread(socket, peer, place);
                }
                Ok((socket, peer)) => self.adopt(socket, peer, place),
                Err(error) => match error
                    .raw_os_error()
                    .map(rustix::io::Errno::from_raw_os_error)
                {
                    Some(rustix::io::Errno::AGAIN) => return,
                    // The client has left the queue again.
                    Some(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                    _ => return self.pause_accept(),
                },
            }
        }
    }

    /// Leaves the listeners alone for a moment; level-triggered, they would be ready all the time.
    fn pause_accept(&mut self) {
        if self.io.listen(false).is_ok() {
            let at = self.io.clock.tick() + ACCEPT_PAUSE_MS;
            self.io.wheel.insert(at, Due::Accept);
        }
    }

    /// Gives a connection to the threads in turn.
    fn spread(&mut self, socket: OwnedFd, peer: Peer, place: usize) {
        let count = self.io.mailboxes.len();
        self.io.turn = (self.io.turn + 1) % count;
        match self.io.turn {
            turn if turn == self.io.index => self.adopt(socket, peer, place),
            turn => self.io.mailboxes[turn].send(Message::Connection(socket, peer, place)),
        }
    }

    fn adopt(&mut self, socket: OwnedFd, peer: Peer, place: usize) {
        self.io.counters.accepted += 1;
        let tls = &self.io.tls[place];
        let origin = Origin {
            peer,
            is_tls: tls.is_some(),
        };
        let tick = self.io.clock.tick();
        let mut connection = Connection::new(socket, origin, tick);
        if let Some(tls) = tls {
            match Session::new(tls) {
                Ok(session) => connection.sealing = Some(Box::new(Sealing::new(session))),
                // The configuration was used before; what is missing now is memory or randomness.
                Err(_) => {
                    self.io.counters.closed += 1;
                    return;
                }
            }
        }
        let key = self.io.connections.insert(connection);
        if self.io.poll_connection(key).is_err() {
            return self.io.close(key);
        }
        self.io.set_deadline(key);
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Connection(socket, peer, place) => self.adopt(socket, peer, place),
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

    /// Accepts no more, and lets go of who has no request here.
    fn drain(&mut self) {
        if mem::replace(&mut self.io.is_draining, true) {
            return;
        }
        // Who is in the queue already was promised a server.
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
            // A request that is on its way is answered.
            self.read(key);
            self.settle(key);
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
                    let keys: Vec<Key> = self.io.connections.keys().collect();
                    for key in keys {
                        self.io.close(key);
                    }
                }
            }
        }
    }

    /// The timer of a connection has run out; its deadline may be later by now.
    fn connection_due(&mut self, key: Key) {
        let tick = self.io.clock.tick();
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        connection.timer = None;
        if connection.deadline > tick {
            return self.io.set_deadline(key);
        }
        let is_blocked = connection.has_output();
        let is_expected = connection.receiving.is_some() || !connection.input.is_empty();
        match connection.state {
            State::Open | State::Ending { .. } if is_blocked => {
                self.io.counters.write_timeouts += 1;
                self.io.close(key);
            }
            State::Open | State::Ending { .. } if is_expected => {
                match connection.receiving.take() {
                    Some(receiving) => self.io.refuse_body(key, *receiving, Refusal(408)),
                    None => self.io.refuse(key, Refusal(408)),
                }
                self.settle(key);
            }
            _ => self.io.close(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::mailbox::Mailbox;
    use crate::{Options, Router, Ticket};

    /// A thread's loop on the thread of the test, which can count what it allocates.
    fn worker() -> (Worker<Router<Vec<Ticket>>>, Batch) {
        let mailboxes = Arc::new([Arc::new(Mailbox::new().unwrap())]);
        let options = Arc::new(Options::default());
        let io = Io::new(0, options, Vec::new(), Arc::new([None]), mailboxes).unwrap();
        let mut router = Router::new(Vec::with_capacity(64));
        router
            .get("/hello", |_, _, reply| reply.text("hello"))
            .get("/sum/{a}/{b}", |_, request, reply| {
                let number = |name| request.param(name).unwrap().parse::<u64>().unwrap();
                let sum = number("a") + number("b");
                reply.send_with("text/plain", |out| write!(out, "{sum}").unwrap());
            })
            .post("/body", |_, request, reply| reply.body(request.body()))
            .get("/later", |parked, _, reply| parked.push(reply.defer()))
            .on_batch_end(|parked, io| {
                for ticket in parked.drain(..) {
                    if let Some(reply) = io.reply(ticket) {
                        reply.text("later");
                    }
                }
            });
        let service = router;
        (Worker { io, service }, Batch::new())
    }

    fn connect(worker: &mut Worker<Router<Vec<Ticket>>>) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        worker.adopt(server.into(), Peer::Unix, 0);
        client
    }

    const REQUESTS: &str = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /sum/13/42 HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n\
        POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n20\
        GET /later HTTP/1.1\r\nHost: h\r\n\r\n\
        GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";

    #[test]
    fn a_request_allocates_nothing_once_it_is_warm() {
        let (mut worker, mut batch) = worker();
        let mut client = connect(&mut worker);
        let mut bytes = vec![0; 4096];
        let mut exchange = |worker: &mut Worker<_>, batch: &mut Batch| {
            client.write_all(REQUESTS.as_bytes()).unwrap();
            worker.turn(batch).unwrap();
            client.read(&mut bytes).unwrap()
        };
        for _ in 0..4 {
            exchange(&mut worker, &mut batch);
        }
        let mut size = 0;
        let counted = allocation_counter::measure(|| {
            for _ in 0..1_000 {
                size = exchange(&mut worker, &mut batch);
            }
        });
        assert_eq!(worker.io.counters.requests, 5 * 1_004);
        assert_eq!(counted.count_total, 0, "{counted:?}");
        assert!(
            bytes[..size].ends_with(b"hello"),
            "all are answered by one send"
        );
    }

    #[test]
    fn a_connection_that_waits_is_small() {
        const COUNT: u64 = 100;
        let (mut worker, mut batch) = worker();
        let mut clients = Vec::new();
        let counted = allocation_counter::measure(|| {
            for _ in 0..COUNT {
                let mut client = connect(&mut worker);
                client.write_all(REQUESTS.as_bytes()).unwrap();
                worker.turn(&mut batch).unwrap();
                client.read_exact(&mut [0; 500]).unwrap();
                clients.push(client);
            }
        });
        let each = counted.bytes_current / COUNT as i64;
        // The table of connections doubles, and the buffers of the thread are in it.
        assert!(each < 3 << 10, "{each} bytes each");
    }
}
