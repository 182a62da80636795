//! Receiving: reads from a ready socket, and consumes the bytes.

use std::mem;

use rustix::net::{RecvFlags, recv};

use super::Worker;
use crate::connection::ConnectionState;
use crate::io::Connection;
use crate::slab::Key;
use crate::tls::Failure;
use crate::{PanicStage, Readiness, Service};

/// The maximum size of one read.
const READ_SIZE: usize = 64 << 10;

/// The maximum size of one read of requests, which take longer for their size: it fits 400 small
/// ones.
const REQUEST_READ_SIZE: usize = 16 << 10;

const _: () = assert!(REQUEST_READ_SIZE <= READ_SIZE);
// The largest record of TLS is read at once (RFC 8446, 5.2: 2^14 + 256 bytes behind a header of 5).
const _: () = assert!((1 << 14) + 256 + 5 <= READ_SIZE);

/// How often a connection that receives a body is read before other connections have their turn.
/// Requests, which take longer for their size, are read once.
const READ_COUNT_MAX: usize = 4;

impl<S: Service> Worker<S> {
    /// `is_ending` means that the client has closed its sending side; the rest of its input is in
    /// the socket.
    pub(crate) fn connection_ready(&mut self, key: Key, readiness: Readiness, is_ending: bool) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let is_ended = connection.is_input_ended;
        if readiness.read && !is_ended && connection.wants_input(&self.io.options) {
            self.read(key);
            if is_ending && let Some(connection) = self.io.connections.get_mut(key) {
                connection.is_unread = true;
            }
        } else if readiness.closed {
            // There is no client to answer.
            return self.io.close(key);
        } else {
            connection.is_unread |= readiness.read;
            connection.is_peer_ended |= is_ending;
        }
        self.drive_connection(key);
        if readiness.closed
            && let Some(connection) = self.io.connections.get(key)
            && connection.is_input_ended
        {
            self.io.close(key);
        }
    }

    /// Receives what is available. A read that does not fill the buffer has emptied the socket.
    pub(crate) fn read(&mut self, key: Key) {
        let is_emptied = self.read_some(key);
        if let Some(connection) = self.io.connections.get_mut(key) {
            connection.is_unread = !is_emptied;
        }
    }

    /// Returns whether the socket is empty.
    fn read_some(&mut self, key: Key) -> bool {
        for _ in 0..READ_COUNT_MAX {
            let mut buffer = mem::take(&mut self.io.read_buffer);
            // It is lost when a sink panics.
            buffer.resize(READ_SIZE, 0);
            let size_max = match self.io.connections.get(key) {
                // A record of TLS is larger.
                Some(connection) if connection.sealing.is_none() => match connection.receiving {
                    Some(_) => READ_SIZE,
                    None => REQUEST_READ_SIZE,
                },
                _ => READ_SIZE,
            };
            let is_emptied = self.read_into(key, &mut buffer[..size_max]);
            self.io.read_buffer = buffer;
            let connection = self.io.connections.get_mut(key);
            let wants_body = |connection: &mut Connection| {
                let receives = connection.receiving.is_some();
                receives && !connection.is_input_ended && connection.wants_input(&self.io.options)
            };
            if is_emptied || !connection.is_some_and(wants_body) {
                return is_emptied;
            }
        }
        false
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
            Ok((_, size)) => {
                assert!(size <= buffer.len(), "received bytes are in the buffer");
                size
            }
            Err(rustix::io::Errno::AGAIN) => return true,
            Err(rustix::io::Errno::INTR) => return false,
            Err(_) => {
                self.io.close(key);
                return true;
            }
        };
        if connection.state != ConnectionState::Lingering {
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

    /// Decrypts received bytes.
    fn unseal(&mut self, key: Key, bytes: &mut [u8]) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        let Some(sealing) = &mut connection.sealing else {
            return;
        };
        if sealing.session.is_plain(bytes) {
            // A client without TLS would not understand an alert.
            connection.sealing = None;
            return self.io.refuse_plain(key);
        }
        let mut plain = self.io.pool.take();
        let result = sealing.receive(bytes, &mut plain);
        connection.is_input_ended |= sealing.session.is_end_of_input();
        if let Err(Failure::Panic(caught)) = result {
            let peer = connection.origin.peer;
            self.io.note_panic(PanicStage::Tls, peer, &caught);
            self.io.close(key);
        } else if result.is_err() {
            // The client gets an alert. Its earlier requests are not answered, since an attacker
            // may have sent them.
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
        if connection.state == ConnectionState::Lingering {
            return;
        }
        if connection.input.is_empty() {
            let used = self.consume(key, bytes);
            assert!(used <= bytes.len(), "consumed bytes were received");
            return self.keep_input(key, &bytes[used..]);
        }
        connection.input.extend_from_slice(bytes);
        // An incomplete head stays incomplete until a line ends.
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

    /// Continues with the kept input.
    pub(crate) fn consume_input(&mut self, key: Key) {
        let Some(connection) = self.io.connections.get_mut(key) else {
            return;
        };
        connection.is_stalled = false;
        let mut input = mem::take(&mut connection.input);
        let used = self.consume(key, &input);
        assert!(used <= input.len(), "consumed bytes were received");
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
}
