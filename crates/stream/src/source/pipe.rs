//! Pipes, terminals and devices as sources: whatever may keep a reader waiting.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use super::{Got, Input};
use crate::wake::{Wait, Waited, Wake};

/// A descriptor that is polled before each read, so that a stop is heard while it is silent.
pub(super) struct Pipe {
    pub(super) file: File,
    pub(super) wake: Wake,
}

impl Input for Pipe {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<Got> {
        loop {
            match self.wake.wait(Some(self.file.as_fd()), wait)? {
                Waited::Ready => {}
                Waited::TimedOut => return Ok(Got::Idle),
                Waited::Stopped => return Ok(Got::Stopped),
            }
            match self.file.read(room) {
                Ok(0) => return Ok(Got::End),
                Ok(size) => return Ok(Got::Bytes(size)),
                // Another process that shares the descriptor was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
