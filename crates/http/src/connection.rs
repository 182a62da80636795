//! The state of a connection. It is small while the connection is idle: buffers are borrowed from
//! the thread's pool.

mod pending;
mod receiving;
mod sealing;

pub(crate) use pending::{Answer, Pending};
pub(crate) use receiving::{BodyTarget, Receiving, is_short};
pub(crate) use sealing::Sealing;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::Options;
use crate::clock::after;
use crate::peer::Origin;
use crate::poller::Interest;
use crate::slab::Key;
use crate::tls::Failure;

/// The state of a connection; `B` is the type that receives bodies on the I/O thread.
pub(crate) struct Connection<B> {
    pub(crate) socket: OwnedFd,
    pub(crate) origin: Origin,
    /// The TLS session, if the connection uses TLS.
    pub(crate) sealing: Option<Box<Sealing>>,
    pub(crate) state: ConnectionState,
    /// Received bytes that are not consumed: the beginning of a head, or requests that may not be
    /// answered yet.
    pub(crate) input: Vec<u8>,
    /// The bytes to send next; the first [`sent`](Self::sent) bytes have been sent.
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    /// Incomplete replies, and the ones after them. Only the bytes of the first one may be in
    /// `output`.
    pub(crate) pending: VecDeque<Pending>,
    /// The unsent bytes of this connection that are included in the server's count.
    pub(crate) unsent_size: usize,
    /// The body that is being received, if any.
    pub(crate) receiving: Option<Box<Receiving<B>>>,
    /// Whether `input` holds requests that may not be answered yet, for lack of room.
    pub(crate) is_stalled: bool,
    /// The interest registered with the poller.
    pub(crate) interest: Interest,
    /// The socket may have input that the poller reports only after it is armed again.
    pub(crate) is_unread: bool,
    /// The input has ended.
    pub(crate) is_input_ended: bool,
    /// The client has closed its side; what it sent before may not be read yet.
    pub(crate) is_peer_ended: bool,
    /// The output contains a reply with `Connection: close`.
    pub(crate) says_close: bool,
    /// The last reply is incomplete, so nothing must look like its regular end.
    pub(crate) is_cut: bool,
    /// Whether it is in the list of connections that have output.
    pub(crate) is_dirty: bool,
    /// Whether a request was ever received.
    pub(crate) was_used: bool,
    /// In ticks: when something was received or sent last.
    pub(crate) active_at: u64,
    /// When the head whose beginning is in `input` began.
    pub(crate) head_since: u64,
    /// When the client stopped reading output.
    pub(crate) blocked_since: u64,
    /// A timer, and when it is due; the deadline itself may be later.
    pub(crate) timer: Option<(Key, u64)>,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Requests are read.
    Open,
    /// No more requests are read. When the replies are sent, the connection closes, at once or
    /// after the client has seen the end.
    Ending { linger: bool },
    /// Our side is closed. What the client still sends is discarded, since closing now could make
    /// its TCP stack discard the reply (RFC 9112, 9.6).
    Lingering,
}

impl<B> Connection<B> {
    pub(crate) fn new(socket: OwnedFd, origin: Origin, tick: u64) -> Self {
        Self {
            socket,
            origin,
            sealing: None,
            state: ConnectionState::Open,
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

    /// What holds between two events.
    pub(crate) fn check(&self) {
        assert!(
            self.sent <= self.output.len(),
            "the sent position is within the buffer"
        );
        if let Some(sealing) = &self.sealing {
            assert!(
                sealing.sent <= sealing.output.len(),
                "the sent position is within the buffer"
            );
        }
        // Only in debug builds, as it looks at each pending reply.
        debug_assert!(
            (self.pending.iter().skip(1)).all(|pending| {
                pending.bytes.is_empty() || !matches!(pending.progress, Answer::Departed)
            }),
            "a submitted reply has no bytes"
        );
    }

    /// The number of bytes that wait to be sent.
    pub(crate) fn output_size(&self) -> usize {
        let sealed = self.sealing.as_ref();
        let sealed_size = sealed.map_or(0, |sealing| sealing.output.len() - sealing.sent);
        self.output.len() - self.sent + sealed_size
    }

    pub(crate) fn position(&self, sequence: u64) -> Option<usize> {
        // There are few, and usually the first one is looked up.
        self.pending
            .iter()
            .position(|pending| pending.sequence == sequence)
    }

    /// Reads no more requests, and closes the connection after the replies.
    pub(crate) fn end(&mut self, linger: bool) {
        match &mut self.state {
            ConnectionState::Open => self.state = ConnectionState::Ending { linger },
            ConnectionState::Ending { linger: was } => *was |= linger,
            ConnectionState::Lingering => {}
        }
    }

    /// Called when the reply that closes the connection is in the output.
    pub(crate) fn end_after_reply(&mut self) {
        self.says_close = true;
        self.end_before_reply();
    }

    /// Called when the reply that closes the connection is queued after others: no more requests
    /// are read.
    pub(crate) fn end_before_reply(&mut self) {
        // If the client requested the close or has ended its input, the connection can be closed at
        // once. Otherwise there may be unread bytes, and closing a socket with unread bytes sends a
        // reset, which can discard the reply.
        let linger = self.state == ConnectionState::Open && !self.is_input_ended;
        self.end(linger);
        let is_uncalled = |receiving: &mut Box<Receiving<B>>| receiving.is_for_call();
        self.receiving.take_if(is_uncalled);
    }

    /// Whether to read from the client now.
    pub(crate) fn wants_input(&self, options: &Options) -> bool {
        match (self.state, &self.receiving) {
            (ConnectionState::Lingering, _) => true,
            (_, Some(receiving)) => !receiving.is_paused,
            (ConnectionState::Ending { .. }, None) => false,
            (ConnectionState::Open, None) => self.has_room(options),
        }
    }

    /// Whether more requests may be answered.
    pub(crate) fn has_room(&self, options: &Options) -> bool {
        // Most connections have no pending replies.
        let count = self.pending.len();
        let is_waiting = |pending: &&Pending| matches!(pending.progress, Answer::Waiting);
        let waiting = || self.pending.iter().filter(is_waiting).count();
        count < options.pipeline_count_max
            && self.size_to_send() < options.output_size_max
            && (count < options.deferred_count_max || waiting() < options.deferred_count_max)
    }

    /// Bytes of replies that are not sent, including those that wait for earlier ones.
    pub(crate) fn size_to_send(&self) -> usize {
        let queued: usize = self.pending.iter().map(|pending| pending.bytes.len()).sum();
        self.output_size() + queued
    }

    /// Whether all replies have been sent.
    pub(crate) fn is_answered(&self) -> bool {
        self.pending.is_empty() && !self.has_output()
    }

    /// When a client that does not read its output is given up. Output that was not yet offered to
    /// the socket does not count.
    pub(crate) fn write_deadline(&self, options: &Options) -> u64 {
        match self.has_output() && self.interest.write {
            true => after(self.blocked_since, options.write_timeout),
            false => u64::MAX,
        }
    }

    /// Whether there is output that the socket has not accepted.
    pub(crate) fn has_output(&self) -> bool {
        self.output_size() > 0
            || matches!(self.pending.front(), Some(first) if matches!(first.progress, Answer::File { .. }))
    }

    /// Encrypts the output, once the previous records have been sent.
    pub(crate) fn seal(&mut self) -> Result<(), Failure> {
        let Some(sealing) = &mut self.sealing else {
            return Ok(());
        };
        if self.output.is_empty() || !sealing.output.is_empty() || !sealing.session.is_open() {
            return Ok(());
        }
        assert_eq!(sealing.sent, 0, "a new TLS record is unsent");
        let plain = &self.output[self.sent..];
        sealing.session.send(plain, &mut sealing.output)?;
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Records whether the client reads.
    pub(crate) fn was_blocked(&mut self, size: u64, tick: u64) {
        // Write interest is set if the socket accepted nothing before.
        if size > 0 || !self.interest.write {
            self.blocked_since = tick;
        }
        if size > 0 {
            self.active_at = tick;
        }
    }
}
