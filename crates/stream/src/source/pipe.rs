//! Pipes, terminals and devices as sources: reads that may have to wait.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use flate2::bufread::MultiGzDecoder;

use super::{Input, ReadOutcome};
use crate::compression::Compression;
use crate::content::{COMPRESSED_BLOCK_SIZE, compression_of_head};
use crate::wake::{Wait, Waited, Wake};
use crate::{Error, Result, unsupported};

/// A descriptor that is polled before each read, so that a stop can interrupt the wait. The first
/// read determines whether it is decompressed.
pub(super) enum Pipe {
    Plain(Polled),
    // A decoder may hold up to 32 KiB of output when it fills the room of a block exactly and its
    // input is used up; these bytes are returned by the next read that has input.
    Gzip(Box<MultiGzDecoder<BufReader<Polled>>>),
    Zstd(zstd::Decoder<'static, BufReader<Polled>>),
}

impl Pipe {
    /// Waits for the first bytes and detects their format; `None` if the run was stopped.
    ///
    /// Only one read is used: waiting for more bytes could delay a complete event.
    ///
    /// # Errors
    /// When it cannot be read, or has an unsupported format.
    pub(super) fn begin(name: &str, file: File, wake: Wake) -> Result<Option<Self>> {
        let failed = |error| Error::read_input(name, error);
        let mut polled = Polled {
            file,
            wake,
            head: Cursor::default(),
            until: None,
            is_stopped: false,
            is_ended: false,
        };
        let mut head = vec![0; COMPRESSED_BLOCK_SIZE];
        let size = match polled.read(&mut head) {
            Ok(size) => size,
            Err(_) if polled.is_stopped => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        head.truncate(size);
        if let Some(unsupported) = unsupported::of_head(&head) {
            return Err(Error::unsupported_input(name, unsupported));
        }
        let compression = compression_of_head(&head).unwrap_or_default();
        polled.head = Cursor::new(head);
        // A decoder that reads its input on creation must not wait for it.
        polled.until = Some(Instant::now());
        let buffered = |polled| BufReader::with_capacity(COMPRESSED_BLOCK_SIZE, polled);
        Ok(Some(match compression {
            Compression::Plain => Self::Plain(polled),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(buffered(polled)))),
            Compression::Zstd => {
                Self::Zstd(zstd::Decoder::with_buffer(buffered(polled)).map_err(failed)?)
            }
        }))
    }

    fn polled(&mut self) -> &mut Polled {
        match self {
            Self::Plain(polled) => polled,
            Self::Gzip(decoder) => decoder.get_mut().get_mut(),
            Self::Zstd(decoder) => decoder.get_mut().get_mut(),
        }
    }
}

impl Input for Pipe {
    fn read(&mut self, room: &mut [u8], wait: Wait) -> io::Result<ReadOutcome> {
        self.polled().until = match wait {
            Wait::Forever => None,
            // A time beyond the clock's range means no limit.
            Wait::AtMost(time) => Instant::now().checked_add(time),
        };
        let read = match self {
            Self::Plain(polled) => polled.read(room),
            Self::Gzip(decoder) => decoder.read(room),
            Self::Zstd(decoder) => decoder.read(room),
        };
        match read {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(size) => Ok(ReadOutcome::Bytes(size)),
            Err(_) if self.polled().is_stopped => Ok(ReadOutcome::Stopped),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(ReadOutcome::Idle),
            Err(error) => Err(error),
        }
    }
}

/// The bytes of a descriptor as they are received. A read without bytes in time, or after a stop,
/// fails with `WouldBlock`, as for a non-blocking descriptor, after which decoders can continue.
pub(super) struct Polled {
    file: File,
    wake: Wake,
    /// The bytes that were read to detect the format.
    head: Cursor<Vec<u8>>,
    /// Until when reads wait for their first byte; `None` for no limit.
    until: Option<Instant>,
    is_stopped: bool,
    /// Set at the end, because a terminal could be read further after it.
    is_ended: bool,
}

impl Read for Polled {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = self.head.read(room)?;
        if size > 0 || self.is_ended {
            return Ok(size);
        }
        loop {
            let wait = match self.until {
                None => Wait::Forever,
                Some(until) => Wait::AtMost(until.saturating_duration_since(Instant::now())),
            };
            match self.wake.wait(Some(self.file.as_fd()), wait)? {
                Waited::Ready => {}
                Waited::TimedOut => return Err(io::ErrorKind::WouldBlock.into()),
                Waited::Stopped => {
                    self.is_stopped = true;
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            match self.file.read(room) {
                Ok(size) => {
                    self.is_ended = size == 0;
                    return Ok(size);
                }
                // Another process that shares the descriptor was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
