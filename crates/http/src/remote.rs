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

/// The body of a request, as another thread reads it. A read waits for the client, and fails when
/// that has gone or was too slow. One of a [live](crate::Route::live) route that was too slow
/// ([`SlowBody`](crate::SlowBody)) is still answered by who reads it; the connection closes after
/// that. Others are answered with 408 at once.
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
                Taken::Some { .. } => {}
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
