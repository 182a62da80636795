//! The state of a connection after sending: more requests, new interests, or the end.

use std::collections::VecDeque;

use rustix::net::{Shutdown, shutdown};

use crate::clock::after;
use crate::connection::ConnectionState;
use crate::io::Connection;
use crate::parse::BAD_REQUEST;
use crate::poller::Interest;
use crate::slab::Key;
use crate::tls::Failure;
use crate::{Io, PanicStage};

/// How long a client is given to read the last reply before the socket is closed.
const LINGER_MS: u64 = 2_000;

/// The capacity for pending requests that an answered connection keeps: as many as most clients
/// pipeline, and small compared to the rest of it.
const PENDING_COUNT_KEPT: usize = 16;

/// What remains to be done for a connection after sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driven {
    Nothing,
    /// Input was kept for lack of room, and there is room now.
    HasRoom,
}

impl Io {
    /// Sends what the socket accepts, and decides how the connection continues.
    pub(crate) fn drive_connection(&mut self, key: Key) -> Driven {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.is_input_ended
            && let Some(receiving) = connection.receiving.take()
        {
            // The rest of the body will never arrive.
            self.refuse_body(key, *receiving, BAD_REQUEST);
        }
        if self.flush(key).is_err() {
            self.close(key);
            return Driven::Nothing;
        }
        self.count_unsent(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return Driven::Nothing;
        };
        if connection.state == ConnectionState::Open {
            if connection.is_stalled && connection.has_room(&self.options) {
                return Driven::HasRoom;
            }
            let is_idle = connection.input.is_empty() && connection.receiving.is_none();
            // A client that ends in the middle of a request gets no answer to that one.
            if connection.is_input_ended && !connection.is_stalled {
                connection.end(false);
            } else if self.is_draining && is_idle {
                // A client that expects a persistent connection may have sent another request
                // meanwhile.
                let linger = !connection.is_answered();
                connection.end(linger);
            }
        }
        if let ConnectionState::Ending { linger } = connection.state
            && connection.is_answered()
        {
            if let Some(sealing) = &mut connection.sealing
                && !connection.is_cut
            {
                if let Err(Failure::Panic(caught)) = sealing.close() {
                    let peer = connection.origin.peer;
                    self.note_panic(PanicStage::Tls, peer, &caught);
                    self.close(key);
                    return Driven::Nothing;
                }
                // If the socket does not accept it now, it is dropped.
                let _ = self.flush(key);
            }
            let Some(connection) = self.connections.get_mut(key) else {
                return Driven::Nothing;
            };
            // A body that is still being sent is unread, too.
            let linger = linger || connection.receiving.is_some();
            if !linger || connection.is_input_ended || connection.is_cut {
                self.close(key);
                return Driven::Nothing;
            }
            connection.receiving = None;
            connection.state = ConnectionState::Lingering;
            connection.active_at = self.clock.tick();
            // It fails if the client is gone, which the next read will detect.
            let _ = shutdown(&connection.socket, Shutdown::Write);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return Driven::Nothing;
        };
        if connection.state == ConnectionState::Lingering && connection.is_input_ended {
            self.close(key);
            return Driven::Nothing;
        }
        if connection.pending.is_empty() && connection.pending.capacity() > PENDING_COUNT_KEPT {
            connection.pending = VecDeque::new();
        }
        let interest = Interest {
            read: !connection.is_input_ended && connection.wants_input(&self.options),
            write: connection.state != ConnectionState::Lingering && connection.has_output(),
        };
        if self.set_interest(key, interest).is_err() {
            self.close(key);
            return Driven::Nothing;
        }
        self.set_deadline(key);
        Driven::Nothing
    }

    /// Sets the timer for the connection's deadline.
    pub(crate) fn set_deadline(&mut self, key: Key) {
        let Some(connection) = self.connections.get(key) else {
            return;
        };
        let deadline = self.deadline(connection);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        // A timer that expires too early is set again then; one that is too late is replaced.
        if connection.timer.is_some_and(|(_, at)| at <= deadline) || deadline == u64::MAX {
            return;
        }
        let late = connection.timer.take();
        let timer = self.wheel.insert(deadline, crate::io::Due::Connection(key));
        connection.timer = Some((timer, deadline));
        if let Some((late, _)) = late {
            self.wheel.cancel(late);
        }
    }

    /// The tick at which the connection times out.
    pub(crate) fn deadline(&self, connection: &Connection) -> u64 {
        let options = &*self.options;
        if connection.state == ConnectionState::Lingering {
            return connection.active_at + LINGER_MS;
        }
        let deadline = connection.write_deadline(options);
        if let Some(receiving) = &connection.receiving {
            return deadline.min(receiving.deadline(options));
        }
        if !connection.is_answered() {
            return deadline;
        }
        match connection.was_used {
            _ if !connection.input.is_empty() => {
                after(connection.head_since, options.header_timeout)
            }
            true => after(connection.active_at, options.idle_timeout),
            false => after(connection.head_since, options.header_timeout),
        }
    }
}
