//! Sending: replies, files, and bodies that other threads write.

use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::channel::Pulled;
use crate::connection::Answer;
use crate::slab::Key;
use crate::tls::Failure;
use crate::{Io, PanicStage, Ticket};

/// The bytes of a file that are sent before other connections have their turn.
const FILE_TURN_SIZE: u64 = 1 << 20;

/// The bytes of a file that are read at once for TLS.
const FILE_READ_SIZE: u64 = 64 << 10;

// A turn is no longer because the file goes through TLS.
const _: () = assert!(FILE_READ_SIZE <= FILE_TURN_SIZE);

impl Io {
    /// Sends what the socket accepts.
    pub(crate) fn flush(&mut self, key: Key) -> rustix::io::Result<()> {
        let mut turn = FILE_TURN_SIZE;
        loop {
            if !self.flush_output(key)? {
                return Ok(());
            }
            if turn == 0 || !self.flush_file(key, &mut turn)? {
                break;
            }
        }
        self.ask_for_more(key);
        Ok(())
    }

    /// Sends the output, and returns whether the socket has accepted all of it.
    fn flush_output(&mut self, key: Key) -> rustix::io::Result<bool> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(false);
        };
        connection.check();
        if connection.sealing.is_some()
            && let Err(failure) = connection.seal()
        {
            if let Failure::Panic(caught) = failure {
                let peer = connection.origin.peer;
                self.note_panic(PanicStage::Tls, peer, &caught);
            }
            // A session that encrypts nothing has ended.
            return Err(Errno::PIPE);
        }
        let (output, sent) = match &mut connection.sealing {
            Some(sealing) => (&mut sealing.output, &mut sealing.sent),
            None => (&mut connection.output, &mut connection.sent),
        };
        if output.is_empty() {
            if output.capacity() > 0 {
                self.pool.give(mem::take(output));
            }
            return Ok(true);
        }
        let mut flags = SendFlags::NOSIGNAL;
        if let Some(first) = connection.pending.front() {
            // Avoids a packet with only the head.
            flags.set(
                SendFlags::MORE,
                matches!(first.progress, Answer::File { .. }),
            );
        }
        let size = match send(&connection.socket, &output[*sent..], flags) {
            Ok(size) => size,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error),
        };
        assert!(
            size <= output.len() - *sent,
            "the sent position is within the buffer"
        );
        *sent += size;
        let is_done = *sent == output.len();
        if is_done {
            *sent = 0;
            self.pool.give(mem::take(output));
        } else if *sent >= output.len() / 2 {
            // Sent bytes must not be kept while a client is slow.
            output.drain(..*sent);
            *sent = 0;
        }
        self.counters.bytes_out += size as u64;
        connection.was_blocked(size as u64, self.clock.tick());
        connection.check();
        if is_done && !connection.output.is_empty() {
            // There was more than was encrypted at once.
            return self.flush_output(key);
        }
        if !is_done {
            self.ask_for_more(key);
        }
        Ok(is_done)
    }

    /// Sends a part of the current file, and returns whether there may be more to send.
    fn flush_file(&mut self, key: Key, turn: &mut u64) -> rustix::io::Result<bool> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(false);
        };
        let Some(first) = connection.pending.front_mut() else {
            return Ok(false);
        };
        let Answer::File { file, at, end } = &mut first.progress else {
            return Ok(false);
        };
        assert!(
            *at <= *end,
            "a part of a file does not end before it begins"
        );
        let left = (*end - *at).min(*turn);
        if connection.sealing.is_some() {
            let size = left.min(FILE_READ_SIZE);
            if connection.output.capacity() == 0 {
                connection.output = self.pool.take();
            }
            append_file(file, *at, size, &mut connection.output)?;
            (*at, *turn) = (*at + size, *turn - size);
        } else {
            // The count is at most a turn.
            match rustix::fs::sendfile(&connection.socket, &*file, Some(at), left as usize) {
                // The file has become shorter than the length that was sent.
                Ok(0) => return Err(Errno::PIPE),
                Ok(size) => {
                    *turn -= size as u64;
                    self.counters.bytes_out += size as u64;
                    connection.blocked_since = self.clock.tick();
                    connection.active_at = connection.blocked_since;
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    connection.was_blocked(0, self.clock.tick());
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        assert!(
            *at <= *end,
            "the file part does not exceed the announced length"
        );
        if at == end {
            first.progress = Answer::Done;
            self.advance(key);
        }
        Ok(true)
    }

    /// Notifies the writer of the body if there is room again.
    fn ask_for_more(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.output_size() <= self.options.output_size_max / 2
            && let Some(first) = connection.pending.front_mut()
            && let Answer::Streaming { is_full, .. } = &mut first.progress
            && mem::take(is_full)
        {
            self.writable.push(Ticket::new(key, first.sequence).into());
        }
    }

    /// Whether the body of a reply is written by another thread.
    pub(crate) fn has_source(&self, ticket: Ticket) -> bool {
        let pending = self.pending(ticket);
        pending.is_some_and(|pending| {
            matches!(
                &pending.progress,
                Answer::Streaming {
                    source: Some(_),
                    ..
                }
            )
        })
    }

    /// Takes bytes of a body that another thread has written, if there is room.
    pub(crate) fn pull(&mut self, ticket: Ticket) {
        let Some(mut stream) = self.stream(ticket) else {
            return;
        };
        if stream.is_full() {
            return;
        }
        match stream.pull() {
            Pulled::Some => {}
            Pulled::End { trailers } => stream.end(&trailers),
            Pulled::Broken => stream.abort(),
        }
    }
}

fn append_file(file: &File, at: u64, size: u64, out: &mut Vec<u8>) -> rustix::io::Result<()> {
    let start = out.len();
    out.resize(start + size as usize, 0);
    // A file that is shorter than the length that was sent aborts the connection.
    file.read_exact_at(&mut out[start..], at)
        .map_err(|_| Errno::PIPE)
}
