//! Replies whose bodies are written in pieces.

use std::time::Duration;

use rustix::net::sockopt;

use super::Connection;
use crate::channel::Pulled;
use crate::connection::Answer;
use crate::render::Pieces;
use crate::slab::Key;
use crate::{Io, Ticket};

/// The body of a reply that is written in pieces.
pub struct BodyStream<'a> {
    io: &'a mut Io,
    key: Key,
    position: usize,
    pieces: Pieces,
    /// How much is good of what is written, while somebody appends a piece or after it was none.
    written_from: Option<usize>,
}

impl<'a> BodyStream<'a> {
    fn of_ticket(io: &'a mut Io, ticket: Ticket) -> Option<Self> {
        let key = io.connections.key_at(ticket.index())?;
        let connection = io.connections.get_mut(key)?;
        let position = connection.position(ticket.sequence())?;
        let Answer::Streaming { pieces, .. } = connection.pending[position].progress else {
            return None;
        };
        Some(Self {
            io,
            key,
            position,
            pieces,
            written_from: None,
        })
    }

    /// Writes a piece. It is taken whether there is room or not, so ask [`is_full`](Self::is_full).
    pub fn write(&mut self, piece: &[u8]) {
        self.write_with(|out| out.extend_from_slice(piece));
    }

    /// Lets a piece be appended to what is sent.
    pub fn write_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let pieces = self.pieces;
        if self.out().capacity() == 0 {
            *self.out() = self.io.pool.take();
        }
        let size = self.out().len();
        self.written_from = Some(size);
        // In its place, so that a panic does not take the replies before it along.
        let is_appended = pieces.write(self.out(), write);
        self.written_from = None;
        if !is_appended {
            self.lose(0);
        } else if self.out().len() > size {
            self.io.mark(self.key);
        }
    }

    /// Whether the client is slower than the writer. Then stop, until
    /// [`Service::writable`](crate::Service::writable) is called.
    pub fn is_full(&mut self) -> bool {
        let position = self.position;
        let size_max = self.io.options.output_size_max;
        let size = self.out().len();
        let connection = self.connection();
        let size = match position {
            0 => connection.output_size(),
            _ => size,
        };
        if let Answer::Streaming { is_full, .. } = &mut connection.pending[position].progress {
            *is_full |= size >= size_max;
        }
        size >= size_max
    }

    /// Ends the body.
    pub fn finish(self) {
        self.end(b"");
    }

    /// Ends the body, with these header lines after it.
    pub(crate) fn end(mut self, trailers: &[u8]) {
        if self.written_from.is_some() {
            return;
        }
        let pieces = self.pieces;
        pieces.end(self.out(), trailers);
        let position = self.position;
        self.connection().pending[position].progress = Answer::Done;
        self.io.advance(self.key);
        self.io.mark(self.key);
    }

    /// Takes what another thread has written.
    pub(crate) fn pull(&mut self) -> Pulled {
        let position = self.position;
        let progress = &mut self.connection().pending[position].progress;
        let Answer::Streaming { source, .. } = progress else {
            return Pulled::Some;
        };
        let Some(taken) = source.take() else {
            return Pulled::Some;
        };
        let mut pulled = Pulled::Some;
        self.write_with(|out| pulled = taken.pull(out));
        let progress = &mut self.connection().pending[position].progress;
        if let Answer::Streaming { source, .. } = progress {
            *source = Some(taken);
        }
        pulled
    }

    /// Breaks the connection after what was written, so that the client sees that the body is not
    /// whole.
    pub fn abort(mut self) {
        // Dropping it does so.
        self.written_from.get_or_insert(usize::MAX);
    }

    /// Keeps so much of what was written, and ends the connection behind it.
    fn lose(&mut self, size: usize) {
        self.written_from = Some(size);
        self.out().truncate(size);
        if self.position == 0 {
            let connection = self.connection();
            connection.sent = connection.sent.min(connection.output.len());
        }
    }

    fn cut(&mut self) {
        let (position, pieces) = (self.position, self.pieces);
        let connection = self.connection();
        connection.pending[position].progress = Answer::Cut;
        if pieces == Pieces::Plain {
            // Such a body ends with the connection, so that has to end in a way of its own.
            // Nothing can be done where that fails.
            let _ = sockopt::set_socket_linger(&connection.socket, Some(Duration::ZERO));
        }
        connection.end_before_reply();
        self.io.advance(self.key);
        self.io.mark(self.key);
    }

    fn connection(&mut self) -> &mut Connection {
        self.io
            .connections
            .get_mut(self.key)
            .expect("the connection is open as long as its thread is borrowed")
    }

    fn out(&mut self) -> &mut Vec<u8> {
        let position = self.position;
        let connection = self.connection();
        match position {
            0 => &mut connection.output,
            _ => &mut connection.pending[position].bytes,
        }
    }
}

impl Drop for BodyStream<'_> {
    fn drop(&mut self) {
        if let Some(size) = self.written_from {
            // A panic has left a piece that is not whole, or what is there is no reply any more.
            self.lose(size);
            self.cut();
        }
    }
}

impl Io {
    /// The body of a reply that is streamed. `None` when the client has gone, or the reply has
    /// ended.
    pub fn stream(&mut self, ticket: Ticket) -> Option<BodyStream<'_>> {
        BodyStream::of_ticket(self, ticket)
    }
}
