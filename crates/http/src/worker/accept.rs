//! Accepting connections.

use std::os::fd::OwnedFd;

use super::Worker;
use crate::Service;
use crate::connection::{Connection, Sealing};
use crate::io::Due;
use crate::mailbox::Message;
use crate::peer::{Origin, Peer};
use crate::tls::TlsSession;

/// The number of connections accepted in a row before other events have their turn.
const ACCEPT_COUNT_MAX: usize = 256;

/// How long accepting pauses when no descriptors are left, until some have been closed.
const ACCEPT_PAUSE_MS: u64 = 50;

impl<S: Service> Worker<S> {
    pub(crate) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPT_COUNT_MAX {
            if self.io.connections.len() >= self.io.options.connection_count_max {
                return self.pause_accept();
            }
            let Some(listener) = self.io.listeners.get(index) else {
                return;
            };
            let listen_index = listener.listen_index;
            match listener.accept() {
                Ok((socket, peer)) if listener.is_shared => {
                    self.spread(socket, peer, listen_index);
                }
                Ok((socket, peer)) => self.adopt(socket, peer, listen_index),
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

    /// Pauses the listeners; since they are level-triggered, they would be ready all the time.
    pub(crate) fn pause_accept(&mut self) {
        if self.io.listen(false).is_ok() {
            let at = self.io.clock.tick() + ACCEPT_PAUSE_MS;
            self.io.wheel.insert(at, Due::Accept);
        }
    }

    /// Distributes connections to the threads in turn.
    fn spread(&mut self, socket: OwnedFd, peer: Peer, listen_index: usize) {
        let count = self.io.mailboxes.len();
        self.io.turn = (self.io.turn + 1) % count;
        match self.io.turn {
            // Other threads may have ended already when the server drains.
            turn if turn == self.io.index || self.io.is_draining => {
                self.adopt(socket, peer, listen_index)
            }
            turn => self.io.mailboxes[turn].send(Message::Connection(socket, peer, listen_index)),
        }
    }

    pub(crate) fn adopt(&mut self, socket: OwnedFd, peer: Peer, listen_index: usize) {
        self.io.counters.accepted += 1;
        if self.io.is_drained {
            // Another thread accepted it before it got the stop message.
            self.io.counters.closed += 1;
            return;
        }
        let tls = &self.io.tls[listen_index];
        let origin = Origin {
            peer,
            is_tls: tls.is_some(),
        };
        let tick = self.io.clock.tick();
        let mut connection = Connection::new(socket, origin, tick);
        if let Some(tls) = tls {
            match TlsSession::new(tls) {
                Ok(session) => connection.sealing = Some(Box::new(Sealing::new(session))),
                // The configuration has been used before; the cause can only be lack of memory or
                // randomness.
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
}
