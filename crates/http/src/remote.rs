//! Requests whose bodies are read, or that are answered, on other threads.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::mailbox::{Mailbox, Message};
use crate::render::is_header;
use crate::{Response, Ticket};

/// Bytes that lie between two threads at most, in either direction; then the faster one waits.
/// Large enough that threads change seldom, small enough for hundreds of uploads.
const CHANNEL_SIZE_MAX: usize = 256 << 10;

/// A request that is answered later, from any thread.
///
/// Dropping it unanswered answers 500. When the client has gone meanwhile, the answer is thrown
/// away.
#[derive(Debug)]
pub struct Deferred {
    mailbox: Arc<Mailbox>,
    ticket: u64,
    is_done: bool,
}

impl Deferred {
    pub(crate) fn new(mailbox: Arc<Mailbox>, ticket: Ticket) -> Self {
        Self {
            mailbox,
            ticket: ticket.into(),
            is_done: false,
        }
    }

    /// The name of the request on its I/O thread.
    pub fn ticket(&self) -> Ticket {
        Ticket::from_u64(self.ticket)
    }

    /// Answers. Many answers in a row wake the I/O thread once.
    pub fn respond(mut self, response: Response) {
        self.is_done = true;
        self.mailbox.send(Message::Respond(self.ticket, response));
    }

    /// Sends the head of an answer, and gives the way to write its body. The body of the response
    /// is left out.
    pub fn stream(mut self, response: Response) -> BodyWriter {
        self.is_done = true;
        let channel = Arc::new(Channel::default());
        let source = Source {
            channel: Arc::clone(&channel),
        };
        self.mailbox
            .send(Message::Stream(self.ticket, response, source));
        BodyWriter {
            channel,
            mailbox: Arc::clone(&self.mailbox),
            ticket: self.ticket,
            is_done: false,
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if !self.is_done {
            self.mailbox
                .send(Message::Respond(self.ticket, Response::new(500)));
        }
    }
}

/// Bytes on their way from one thread to another.
#[derive(Debug, Default)]
struct Channel {
    flow: Mutex<Flow>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Flow {
    bytes: Vec<u8>,
    /// Header lines that are sent after the body; empty until it has ended.
    trailers: Vec<u8>,
    /// Nothing follows, and that is how it should be.
    is_ended: bool,
    /// The other side is gone.
    is_broken: bool,
    /// Why it is, if that is a body that came too slowly.
    slow: Option<SlowBody>,
    /// The I/O thread was told that there is something, and has not looked since; or it stopped
    /// for lack of room and wants to be told.
    is_told: bool,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        // Nothing can panic while it is held but an allocation.
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, flow: MutexGuard<'a, Flow>) -> MutexGuard<'a, Flow> {
        self.moved
            .wait(flow)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_within<'a>(
        &self,
        flow: MutexGuard<'a, Flow>,
        patience: Duration,
    ) -> MutexGuard<'a, Flow> {
        let waited = self.moved.wait_timeout(flow, patience);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn break_off(&self) {
        self.lock().is_broken = true;
        self.moved.notify_all();
    }
}

/// The body of an answer, as another thread writes it. Each write may become a chunk of its own,
/// so small ones belong into a `BufWriter`.
///
/// A write waits while the client is slow, and fails when it has gone. Dropping it before
/// [`finish`](Self::finish) breaks the connection, so that the client sees that something is
/// missing.
#[derive(Debug)]
pub struct BodyWriter {
    channel: Arc<Channel>,
    mailbox: Arc<Mailbox>,
    ticket: u64,
    is_done: bool,
}

impl BodyWriter {
    /// Ends the body.
    pub fn finish(self) {
        self.end(Vec::new());
    }

    /// Ends the body and sends these trailer fields after it (RFC 9110, section 6.5). The response
    /// should name them in its header `Trailer`. A client of HTTP/1.0 gets none.
    ///
    /// A field with a line feed in it, or one about the framing, is a mistake and breaks the
    /// connection.
    pub fn finish_with_trailers<'f>(self, fields: impl IntoIterator<Item = (&'f str, &'f str)>) {
        let mut lines = Vec::new();
        for (name, value) in fields {
            if !is_header(name, value.as_bytes()) {
                return;
            }
            for part in [name, ": ", value, "\r\n"] {
                lines.extend_from_slice(part.as_bytes());
            }
        }
        self.end(lines);
    }

    fn end(mut self, trailers: Vec<u8>) {
        self.is_done = true;
        let mut flow = self.channel.lock();
        flow.trailers = trailers;
        flow.is_ended = true;
        drop(flow);
        self.mailbox.send(Message::Written(self.ticket));
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut flow = self.channel.lock();
        while flow.bytes.len() >= CHANNEL_SIZE_MAX && !flow.is_broken {
            flow = self.channel.wait(flow);
        }
        if flow.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let size = bytes.len().min(CHANNEL_SIZE_MAX - flow.bytes.len());
        flow.bytes.extend_from_slice(&bytes[..size]);
        let was_told = mem::replace(&mut flow.is_told, true);
        drop(flow);
        if !was_told {
            self.mailbox.send(Message::Written(self.ticket));
        }
        Ok(size)
    }

    /// What was written is on its way already.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.is_done {
            self.channel.break_off();
            self.mailbox.send(Message::Written(self.ticket));
        }
    }
}

/// The I/O thread's end of a [`BodyWriter`].
#[derive(Debug)]
pub(crate) struct Source {
    channel: Arc<Channel>,
}

/// What a [`Source`] has.
pub(crate) enum Pulled {
    /// It may have more later.
    Some,
    End {
        /// Header lines that are sent after the body.
        trailers: Vec<u8>,
    },
    /// The writer gave up.
    Broken,
}

impl Source {
    /// Moves what was written to the end of `out`.
    pub(crate) fn pull(&self, out: &mut Vec<u8>) -> Pulled {
        let mut flow = self.channel.lock();
        flow.is_told = false;
        out.extend_from_slice(&flow.bytes);
        flow.bytes.clear();
        let pulled = match (flow.is_ended, flow.is_broken) {
            (true, _) => Pulled::End {
                trailers: mem::take(&mut flow.trailers),
            },
            (false, true) => Pulled::Broken,
            (false, false) => Pulled::Some,
        };
        drop(flow);
        self.channel.moved.notify_all();
        pulled
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.channel.break_off();
    }
}

/// Why the body of a [live](crate::Route::live) route was given up: the error within the
/// [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut) that its reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowBody {
    /// Nothing of it came for so long, [`Options::stream_idle_timeout`](crate::Options::stream_idle_timeout).
    Idle(Duration),
    /// It came with fewer bytes a second than
    /// [`Options::stream_rate_min`](crate::Options::stream_rate_min), which is this.
    Rate(u64),
}

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle(timeout) => {
                write!(f, "nothing of the body came for {} ms", timeout.as_millis())
            }
            Self::Rate(rate_min) => {
                write!(f, "the body came with fewer than {rate_min} bytes a second")
            }
        }
    }
}

impl std::error::Error for SlowBody {}

/// The body of a request, as another thread reads it. A read waits for the client, and fails when
/// that has gone or was too slow. One of a [live](crate::Route::live) route that was too slow
/// ([`SlowBody`]) is still answered by who reads it; the connection closes after that. Others are
/// answered with 408 at once.
#[derive(Debug)]
pub struct BodyReader {
    channel: Arc<Channel>,
    mailbox: Arc<Mailbox>,
    ticket: u64,
    /// What was taken from the channel; the first bytes of it are read.
    taken: Vec<u8>,
    read_size: usize,
}

impl BodyReader {
    pub(crate) fn new(mailbox: Arc<Mailbox>, ticket: u64) -> (Self, Feed) {
        let channel = Arc::new(Channel::default());
        let feed = Feed {
            channel: Arc::clone(&channel),
        };
        let reader = Self {
            channel,
            mailbox,
            ticket,
            taken: Vec::new(),
            read_size: 0,
        };
        (reader, feed)
    }
}

impl Read for BodyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.read_size == self.taken.len() && self.take(None)? == Taken::End {
            return Ok(0);
        }
        Ok(self.copy(out))
    }
}

/// What came of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Some,
    End,
    /// Nothing in time.
    Nothing,
}

impl BodyReader {
    /// As [`read`](Read::read), but waits no longer than that for the first byte; `None` when none
    /// came in time.
    ///
    /// # Errors
    ///
    /// When the client has gone or was too slow.
    pub fn read_within(&mut self, out: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        if out.is_empty() {
            return Ok(Some(0));
        }
        if self.read_size == self.taken.len() {
            // A moment that no clock will ever show is none.
            match self.take(Instant::now().checked_add(patience))? {
                Taken::Some => {}
                Taken::End => return Ok(Some(0)),
                Taken::Nothing => return Ok(None),
            }
        }
        Ok(Some(self.copy(out)))
    }

    /// Copies what was taken.
    fn copy(&mut self, out: &mut [u8]) -> usize {
        let rest = &self.taken[self.read_size..];
        let size = out.len().min(rest.len());
        out[..size].copy_from_slice(&rest[..size]);
        self.read_size += size;
        size
    }

    /// Waits for bytes, until a moment if there is one, and takes them.
    fn take(&mut self, until: Option<Instant>) -> io::Result<Taken> {
        self.taken.clear();
        self.read_size = 0;
        let mut flow = self.channel.lock();
        while flow.bytes.is_empty() {
            if flow.is_ended {
                return Ok(Taken::End);
            }
            if flow.is_broken {
                return Err(match flow.slow {
                    Some(slow) => io::Error::new(io::ErrorKind::TimedOut, slow),
                    None => io::ErrorKind::ConnectionAborted.into(),
                });
            }
            flow = match until {
                None => self.channel.wait(flow),
                Some(until) => {
                    let patience = until.saturating_duration_since(Instant::now());
                    if patience.is_zero() {
                        return Ok(Taken::Nothing);
                    }
                    self.channel.wait_within(flow, patience)
                }
            };
        }
        mem::swap(&mut flow.bytes, &mut self.taken);
        let is_wanted = mem::take(&mut flow.is_told);
        drop(flow);
        if is_wanted {
            self.mailbox.send(Message::Resume(self.ticket));
        }
        Ok(Taken::Some)
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.channel.lock().is_broken = true;
        // The connection may have stopped for lack of room.
        self.mailbox.send(Message::Resume(self.ticket));
    }
}

/// The I/O thread's end of a [`BodyReader`].
#[derive(Debug)]
pub(crate) struct Feed {
    channel: Arc<Channel>,
}

/// What became of a piece that was given to a [`Feed`].
pub(crate) enum Pushed {
    HasRoom,
    /// It was taken; for the next one there is no room.
    Full,
    /// Nobody reads the body any more.
    Unwanted,
}

impl Feed {
    /// Takes a piece of the body.
    pub(crate) fn push(&self, bytes: &[u8]) -> Pushed {
        let mut flow = self.channel.lock();
        if flow.is_broken {
            return Pushed::Unwanted;
        }
        flow.bytes.extend_from_slice(bytes);
        flow.is_told = flow.bytes.len() >= CHANNEL_SIZE_MAX;
        let pushed = match flow.is_told {
            true => Pushed::Full,
            false => Pushed::HasRoom,
        };
        drop(flow);
        self.channel.moved.notify_all();
        pushed
    }

    /// The rest of the body came too slowly, and is not waited for.
    pub(crate) fn give_up(self, slow: SlowBody) {
        self.channel.lock().slow = Some(slow);
    }

    /// The body is whole.
    pub(crate) fn end(self) {
        self.channel.lock().is_ended = true;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.channel.break_off();
    }
}
