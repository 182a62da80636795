//! The reply to a request, written directly into the output buffer.

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

/// The reply to one request.
///
/// Status and headers come first, then one of the methods that end the reply. Everything is written
/// directly into the connection's output. If the handler drops a reply without ending it, writes a
/// header with a line feed or one about the framing, or sets the status after a header, the client
/// gets a 500, and the connection closes.
pub struct Reply<'a> {
    pub(super) io: &'a mut Io,
    pub(super) key: Key,
    pub(super) target: ReplyTarget,
    pub(super) draft: Draft,
    is_done: bool,
}

/// A part of a file up to this size is copied, so that it is sent together with its head: one
/// system call less, and full packets.
pub(crate) const FILE_COPY_SIZE_MAX: u64 = 32 << 10;

/// Where the bytes of a reply are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyTarget {
    /// In the output, after the previous reply.
    Direct,
    /// Queued after incomplete replies.
    Queued,
    /// With a deferred request; the bytes of the first one are in the output.
    Ticket { sequence: u64, is_first: bool },
}

impl<'a> Reply<'a> {
    /// Creates the reply to the current request.
    pub(crate) fn of_call(io: &'a mut Io, key: Key, framing: ResponseFraming) -> Self {
        let connection = io
            .connections
            .get_mut(key)
            .expect("the connection of a call is open");
        let (target, out) = match connection.pending.is_empty() {
            true => (ReplyTarget::Direct, mem::take(&mut connection.output)),
            false => (ReplyTarget::Queued, Vec::new()),
        };
        Self::begin(io, key, target, out, framing, true)
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
        let target = ReplyTarget::Ticket {
            sequence: ticket.sequence(),
            is_first: position == 0,
        };
        // Later requests have been called already, and their replies are still sent.
        let is_last = position + 1 == connection.pending.len();
        Some(Self::begin(io, key, target, out, framing, is_last))
    }

    fn begin(
        io: &'a mut Io,
        key: Key,
        target: ReplyTarget,
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
            target,
            draft: Draft::new(out, framing),
            is_done: false,
        }
    }

    /// Sets the status, 200 by default. It must be set before the headers.
    pub fn status(mut self, status: u16) -> Self {
        self.draft.status(status);
        self
    }

    /// Adds a header. `Date`, `Content-Length`, `Transfer-Encoding` and `Connection` are written by
    /// the server; writing one of the last three is an error, which turns the reply into a 500.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.draft
            .header(self.io.clock.stamp(), name, value.as_ref());
        self
    }

    /// Adds a header with a number.
    pub fn header_number(mut self, name: &str, value: u64) -> Self {
        self.draft.header_number(self.io.clock.stamp(), name, value);
        self
    }

    /// Closes the connection after this reply.
    pub fn close(mut self) -> Self {
        self.draft.framing.close = true;
        self
    }

    /// Ends the reply with a body of a content type.
    pub fn send(mut self, content_type: &str, body: &[u8]) {
        let stamp = self.io.clock.stamp();
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body(stamp, body);
        self.finish();
    }

    /// Ends the reply with a plain text.
    pub fn text(self, body: &str) {
        self.send("text/plain; charset=utf-8", body.as_bytes());
    }

    /// Ends the reply with a body that is serialized JSON.
    pub fn json(self, body: &[u8]) {
        self.send("application/json", body);
    }

    /// Ends the reply with a body, without a `Content-Type`.
    pub fn body(mut self, body: &[u8]) {
        self.draft.body(self.io.clock.stamp(), body);
        self.finish();
    }

    /// Ends the reply with a body of a content type, which `write` appends directly to the output;
    /// its length is filled in.
    pub fn send_with(mut self, content_type: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let stamp = self.io.clock.stamp();
        self.draft.content_type(stamp, content_type.as_bytes());
        self.draft.body_with(stamp, write);
        self.finish();
    }

    /// Ends the reply with a body, which `write` appends directly to the output; its length is
    /// filled in.
    pub fn body_with(mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.draft.body_with(self.io.clock.stamp(), write);
        self.finish();
    }

    /// Ends the reply with an empty body.
    pub fn empty(self) {
        self.body(&[]);
    }

    /// Ends the reply with a status, and its name as `application/problem+json` (RFC 9457).
    pub fn refuse(self, status: u16) {
        self.problem(status, problem(status));
    }

    /// Ends the reply with a refusal by the server itself.
    pub(crate) fn refuse_request(self, refusal: Refusal) {
        self.problem(refusal.0, refusal_problem(refusal));
    }

    /// Ends the reply with a rendered problem.
    pub(crate) fn problem(mut self, status: u16, problem: &str) {
        self.draft.problem(self.io.clock.stamp(), status, problem);
        self.finish();
    }

    /// Whether the request is a HEAD, so that only the length of a body is sent.
    pub fn is_head(&self) -> bool {
        self.draft.framing.is_head
    }

    /// The I/O thread: timers, descriptors, other replies.
    pub fn io(&mut self) -> &mut Io {
        self.io
    }

    /// The time of the current batch, see [`Io::now`].
    pub fn now(&self) -> Instant {
        self.io.now()
    }

    /// Defers the reply, to be answered by [`Io::reply`] on this thread. Status and headers so far
    /// are dropped. Later requests of the connection may be answered meanwhile; their replies wait
    /// for this one.
    pub fn defer(mut self) -> Ticket {
        let out = self.draft.take_back();
        self.queue(Answer::Waiting, out)
    }

    /// Defers the reply until [`Service::timer`](crate::Service::timer) is called, whose token is
    /// the ticket.
    pub fn defer_until(mut self, at: Instant) -> (Ticket, Timer) {
        let out = self.draft.take_back();
        let ticket = self.queue(Answer::Waiting, out);
        (ticket, self.io.timer(at, ticket.into()))
    }

    /// Begins a body that is written in pieces by [`Io::stream`] on this thread.
    pub fn stream(self, content_type: &str) -> Ticket {
        self.header("Content-Type", content_type).stream_body()
    }

    /// As [`stream`](Self::stream), without a `Content-Type`.
    pub fn stream_body(self) -> Ticket {
        self.stream_by(None)
    }

    /// Begins a body that another thread writes. The body of `response` is ignored.
    pub(crate) fn stream_from(mut self, response: &Response, source: Source) {
        self.begin_response(response);
        self.stream_by(Some(source));
    }

    fn stream_by(mut self, source: Option<Source>) -> Ticket {
        let Some(pieces) = self.draft.stream(self.io.clock.stamp()) else {
            // The reply has become an error, so its ticket refers to no request.
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

    /// Ends the reply with a part of a file, which is read as the client receives it. If the file
    /// becomes shorter meanwhile, the connection is aborted, since the length has been sent.
    pub fn file(self, file: Arc<File>, range: Range<u64>) {
        if let Err(mut reply) = self.try_file(file, range) {
            // The same as for a longer file. The replies before it are sent.
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

    /// As [`file`](Self::file), but returns the reply, without status and headers, if the file
    /// turns out to be shorter before anything of it is sent.
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

    /// Ends the reply with a [`Response`].
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

    /// Defers the reply, to be answered from any thread.
    pub fn defer_remote(self) -> Deferred {
        let mailbox = Arc::clone(&self.io.mailbox);
        Deferred::new(mailbox, self.defer())
    }

    /// Queues the request among those with incomplete replies.
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
        if self.target != ReplyTarget::Direct {
            let size = out.len();
            self.store(Answer::Done, out);
            // The end of the batch sends it, and it is in memory until then.
            match self.target {
                ReplyTarget::Queued => self.io.add_unsent(self.key, size),
                ReplyTarget::Direct | ReplyTarget::Ticket { .. } => self.io.count_unsent(self.key),
            }
        } else if let Some(connection) = self.io.connections.get_mut(self.key) {
            connection.output = out;
            if framing.close {
                connection.end_after_reply();
            }
        }
    }

    /// Stores the bytes in their place, and records the progress of the reply.
    fn store(&mut self, progress: Answer, out: Vec<u8>) -> Ticket {
        let framing = self.draft.framing;
        let Self {
            io, key, target, ..
        } = self;
        let sequence = match *target {
            ReplyTarget::Ticket { sequence, .. } => sequence,
            ReplyTarget::Direct | ReplyTarget::Queued => io.next_sequence(),
        };
        let ticket = Ticket::new(*key, sequence);
        // A handler may have closed the connection while it held the reply.
        let Some(connection) = io.connections.get_mut(*key) else {
            io.pool.give(out);
            return ticket;
        };
        let mut bytes = out;
        if let ReplyTarget::Direct | ReplyTarget::Ticket { is_first: true, .. } = target {
            connection.output = mem::take(&mut bytes);
        }
        match *target {
            // An earlier reply closes the connection.
            ReplyTarget::Queued if connection.says_close => io.pool.give(bytes),
            ReplyTarget::Direct | ReplyTarget::Queued => {
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
            ReplyTarget::Ticket { .. } => {
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
    /// Returns the reply to a deferred request. `None` if the client has disconnected, or the
    /// request has been answered.
    pub fn reply(&mut self, ticket: Ticket) -> Option<Reply<'_>> {
        Reply::of_ticket(self, ticket)
    }
}
