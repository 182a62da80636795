//! Readers without pauses as sources.

use std::io::{self, Read};

use super::{Got, Input};
use crate::wake::Wait;

/// Any reader that is read to its end and never blocks for long.
pub(super) struct Readable(pub(super) Box<dyn Read + Send>);

impl Input for Readable {
    fn read(&mut self, room: &mut [u8], _: Wait) -> io::Result<Got> {
        loop {
            match self.0.read(room) {
                Ok(0) => return Ok(Got::End),
                Ok(size) => return Ok(Got::Bytes(size)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
