//! The input of a connection: received bytes that were not read yet, and whether more can follow.
//! It is the same for all protocols.

use crate::error::{ProtocolError, Reason, RequestError};
use crate::receive::ReceiveBuffer;

/// The bytes of one connection, until its end.
pub(crate) struct Input {
    receive: ReceiveBuffer,
    end: End,
    /// The maximal size of a message, as reported in errors.
    message_size_max: usize,
    /// The maximal size of unread bytes: a message with its headers.
    unread_size_max: usize,
}

/// Whether more can follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// More can follow.
    Open,
    /// The socket is at its end; bytes before it may still be unread.
    Input,
    /// The last event was returned.
    Reported,
    /// The server violated the protocol, or is not trusted.
    Broken(ProtocolError),
}

impl Input {
    /// An empty input. A message has at most `message_size_max` bytes, and at most `head_size_max`
    /// bytes of headers.
    pub(crate) fn new(message_size_max: usize, head_size_max: usize) -> Self {
        Self {
            receive: ReceiveBuffer::default(),
            end: End::Open,
            message_size_max,
            unread_size_max: message_size_max.saturating_add(head_size_max),
        }
    }

    /// Adds bytes that the server sent, unless the connection has ended.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if self.takes_more() {
            self.receive.feed(bytes);
        }
    }

    /// Space for at least `size` bytes; empty once the connection has ended.
    pub(crate) fn space(&mut self, size: usize) -> &mut [u8] {
        if self.takes_more() {
            self.receive.space(size)
        } else {
            &mut []
        }
    }

    /// Adds `size` bytes that were written to the space.
    pub(crate) fn received(&mut self, size: usize) {
        self.receive.received(size);
    }

    /// Records that the socket is at its end.
    pub(crate) fn close(&mut self) {
        if self.end == End::Open {
            self.end = End::Input;
        }
    }

    /// Whether more bytes are accepted. An owner that never takes events reaches a limit here,
    /// instead of running out of memory.
    fn takes_more(&mut self) -> bool {
        if self.end == End::Open && self.receive.unread().len() > self.unread_size_max {
            let size_max = self.message_size_max;
            self.end = End::Broken(ProtocolError::new("input", 0, Reason::Unread { size_max }));
        }
        self.end == End::Open
    }

    /// The received bytes that were not consumed.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        self.receive.unread()
    }

    /// As [`Self::unread`], for data that must be rearranged before it can be read in place.
    pub(crate) fn unread_mut(&mut self) -> &mut [u8] {
        self.receive.unread_mut()
    }

    /// Consumes `size` unread bytes, which stay readable until more is received; also returns the
    /// end state, which their content may change.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> (&[u8], &mut End) {
        (self.receive.take(size), &mut self.end)
    }

    /// Whether there may be more events.
    ///
    /// # Errors
    ///
    /// When the server violated the protocol.
    pub(crate) fn has_more(&self) -> Result<bool, ProtocolError> {
        match self.end {
            End::Open | End::Input => Ok(true),
            End::Reported => Ok(false),
            End::Broken(error) => Err(error),
        }
    }

    /// Called if there is no complete message; returns true, once, if none can follow, so that the
    /// owner reports the end.
    pub(crate) fn is_exhausted(&mut self) -> bool {
        let is_exhausted = self.end == End::Input;
        if is_exhausted {
            self.end = End::Reported;
        }
        is_exhausted
    }

    /// Records a violation of the protocol; the input is not read any more.
    pub(crate) fn fail(&mut self, error: ProtocolError) {
        self.end = End::Broken(error);
    }

    /// Whether the server may still send something.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.end, End::Open)
    }

    /// Refuses requests after the end.
    pub(crate) fn open(&self) -> Result<(), RequestError> {
        if self.is_open() {
            Ok(())
        } else {
            Err(RequestError::Closed)
        }
    }
}
