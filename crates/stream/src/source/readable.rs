//! Readers without pauses as sources.

use std::io::{self, Read};

use super::{Input, ReadOutcome};
use crate::wake::Wait;

/// Any reader that is read to its end and never blocks for long.
pub(super) struct Readable(pub(super) Box<dyn Read + Send>);

impl Input for Readable {
    fn read(&mut self, room: &mut [u8], _: Wait) -> io::Result<ReadOutcome> {
        loop {
            match self.0.read(room) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(size) => return Ok(ReadOutcome::Bytes(size)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
