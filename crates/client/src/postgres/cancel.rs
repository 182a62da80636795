//! CancelRequest, over a second connection.

use std::time::Instant;

use lookaside_wire::postgres::CancelKey;

use super::prologue::{Prologue, PrologueStep};
use crate::Error;
use crate::driver::{Protocol, Sealed, Upgrade};

/// Sends a cancel request for another session.
///
/// The server does not answer, and closes once it has processed the request.
#[derive(Debug)]
pub struct CancelConnection {
    prologue: Option<Prologue>,
    request: Vec<u8>,
    written: usize,
    /// Nothing comes; what comes all the same is not of interest.
    space: [u8; SPACE_SIZE],
    is_over: bool,
}

/// Enough to find the end of the stream.
const SPACE_SIZE: usize = 64;

impl CancelConnection {
    /// The prologue is the one of the session.
    pub(super) fn new(key: &CancelKey, prologue: Option<Prologue>) -> Self {
        let mut request = Vec::new();
        key.cancel_request(&mut request);
        Self {
            prologue,
            request,
            written: 0,
            space: [0; SPACE_SIZE],
            is_over: false,
        }
    }
}

impl Sealed for CancelConnection {}

impl Protocol for CancelConnection {
    fn output(&mut self) -> &[u8] {
        match &self.prologue {
            Some(prologue) => prologue.output(),
            None => &self.request[self.written..],
        }
    }

    fn written(&mut self, size: usize) {
        if let Some(prologue) = &mut self.prologue {
            return prologue.written(size);
        }
        assert!(
            size <= self.request.len() - self.written,
            "more written than there was"
        );
        self.written += size;
    }

    fn receive_space(&mut self, _size: usize) -> &mut [u8] {
        match &mut self.prologue {
            Some(prologue) => prologue.receive_space(),
            None => &mut self.space,
        }
    }

    fn received(&mut self, size: usize) {
        let Some(prologue) = &mut self.prologue else {
            return assert!(size <= SPACE_SIZE, "more received than there was room for");
        };
        // The session has TLS, so without it something is wrong.
        match prologue.received(size) {
            Ok(PrologueStep::Answer | PrologueStep::Tls) => {}
            Ok(PrologueStep::Plain) | Err(_) => self.is_over = true,
        }
    }

    fn end_of_input(&mut self) {
        self.is_over = true;
    }

    fn is_input_ended(&self) -> bool {
        self.is_over
    }

    fn fail(&mut self, _error: Error) {
        self.is_over = true;
    }

    fn advance(&mut self, _now: Instant) {}

    fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Upgrade for CancelConnection {
    fn wants_tls(&self) -> bool {
        self.prologue.as_ref().is_some_and(Prologue::wants_tls)
    }

    fn tls_started(&mut self, _server_end_point: Option<&[u8]>) {
        self.prologue = None;
    }
}
