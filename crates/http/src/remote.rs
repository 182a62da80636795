//! Requests whose bodies are read, or that are answered, on other threads.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::{Channel, Feed, Source, Taken};
use crate::mailbox::{Mailbox, Message};
use crate::render::is_header;
use crate::{Response, Ticket};

/// A request that is answered later, from any thread.
///
/// Dropping it unanswered sends 500. If the client has disconnected meanwhile, the answer is
/// discarded.
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

    /// The ticket of the request on its I/O thread.
    pub fn ticket(&self) -> Ticket {
        Ticket::from_u64(self.ticket)
    }

    /// Sends the answer. Several answers in a row wake the I/O thread only once.
    pub fn respond(mut self, response: Response) {
        self.is_done = true;
        self.mailbox.send(Message::Respond(self.ticket, response));
    }

    /// Sends the head of an answer, and returns a writer for its body. The body of `response` is
    /// ignored.
    pub fn stream(mut self, response: Response) -> BodyWriter {
        self.is_done = true;
        let channel = Arc::new(Channel::default());
        let source = Source::new(Arc::clone(&channel));
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

/// Writes the body of an answer from another thread. Each write may become a separate chunk, so use
/// a `BufWriter` for small ones.
///
/// A write blocks while the client is slow, and fails if it has disconnected. Dropping the writer
/// before [`finish`](Self::finish) aborts the connection, so that the client notices that the body
/// is incomplete.
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
    /// A field with a line feed in it, or one about the framing, is an error and aborts the
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
        self.channel.end(trailers);
        self.mailbox.send(Message::Written(self.ticket));
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let (size, is_news) = self.channel.write(bytes)?;
        if is_news {
            self.mailbox.send(Message::Written(self.ticket));
        }
        Ok(size)
    }

    /// Written bytes are passed on at once.
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

/// Reads the body of a request on another thread. A read blocks until bytes arrive, and fails if
/// the client has disconnected or was too slow. If the body of a [live](crate::Route::live) route
/// was too slow ([`SlowBody`](crate::SlowBody)), the reading thread still answers the request; the
/// connection closes after that. Others get 408 at once.
#[derive(Debug)]
pub struct BodyReader {
    channel: Arc<Channel>,
    mailbox: Arc<Mailbox>,
    ticket: u64,
    /// Bytes taken from the channel; the first `read_size` of them have been read.
    taken: Vec<u8>,
    read_size: usize,
}

impl BodyReader {
    pub(crate) fn new(mailbox: Arc<Mailbox>, ticket: u64) -> (Self, Feed) {
        let channel = Arc::new(Channel::default());
        let feed = Feed::new(Arc::clone(&channel));
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

impl BodyReader {
    /// Like [`read`](Read::read), but waits at most `timeout` for the first byte; `None` if none
    /// arrived in time.
    ///
    /// # Errors
    ///
    /// When the client has disconnected or was too slow.
    pub fn read_within(&mut self, out: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        if out.is_empty() {
            return Ok(Some(0));
        }
        if self.read_size == self.taken.len() {
            // A deadline that overflows the clock is no deadline.
            match self.take(Instant::now().checked_add(timeout))? {
                Taken::Some { .. } => {}
                Taken::End => return Ok(Some(0)),
                Taken::Nothing => return Ok(None),
            }
        }
        Ok(Some(self.copy(out)))
    }

    /// Copies bytes that were taken.
    fn copy(&mut self, out: &mut [u8]) -> usize {
        let rest = &self.taken[self.read_size..];
        let size = out.len().min(rest.len());
        out[..size].copy_from_slice(&rest[..size]);
        self.read_size += size;
        size
    }

    /// Waits for bytes, with an optional deadline, and takes them.
    fn take(&mut self, until: Option<Instant>) -> io::Result<Taken> {
        self.taken.clear();
        self.read_size = 0;
        let taken = self.channel.take(&mut self.taken, until)?;
        if let Taken::Some {
            is_room_wanted: true,
        } = taken
        {
            self.mailbox.send(Message::Resume(self.ticket));
        }
        Ok(taken)
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.channel.close();
        // The connection may have stopped for lack of room.
        self.mailbox.send(Message::Resume(self.ticket));
    }
}
