//! What is known of a connection. It is small while nothing happens on it: buffers are borrowed
//! from the thread's pool.

mod pending;
mod receiving;
mod sealing;

pub(crate) use pending::{Answer, Pending};
pub(crate) use receiving::{Receiving, Target, is_short};
pub(crate) use sealing::Sealing;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::Options;
use crate::clock::after;
use crate::peer::Origin;
use crate::poller::Interest;
use crate::slab::Key;
use crate::tls::Failure;

/// What is known of a connection; `B` is what takes bodies on the I/O thread.
pub(crate) struct Connection<B> {
    pub(crate) socket: OwnedFd,
    pub(crate) origin: Origin,
    /// What stands between us and the socket, if something does.
    pub(crate) sealing: Option<Box<Sealing>>,
    pub(crate) state: State,
    /// What came and is not consumed: the begin of a head, or what may not be answered yet.
    pub(crate) input: Vec<u8>,
    /// What goes out next; the first [`sent`](Self::sent) bytes are gone.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// Replies that are not whole, and those behind them. Only the first one's bytes may be in
    /// `output`.
    pub(crate) pending: VecDeque<Pending>,
    /// Bytes that are not sent, as far as the server counts them.
    pub(crate) unsent_size: usize,
    /// The body that is on its way, if one is.
    pub(crate) receiving: Option<Box<Receiving<B>>>,
    /// Whether `input` holds requests that may not be answered yet, for lack of room.
    pub(crate) is_stalled: bool,
    /// What the poller was told.
    pub(crate) interest: Interest,
    /// The socket may hold something of which the poller tells only when it is asked again.
    pub(crate) is_unread: bool,
    /// The client sends no more.
    pub(crate) is_input_ended: bool,
    /// The client has closed its side; what it sent before may not be read yet.
    pub(crate) is_peer_ended: bool,
    /// A reply that tells the client that it is the last one is in the output.
    pub(crate) says_close: bool,
    /// The last reply is not whole, so nothing may look like its end.
    pub(crate) is_cut: bool,
    /// Whether it is in the list of connections that have output.
    pub(crate) is_dirty: bool,
    /// Whether a request was ever received.
    pub(crate) was_used: bool,
    /// In ticks: when something was received or sent last.
    pub(crate) active_at: u64,
    /// When the head began of which `input` is the begin.
    pub(crate) head_since: u64,
    /// When the client began to take no more output.
    pub(crate) blocked_since: u64,
    /// A timer, and when it is due; the deadline itself may be later.
    pub(crate) timer: Option<(Key, u64)>,
}

/// How far the connection's life is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Requests are read.
    Open,
    /// No more requests are read. When the replies are out the connection closes, at once or
    /// after the client has seen that.
    Ending { linger: bool },
    /// Our side is closed. What the client still sends is thrown away, as closing now would make
    /// its system throw the reply away (RFC 9112, 9.6).
    Lingering,
}

impl<B> Connection<B> {
    pub(crate) fn new(socket: OwnedFd, origin: Origin, tick: u64) -> Self {
        Self {
            socket,
            origin,
            sealing: None,
            state: State::Open,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            pending: VecDeque::new(),
            unsent_size: 0,
            receiving: None,
            is_stalled: false,
            interest: Interest::READ,
            is_unread: false,
            is_input_ended: false,
            is_peer_ended: false,
            says_close: false,
            is_cut: false,
            is_dirty: false,
            was_used: false,
            active_at: tick,
            head_since: tick,
            blocked_since: tick,
            timer: None,
        }
    }

    /// How much waits to be sent.
    pub(crate) fn output_size(&self) -> usize {
        let sealed = self.sealing.as_ref();
        let sealed_size = sealed.map_or(0, |sealing| sealing.output.len() - sealing.sent);
        self.output.len() - self.sent + sealed_size
    }

    pub(crate) fn position(&self, sequence: u64) -> Option<usize> {
        // They are few, and the first one is asked for mostly.
        self.pending
            .iter()
            .position(|pending| pending.sequence == sequence)
    }

    /// No more requests are read, and the connection closes after the replies.
    pub(crate) fn end(&mut self, linger: bool) {
        match &mut self.state {
            State::Open => self.state = State::Ending { linger },
            State::Ending { linger: was } => *was |= linger,
            State::Lingering => {}
        }
    }

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
        let is_uncalled = |receiving: &mut Box<Receiving<B>>| receiving.is_for_call();
        self.receiving.take_if(is_uncalled);
    }

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
        // Of a connection whose replies go out as they are made, as most do, none is pending.
        let count = self.pending.len();
        let is_waiting = |pending: &&Pending| matches!(pending.progress, Answer::Waiting);
        let waiting = || self.pending.iter().filter(is_waiting).count();
        count < options.pipeline_count_max
            && self.size_to_send() < options.output_size_max
            && (count < options.deferred_count_max || waiting() < options.deferred_count_max)
    }

    /// Bytes of replies that are not sent, with those that wait behind others.
    pub(crate) fn size_to_send(&self) -> usize {
        let queued: usize = self.pending.iter().map(|pending| pending.bytes.len()).sum();
        self.output_size() + queued
    }

    /// Whether all replies are out.
    pub(crate) fn is_answered(&self) -> bool {
        self.pending.is_empty() && !self.has_output()
    }

    /// When a client that takes nothing of the output is given up. Output that the socket was not
    /// asked to take yet is not waited for.
    pub(crate) fn write_deadline(&self, options: &Options) -> u64 {
        match self.has_output() && self.interest.write {
            true => after(self.blocked_since, options.write_timeout),
            false => u64::MAX,
        }
    }

    /// Whether there is something that the socket has not taken.
    pub(crate) fn has_output(&self) -> bool {
        self.output_size() > 0
            || matches!(self.pending.front(), Some(first) if matches!(first.progress, Answer::File { .. }))
    }

    /// Gives the output to TLS, once what that made before is gone.
    pub(crate) fn seal(&mut self) -> Result<(), Failure> {
        let Some(sealing) = &mut self.sealing else {
            return Ok(());
        };
        if self.output.is_empty() || !sealing.output.is_empty() || !sealing.session.is_open() {
            return Ok(());
        }
        let plain = &self.output[self.sent..];
        sealing.session.send(plain, &mut sealing.output)?;
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Notes whether the client takes something.
    pub(crate) fn was_blocked(&mut self, size: u64, tick: u64) {
        // The poller was told to wait for room when it took nothing before.
        if size > 0 || !self.interest.write {
            self.blocked_since = tick;
        }
        if size > 0 {
            self.active_at = tick;
        }
    }
}
