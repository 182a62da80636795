//! What follows from what was sent: more requests, other interests, the end.

use std::collections::VecDeque;
use std::mem;

use rustix::net::{Shutdown, shutdown};

use crate::body::Receiving;
use crate::connection::{Answer, Connection, State};
use crate::io::Interest;
use crate::parse::BAD_REQUEST;
use crate::slab::Key;
use crate::{Io, Options};

/// How long a client is given to see that it was sent away.
const LINGER_MS: u64 = 2_000;

/// A connection that has been answered keeps room for so many requests that wait: as many as most
/// clients pipeline, and little beside the rest of it.
const PENDING_COUNT_KEPT: usize = 16;

/// What there is to do for a connection after it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Nothing,
    /// Input was kept for lack of room, and there is room.
    HasRoom,
}

impl Connection {
    /// Whether what the client sends is wanted now.
    pub(crate) fn wants_input(&self, options: &Options) -> bool {
        match (self.state, &self.receiving) {
            (State::Lingering, _) => true,
            (_, Some(receiving)) => !receiving.is_paused,
            (State::Ending { .. }, None) => false,
            (State::Open, None) => self.has_room(options),
        }
    }

    /// Whether more requests may be answered.
    pub(crate) fn has_room(&self, options: &Options) -> bool {
        let queued: usize = self.pending.iter().map(|pending| pending.bytes.len()).sum();
        self.pending.len() < options.pipeline_count_max
            && self.output_size() + queued < options.output_size_max
    }

    /// Whether all replies are out.
    fn is_answered(&self) -> bool {
        self.pending.is_empty() && !self.has_output()
    }

    /// Whether there is something that the socket has not taken.
    pub(crate) fn has_output(&self) -> bool {
        self.output_size() > 0
            || matches!(self.pending.front(), Some(first) if matches!(first.progress, Answer::File { .. }))
    }
}

impl Io {
    /// Sends what the socket takes, and decides how the connection goes on.
    pub(crate) fn settle(&mut self, key: Key) -> Settled {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.is_input_ended
            && let Some(receiving) = connection.receiving.take()
        {
            // The rest of the body will never come.
            self.refuse_body(key, *receiving, BAD_REQUEST);
        }
        if self.flush(key).is_err() {
            self.close(key);
            return Settled::Nothing;
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return Settled::Nothing;
        };
        if connection.state == State::Open {
            if connection.is_stalled && connection.has_room(&self.options) {
                return Settled::HasRoom;
            }
            let is_idle = connection.input.is_empty() && connection.receiving.is_none();
            // A client that ends in the middle of a request gets no answer to that one.
            if connection.is_input_ended && !connection.is_stalled {
                connection.end(false);
            } else if self.is_draining && is_idle {
                // A client that was promised more may have asked again behind our back.
                let linger = !connection.is_answered();
                connection.end(linger);
            }
        }
        if let State::Ending { linger } = connection.state
            && connection.is_answered()
        {
            if let Some(sealing) = &mut connection.sealing
                && !connection.is_cut
            {
                sealing.session.close(&mut sealing.output);
                // A client that cannot take so little now does without it.
                let _ = self.flush(key);
            }
            let Some(connection) = self.connections.get_mut(key) else {
                return Settled::Nothing;
            };
            // A body that still comes is unread, too.
            let linger = linger || connection.receiving.is_some();
            if !linger || connection.is_input_ended || connection.is_cut {
                self.close(key);
                return Settled::Nothing;
            }
            connection.receiving = None;
            connection.state = State::Lingering;
            connection.active_at = self.clock.tick();
            // It fails when the client is gone, which the next read will find.
            let _ = shutdown(&connection.socket, Shutdown::Write);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return Settled::Nothing;
        };
        if connection.state == State::Lingering && connection.is_input_ended {
            self.close(key);
            return Settled::Nothing;
        }
        if connection.pending.is_empty() && connection.pending.capacity() > PENDING_COUNT_KEPT {
            connection.pending = VecDeque::new();
        }
        let interest = Interest {
            read: !connection.is_input_ended && connection.wants_input(&self.options),
            write: connection.state != State::Lingering && connection.has_output(),
        };
        if self.set_interest(key, interest).is_err() {
            self.close(key);
            return Settled::Nothing;
        }
        self.set_deadline(key);
        Settled::Nothing
    }

    /// Says when the connection is given up unless something happens.
    pub(crate) fn set_deadline(&mut self, key: Key) {
        let Some(connection) = self.connections.get(key) else {
            return;
        };
        let deadline = self.deadline(connection);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.deadline = deadline;
        // A timer that runs out too early is begun again then; one that is too late is replaced.
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

    fn deadline(&self, connection: &Connection) -> u64 {
        let options = &*self.options;
        let after = |since: u64, timeout: std::time::Duration| {
            since.saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        };
        if connection.state == State::Lingering {
            return connection.active_at + LINGER_MS;
        }
        let mut deadline = u64::MAX;
        if connection.has_output() {
            deadline = after(connection.blocked_since, options.write_timeout);
        }
        if let Some(receiving) = &connection.receiving {
            return deadline.min(receiving.deadline(self));
        }
        if deadline < u64::MAX || !connection.pending.is_empty() {
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

impl Io {
    /// Moves replies that have become whole, and those behind them, into the output.
    pub(crate) fn advance(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        while let Some(pending) = connection.pending.front_mut() {
            // The first one's bytes go to the output, from the moment on that it is the first.
            if !pending.bytes.is_empty() {
                let bytes = mem::take(&mut pending.bytes);
                if connection.output.is_empty() {
                    self.pool.give(mem::replace(&mut connection.output, bytes));
                } else {
                    connection.output.extend_from_slice(&bytes);
                    self.pool.give(bytes);
                }
            }
            connection.is_cut = matches!(pending.progress, Answer::Cut);
            if !matches!(pending.progress, Answer::Done | Answer::Cut) {
                return;
            }
            let close = pending.manner.close || connection.is_cut;
            connection.pending.pop_front();
            if close {
                connection.end_after_reply();
                for dropped in connection.pending.drain(..) {
                    self.pool.give(dropped.bytes);
                }
            }
        }
    }
}

impl Io {
    /// Ends a connection whose output is lost.
    pub(crate) fn break_off(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.output.clear();
            connection.sent = 0;
            connection.pending.clear();
            connection.is_cut = true;
            connection.end_after_reply();
            self.mark(key);
        }
    }
}

impl Connection {
    /// The reply that closes the connection is in the output.
    pub(crate) fn end_after_reply(&mut self) {
        self.says_close = true;
        self.end_before_reply();
    }

    /// The reply that closes the connection is there, behind others: nothing behind it is read.
    pub(crate) fn end_before_reply(&mut self) {
        // Whoever asked for it, or sends no more, can be left at once. Others may have sent what
        // nobody has read, and a system that closes over unread bytes takes the reply back.
        let linger = self.state == State::Open && !self.is_input_ended;
        self.end(linger);
        let is_uncalled = |receiving: &mut Box<Receiving>| receiving.is_for_call();
        self.receiving.take_if(is_uncalled);
    }
}
