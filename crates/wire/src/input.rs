//! What came from the server and was not read yet, and whether more will come: the side of a
//! connection that is the same whatever the protocol.

use crate::error::{ProtocolError, Reason, RequestError};
use crate::receive::ReceiveBuffer;

/// The bytes of one connection, until its end.
pub(crate) struct Input {
    receive: ReceiveBuffer,
    end: End,
    /// The longest message, as an error names it.
    message_size_max: usize,
    /// The same with all that stands before it on the wire.
    unread_size_max: usize,
}

/// Whether there is more to come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Yes.
    Open,
    /// The socket is at its end, and what came before it may not be read yet.
    Input,
    /// The last event was taken.
    Told,
    /// The server cannot be understood or trusted any more.
    Broken(ProtocolError),
}

impl Input {
    /// Nothing came yet. A message has at most `message_size_max` bytes, and `head_size_max` more
    /// before and between them.
    pub(crate) fn new(message_size_max: usize, head_size_max: usize) -> Self {
        Self {
            receive: ReceiveBuffer::default(),
            end: End::Open,
            message_size_max,
            unread_size_max: message_size_max.saturating_add(head_size_max),
        }
    }

    /// Takes bytes that the server sent, unless they are of no use any more.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.takes_more() {
            self.receive.feed(bytes);
        }
    }

    /// Room for at least `size` bytes; none once they would be of no use.
    pub(crate) fn space(&mut self, size: usize) -> &mut [u8] {
        if self.takes_more() {
            self.receive.space(size)
        } else {
            &mut []
        }
    }

    /// Says that `size` bytes were written to the space.
    pub(crate) fn received(&mut self, size: usize) {
        self.receive.received(size);
    }

    /// Says that the socket is at its end.
    pub(crate) fn close(&mut self) {
        if self.end == End::Open {
            self.end = End::Input;
        }
    }

    /// Whether bytes that come are of any use. An owner who does not take events between two
    /// feeds comes to a limit here, instead of running out of memory.
    fn takes_more(&mut self) -> bool {
        if self.end == End::Open && self.receive.unread().len() > self.unread_size_max {
            let size_max = self.message_size_max;
            self.end = End::Broken(ProtocolError::new("input", 0, Reason::Unread { size_max }));
        }
        self.end == End::Open
    }

    /// What came and was not taken.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        self.receive.unread()
    }

    /// The same, for what has to be put in order before it can be read in place.
    pub(crate) fn unread_mut(&mut self) -> &mut [u8] {
        self.receive.unread_mut()
    }

    /// Consumes `size` unread bytes; they stay readable until something is received. What they
    /// say may be the end.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> (&[u8], &mut End) {
        (self.receive.take(size), &mut self.end)
    }

    /// Whether there may be events left.
    ///
    /// # Errors
    ///
    /// When the server cannot be understood any more.
    pub(crate) fn has_more(&self) -> Result<bool, ProtocolError> {
        match self.end {
            End::Open | End::Input => Ok(true),
            End::Told => Ok(false),
            End::Broken(error) => Err(error),
        }
    }

    /// Says that no further message is here, and answers whether none can come: then its owner
    /// tells of the end, once.
    pub(crate) fn is_exhausted(&mut self) -> bool {
        let is_exhausted = self.end == End::Input;
        if is_exhausted {
            self.end = End::Told;
        }
        is_exhausted
    }

    /// Says that the server cannot be understood or trusted any more.
    pub(crate) fn fail(&mut self, error: ProtocolError) {
        self.end = End::Broken(error);
    }

    /// Whether the server may still say something new.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.end, End::Open)
    }

    /// Refuses what cannot be said after the end.
    pub(crate) fn open(&self) -> Result<(), RequestError> {
        if self.is_open() {
            Ok(())
        } else {
            Err(RequestError::Closed)
        }
    }
}
