//! TLS between a connection and its socket.

use crate::tls::{Failure, TlsSession};

/// A TLS session, and its output for the socket.
pub(crate) struct Sealing {
    pub(crate) session: TlsSession,
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
}

impl Sealing {
    pub(crate) fn new(session: TlsSession) -> Self {
        Self {
            session,
            output: Vec::new(),
            sent: 0,
        }
    }

    pub(crate) fn receive(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Failure> {
        self.session.receive(bytes, plain, &mut self.output)
    }

    /// Sends `close_notify`.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.session.close(&mut self.output)
    }
}
