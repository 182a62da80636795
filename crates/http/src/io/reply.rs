//! The answer to a request, written straight into what is sent.

use std::fs::File;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use crate::channel::Source;
use crate::connection::{Answer, Pending};
use crate::parse::Refusal;
use crate::render::{Draft, ResponseFraming};
use crate::slab::Key;
use crate::status::{problem, refusal_problem};
use crate::{Deferred, Io, Response, Ticket, Timer};

/// The answer to one request.
///
/// Status and headers come first, then one of the methods that end it. Nothing is copied twice:
/// what is written lies in the connection's output. A reply that is dropped without an end, a
/// header with a line feed or about the framing, or a status after a header are mistakes of the
/// handler and become a 500 that closes the connection.
pub struct Reply<'a> {
    pub(super) io: &'a mut Io,
    pub(super) key: Key,
    pub(super) place: Place,
    pub(super) draft: Draft,
    is_done: bool,
}

/// A part of a file that is no larger is copied, so that it goes out together with its head: one
/// system call less, and packets that are full.
pub(crate) const FILE_COPY_SIZE_MAX: u64 = 32 << 10;

/// Where the bytes of a reply belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind those of the reply before, which are in the output.
    Direct,
    /// Behind replies that are not whole.
    Queued,
    /// To a request that was put off; the bytes of the first one are in the output.
    Ticket { sequence: u64, is_first: bool },
}

impl<'a> Reply<'a> {
    /// The reply to the request that is being called.
    pub(crate) fn of_call(io: &'a mut Io, key: Key, framing: ResponseFraming) -> Self {
        let connection = io
            .connections
            .get_mut(key)
            .expect("the connection of a call is open");
        let (place, out) = match connection.pending.is_empty() {
            true => (Place::Direct, mem::take(&mut connection.output)),
            false => (Place::Queued, Vec::new()),
        };
        Self::begin(io, key, place, out, framing, true)
    }

    fn of_ticket(io: &'a mut Io, ticket: Ticket) -> Option<Self> {
        let key = io.connections.key_at(ticket.index())?;
        let connection = io.connections.get_mut(key)?;
        let position = connection.position(ticket.sequence())?;
        let pending = &mut connection.pending[position];
        if !matches!(pending.progress, Answer::Waiting) {
            return None;
        }
        let framing = pending.framing;
        let out = match position {
            0 => mem::take(&mut connection.output),
            _ => mem::take(&mut pending.bytes),
        };
        let place = Place::Ticket {
            sequence: ticket.sequence(),
            is_first: position == 0,
        };
        // Requests behind it were called already, and their replies are worth something.
        let is_last = position + 1 == connection.pending.len();
        Some(Self::begin(io, key, place, out, framing, is_last))
    }

    fn begin(
        io: &'a mut Io,
        key: Key,
        place: Place,
        mut out: Vec<u8>,
        mut framing: ResponseFraming,
        is_last: bool,
    ) -> Self {
        if out.capacity() == 0 {
            out = io.pool.take();
        }
        framing.close |= io.is_draining && is_last;
        Self {
            io,
            key,
            place,
            draft: Draft::new(out, framing),
            is_done: false,
        }
    }

    /// The status, 200 if it is not said. It comes before the headers.
    pub fn status(mut self, status: u16) -> Self {
        self.draft.status(status);
        self
    }

    /// A header. `Date`, `Content-Length`, `Transfer-Encoding` and `Connection` are written by the
    /// server; a handler that writes one of the last three has made a mistake.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.draft
            .header(self.io.clock.stamp(), name, value.as_ref());
        self
    }

    /// A header with a number.
    pub fn header_number(mut self, name: &str, value: u64) -> Self {
        self.draft.header_number(self.io.clock.stamp(), name, value);
        self
    }

    /// Closes the connection after this reply.
    pub fn close(mut self) -> Self {
        self.draft.framing.close = true;
        self
    }

    /// Ends it with a body of a type.
    pub fn send(mut self, content_type: &str, body: &[u8]) {
        let stamp = self.io.clock.stamp();
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body(stamp, body);
        self.finish();
    }

    /// Ends it with a text.
    pub fn text(self, body: &str) {
        self.send("text/plain; charset=utf-8", body.as_bytes());
    }

    /// Ends it with a body that is JSON already.
    pub fn json(self, body: &[u8]) {
        self.send("application/json", body);
    }

    /// Ends it with a body.
    pub fn body(mut self, body: &[u8]) {
        self.draft.body(self.io.clock.stamp(), body);
        self.finish();
    }

    /// Ends it with a body of a type, which is appended to what is sent; its length is filled in.
    pub fn send_with(mut self, content_type: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let stamp = self.io.clock.stamp();
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body_with(stamp, write);
        self.finish();
    }

    /// Ends it with a body, which is appended to what is sent; its length is filled in.
    pub fn body_with(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.draft.body_with(self.io.clock.stamp(), write);
        self.finish();
    }

    /// Ends it without a body.
    pub fn empty(self) {
        self.body(&[]);
    }

    /// Ends it with a status and, as `application/problem+json` (RFC 9457), its name.
    pub fn refuse(self, status: u16) {
        self.problem(status, problem(status));
    }

    /// Ends it with why the server itself does not answer.
    pub(crate) fn refuse_request(self, refusal: Refusal) {
        self.problem(refusal.0, refusal_problem(refusal));
    }

    /// Ends it with a problem that is rendered.
    pub(crate) fn problem(mut self, status: u16, problem: &str) {
        self.draft.problem(self.io.clock.stamp(), status, problem);
        self.finish();
    }

    /// Whether the request was a HEAD, so that a body would only be measured.
    pub fn is_head(&self) -> bool {
        self.draft.framing.is_head
    }

    /// The thread: timers, descriptors, other replies.
    pub fn io(&mut self) -> &mut Io {
        self.io
    }

    /// The time of the batch.
    pub fn now(&self) -> Instant {
        self.io.now()
    }

    /// Answers later, by [`Io::reply`] on this thread. Status and headers so far are dropped. Later
    /// requests of the connection may be answered meanwhile; their replies wait for this one.
    pub fn defer(mut self) -> Ticket {
        let out = self.draft.take_back();
        self.queue(Answer::Waiting, out)
    }

    /// Answers later, when [`Service::timer`](crate::Service::timer) is called: its token is the
    /// ticket.
    pub fn defer_until(mut self, at: Instant) -> (Ticket, Timer) {
        let out = self.draft.take_back();
        let ticket = self.queue(Answer::Waiting, out);
        (ticket, self.io.timer(at, ticket.into()))
    }

    /// Begins a body that is written in pieces, by [`Io::stream`] on this thread.
    pub fn stream(self, content_type: &str) -> Ticket {
        self.header("Content-Type", content_type).stream_body()
    }

    /// As [`stream`](Self::stream), without a `Content-Type`.
    pub fn stream_body(self) -> Ticket {
        self.stream_by(None)
    }

    /// Begins a body that another thread writes. That of the response is left out.
    pub(crate) fn stream_from(mut self, response: &Response, source: Source) {
        self.begin_response(response);
        self.stream_by(Some(source));
    }

    fn stream_by(mut self, source: Option<Source>) -> Ticket {
        let Some(pieces) = self.draft.stream(self.io.clock.stamp()) else {
            // It has become a reply of another kind, and its ticket names nobody.
            self.finish();
            return Ticket::new(self.key, self.io.next_sequence());
        };
        self.io.counters.reply(self.draft.sent_status());
        let out = mem::take(&mut self.draft.out);
        let progress = Answer::Streaming {
            pieces,
            is_full: false,
            source,
        };
        self.queue(progress, out)
    }

    /// Ends it with a part of a file, which is read when the client takes it. A file that has
    /// become shorter meanwhile breaks the connection, as the length was told.
    pub fn file(self, file: Arc<File>, range: Range<u64>) {
        if let Err(mut reply) = self.try_file(file, range) {
            // As it would be with a longer one. The replies before it go out.
            let out = reply.draft.take_back();
            reply.queue(Answer::Cut, out);
        }
    }

    /// The same without status and headers.
    pub(crate) fn without_head(mut self) -> Self {
        let out = self.draft.take_back();
        self.draft = Draft::new(out, self.draft.framing);
        self
    }

    /// As [`file`](Self::file), but gives the reply back, without status and headers, when the file
    /// turns out to be shorter before anything is sent of it.
    pub(crate) fn try_file(mut self, file: Arc<File>, range: Range<u64>) -> Result<(), Self> {
        let Range { start: at, end } = range;
        let size = end.saturating_sub(at);
        let close = self.draft.framing.close;
        if !self.draft.head_only(self.io.clock.stamp(), size) {
            self.finish();
            return Ok(());
        }
        if size <= FILE_COPY_SIZE_MAX {
            let start = self.draft.out.len();
            self.draft.out.resize(start + size as usize, 0);
            if file
                .read_exact_at(&mut self.draft.out[start..], at)
                .is_err()
            {
                self.draft.framing.close = close;
                return Err(self.without_head());
            }
            self.finish();
            return Ok(());
        }
        self.io.counters.reply(self.draft.sent_status());
        let out = mem::take(&mut self.draft.out);
        self.queue(Answer::File { file, at, end }, out);
        Ok(())
    }

    /// Ends it with a reply that was made elsewhere.
    pub fn respond(mut self, response: Response) {
        self.begin_response(&response);
        self.draft
            .body(self.io.clock.stamp(), response.body_bytes());
        self.finish();
    }

    fn begin_response(&mut self, response: &Response) {
        let lines = response.lines();
        self.draft
            .prepared(self.io.clock.stamp(), response.status(), lines);
    }

    /// Answers later, from any thread.
    pub fn defer_remote(self) -> Deferred {
        let mailbox = Arc::clone(&self.io.mailbox);
        Deferred::new(mailbox, self.defer())
    }

    /// Puts the request among those whose replies are not whole.
    pub(super) fn queue(&mut self, progress: Answer, out: Vec<u8>) -> Ticket {
        self.is_done = true;
        self.store(progress, out)
    }

    fn finish(&mut self) {
        self.is_done = true;
        self.io.counters.reply(self.draft.sent_status());
        let out = mem::take(&mut self.draft.out);
        let framing = self.draft.framing;
        if self.draft.is_lost {
            return self.io.break_off(self.key);
        }
        if self.place != Place::Direct {
            let size = out.len();
            self.store(Answer::Done, out);
            // The end of the batch sends it, and it is in memory until then.
            match self.place {
                Place::Queued => self.io.add_unsent(self.key, size),
                Place::Direct | Place::Ticket { .. } => self.io.count_unsent(self.key),
            }
        } else if let Some(connection) = self.io.connections.get_mut(self.key) {
            connection.output = out;
            if framing.close {
                connection.end_after_reply();
            }
        }
    }

    /// Puts the bytes back to where they belong, and notes how far the reply is.
    fn store(&mut self, progress: Answer, out: Vec<u8>) -> Ticket {
        let framing = self.draft.framing;
        let Self { io, key, place, .. } = self;
        let sequence = match *place {
            Place::Ticket { sequence, .. } => sequence,
            Place::Direct | Place::Queued => io.next_sequence(),
        };
        let ticket = Ticket::new(*key, sequence);
        // A handler may have broken the connection off while it held the reply.
        let Some(connection) = io.connections.get_mut(*key) else {
            io.pool.give(out);
            return ticket;
        };
        let mut bytes = out;
        if let Place::Direct | Place::Ticket { is_first: true, .. } = place {
            connection.output = mem::take(&mut bytes);
        }
        match *place {
            // It has answered what came before with a reply that closes the connection.
            Place::Queued if connection.says_close => io.pool.give(bytes),
            Place::Direct | Place::Queued => {
                connection.pending.push_back(Pending {
                    sequence,
                    framing,
                    progress,
                    bytes,
                });
                if framing.close {
                    connection.end_before_reply();
                }
            }
            Place::Ticket { .. } => {
                if let Some(position) = connection.position(sequence) {
                    let pending = &mut connection.pending[position];
                    (pending.progress, pending.framing) = (progress, framing);
                    if !bytes.is_empty() {
                        pending.bytes = bytes;
                    }
                    if framing.close {
                        connection.end_before_reply();
                    }
                }
                io.mark(*key);
            }
        }
        io.advance(*key);
        ticket
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.draft.fail(self.io.clock.stamp());
            self.finish();
        }
    }
}

impl Io {
    /// The reply to a request that was put off. `None` when the client has gone, or the request is
    /// answered already.
    pub fn reply(&mut self, ticket: Ticket) -> Option<Reply<'_>> {
        Reply::of_ticket(self, ticket)
    }
}
