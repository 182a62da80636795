//! CancelRequest, on a connection of its own.

use std::time::Instant;

use lookaside_wire::postgres::CancelKey;

use crate::Error;
use crate::drive::{Sealed, Talk};

/// Asks a server to cancel what it does in another session.
///
/// The server says nothing to it, and closes once it has passed the request on.
#[derive(Debug)]
pub struct CancelErrand {
    request: Vec<u8>,
    written: usize,
    /// Nothing comes; what comes all the same is not of interest.
    space: [u8; SPACE_SIZE],
    is_over: bool,
}

/// Enough to find the end of the stream.
const SPACE_SIZE: usize = 64;

impl CancelErrand {
    pub(super) fn new(key: &CancelKey) -> Self {
        let mut request = Vec::new();
        key.cancel_request(&mut request);
        Self {
            request,
            written: 0,
            space: [0; SPACE_SIZE],
            is_over: false,
        }
    }
}

impl Sealed for CancelErrand {}

impl Talk for CancelErrand {
    fn output(&mut self) -> &[u8] {
        &self.request[self.written..]
    }

    fn written(&mut self, size: usize) {
        assert!(
            size <= self.request.len() - self.written,
            "more written than there was"
        );
        self.written += size;
    }

    fn receive_space(&mut self, _size: usize) -> &mut [u8] {
        &mut self.space
    }

    fn received(&mut self, size: usize) {
        assert!(size <= SPACE_SIZE, "more received than there was room for");
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
