//! What is known of a connection. It is small while nothing happens on it: buffers are borrowed
//! from the thread's pool.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::body::Receiving;
use crate::channel::Source;
use crate::peer::Origin;
use crate::poller::Interest;
use crate::render::{Manner, Pieces};
use crate::slab::Key;
use crate::tls::{Failure, Session};

pub(crate) struct Connection {
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
    pub(crate) receiving: Option<Box<Receiving>>,
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

/// TLS, and what it has made for the socket.
pub(crate) struct Sealing {
    pub(crate) session: Session,
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
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

/// A request whose reply is not out.
pub(crate) struct Pending {
    /// The name of its [`Ticket`](crate::Ticket).
    pub(crate) sequence: u64,
    pub(crate) manner: Manner,
    pub(crate) progress: Answer,
    /// What is written of the reply and not in the connection's output.
    pub(crate) bytes: Vec<u8>,
}

pub(crate) enum Answer {
    /// The serial stage has it.
    Departed,
    /// It was put off.
    Waiting,
    Streaming {
        pieces: Pieces,
        /// Somebody was told that there is no room.
        is_full: bool,
        /// Where another thread writes the body, if one does.
        source: Option<Source>,
    },
    /// The head is written, and a part of a file follows.
    File {
        file: Arc<File>,
        at: u64,
        end: u64,
    },
    Done,
    /// What is written goes out, and then the connection breaks.
    Cut,
}

impl Sealing {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session,
            output: Vec::new(),
            sent: 0,
        }
    }

    pub(crate) fn receive(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Failure> {
        self.session.receive(bytes, plain, &mut self.output)
    }

    /// Says to the client that nothing more will be said.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.session.close(&mut self.output)
    }
}

impl Connection {
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
}
