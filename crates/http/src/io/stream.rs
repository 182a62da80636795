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
    /// The size of the valid output while a piece is appended, or after an invalid one.
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

    /// Writes a piece. It is accepted whether there is room or not; check
    /// [`is_full`](Self::is_full).
    pub fn write(&mut self, piece: &[u8]) {
        self.write_with(|out| out.extend_from_slice(piece));
    }

    /// Writes a piece that `write` appends directly to the output.
    pub fn write_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let pieces = self.pieces;
        if self.out().capacity() == 0 {
            *self.out() = self.io.pool.take();
        }
        let size = self.out().len();
        self.written_from = Some(size);
        // Written in place, so that a panic does not destroy the replies before it.
        let is_appended = pieces.write(self.out(), write);
        self.written_from = None;
        if !is_appended {
            self.lose(0);
        } else if self.out().len() > size {
            self.io.mark(self.key);
        }
    }

    /// Whether the client is slower than the writer. If so, stop writing until
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

    /// Takes the bytes that another thread has written.
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

    /// Aborts the connection after the written bytes, so that the client notices that the body is
    /// incomplete.
    pub fn abort(mut self) {
        // The abort happens on drop.
        self.written_from.get_or_insert(usize::MAX);
    }

    /// Keeps `size` bytes of the output, and ends the connection after them.
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
            // Such a body ends with the connection, so an aborted one has to end with a reset. A
            // failure to set that is ignored.
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
            // A panic has left an incomplete piece, or the reply is no longer valid.
            self.lose(size);
            self.cut();
        }
    }
}

impl Io {
    /// Returns the body of a streamed reply. `None` if the client has disconnected, or the reply
    /// has ended.
    pub fn stream(&mut self, ticket: Ticket) -> Option<BodyStream<'_>> {
        BodyStream::of_ticket(self, ticket)
    }
}
