//! A growing file that is rotated from time to time.
//!
//! It is polled. A notification would have to be checked against the file all the same (they are
//! dropped under load, absent on network file systems, and tell nothing of a truncation), and at
//! one `read` and one `stat` each 100 ms there is nothing to save.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::wake::{Wait, Waited, Wake};
use super::{Got, Input};

/// How often a file that has not grown is looked at again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a renamed file must be quiet before its successor is read: a daemon goes on writing to
/// the old file until it is told to open the new one.
const ROTATION_QUIET: Duration = Duration::from_secs(1);

/// A file that is read to its end, and on.
///
/// Renamed and recreated: the old file is finished first. Truncated: reading starts over, unless
/// the file has grown beyond where we were before we looked; nothing tells that from an append.
pub(super) struct Follow {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    position: u64,
    /// Since when the path has led to another file while this one has been quiet.
    rotated: Option<Instant>,
    wake: Wake,
}

impl Follow {
    pub(super) fn new(path: PathBuf, file: File, wake: Wake) -> io::Result<Self> {
        Ok(Self {
            identity: identity(&file.metadata()?),
            path,
            file,
            position: 0,
            rotated: None,
            wake,
        })
    }

    /// Whether the path leads to new content, by another file or by this one cut back; if so, it is
    /// what will be read next.
    fn turn(&mut self) -> io::Result<bool> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            // Renamed, and its successor is not there yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if identity(&metadata) == self.identity {
            self.rotated = None;
            if metadata.len() >= self.position {
                return Ok(false);
            }
            self.file.rewind()?;
        } else {
            if self.rotated.get_or_insert_with(Instant::now).elapsed() < ROTATION_QUIET {
                return Ok(false);
            }
            self.file = match File::open(&self.path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
            self.identity = identity(&self.file.metadata()?);
            self.rotated = None;
        }
        self.position = 0;
        Ok(true)
    }
}

impl Input for Follow {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<Got> {
        loop {
            match self.file.read(room) {
                Ok(0) => {}
                Ok(size) => {
                    self.position += size as u64;
                    self.rotated = None;
                    return Ok(Got::Bytes(size));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.turn()? {
                return Ok(Got::Next);
            }
            let pause = match wait {
                Wait::Forever => POLL_INTERVAL,
                Wait::AtMost(time) => time.min(POLL_INTERVAL),
            };
            match (self.wake.wait(None, Wait::AtMost(pause))?, wait) {
                (Waited::Stopped, _) => return Ok(Got::Stopped),
                (_, Wait::AtMost(_)) => return Ok(Got::Idle),
                (_, Wait::Forever) => {}
            }
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
