//! Pipes for bodies between an I/O thread and another thread.

use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The capacity in bytes of a pipe in either direction; when it is full, the writer waits. Large
/// enough that context switches are rare, small enough for hundreds of uploads.
const CHANNEL_SIZE_MAX: usize = 256 << 10;

/// A pipe of bytes from one thread to another.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    flow: Mutex<Flow>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Flow {
    bytes: Vec<u8>,
    /// Header lines that are sent after the body; empty until it has ended.
    trailers: Vec<u8>,
    /// The body has ended regularly.
    is_ended: bool,
    /// The other side is gone.
    is_broken: bool,
    /// The reason, if the body came too slowly.
    slow: Option<SlowBody>,
    /// For a writer: the I/O thread was notified and has not read since. For a reader: the I/O
    /// thread stopped for lack of room and wants to be notified.
    is_notified: bool,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        // Only an allocation can panic while the lock is held.
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, flow: MutexGuard<'a, Flow>) -> MutexGuard<'a, Flow> {
        self.moved
            .wait(flow)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_within<'a>(
        &self,
        flow: MutexGuard<'a, Flow>,
        timeout: Duration,
    ) -> MutexGuard<'a, Flow> {
        let waited = self.moved.wait_timeout(flow, timeout);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes as many bytes as there is room for, waiting until there is some. Returns their
    /// number, and whether the I/O thread has to be notified.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        let mut flow = self.lock();
        while flow.bytes.len() >= CHANNEL_SIZE_MAX && !flow.is_broken {
            flow = self.wait(flow);
        }
        if flow.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let size = bytes.len().min(CHANNEL_SIZE_MAX - flow.bytes.len());
        flow.bytes.extend_from_slice(&bytes[..size]);
        assert!(
            flow.bytes.len() <= CHANNEL_SIZE_MAX,
            "the queue between two threads is bounded"
        );
        let was_notified = mem::replace(&mut flow.is_notified, true);
        Ok((size, !was_notified))
    }

    /// Ends the body, followed by these header lines.
    pub(crate) fn end(&self, trailers: Vec<u8>) {
        let mut flow = self.lock();
        flow.trailers = trailers;
        flow.is_ended = true;
    }

    /// Waits for bytes, with an optional deadline, and moves them to `taken`, which must be empty.
    pub(crate) fn take(&self, taken: &mut Vec<u8>, until: Option<Instant>) -> io::Result<Taken> {
        assert!(taken.is_empty(), "the previous piece was read");
        let mut flow = self.lock();
        while flow.bytes.is_empty() {
            if flow.is_ended {
                return Ok(Taken::End);
            }
            if flow.is_broken {
                return Err(match flow.slow {
                    Some(slow) => io::Error::new(io::ErrorKind::TimedOut, slow),
                    None => io::ErrorKind::ConnectionAborted.into(),
                });
            }
            flow = match until {
                None => self.wait(flow),
                Some(until) => {
                    let timeout = until.saturating_duration_since(Instant::now());
                    if timeout.is_zero() {
                        return Ok(Taken::Nothing);
                    }
                    self.wait_within(flow, timeout)
                }
            };
        }
        mem::swap(&mut flow.bytes, taken);
        Ok(Taken::Some {
            is_room_wanted: mem::take(&mut flow.is_notified),
        })
    }

    /// Called when the reader is dropped.
    pub(crate) fn close(&self) {
        self.lock().is_broken = true;
    }

    /// Aborts the body; the other side gets an error.
    pub(crate) fn break_off(&self) {
        self.lock().is_broken = true;
        self.moved.notify_all();
    }
}

/// The result of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Some {
        /// Whether the I/O thread stopped for lack of room and has to be notified that there is
        /// some again.
        is_room_wanted: bool,
    },
    End,
    /// Nothing arrived before the deadline.
    Nothing,
}

/// The I/O thread's end of a [`BodyWriter`](crate::BodyWriter).
#[derive(Debug)]
pub(crate) struct Source {
    channel: Arc<Channel>,
}

/// The result of [`Source::pull`].
pub(crate) enum Pulled {
    /// It may have more later.
    Some,
    End {
        /// Header lines that are sent after the body.
        trailers: Vec<u8>,
    },
    /// The writer aborted the body.
    Broken,
}

impl Source {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        Self { channel }
    }

    /// Appends the written bytes to `out`.
    pub(crate) fn pull(&self, out: &mut Vec<u8>) -> Pulled {
        let mut flow = self.channel.lock();
        flow.is_notified = false;
        out.extend_from_slice(&flow.bytes);
        flow.bytes.clear();
        let pulled = match (flow.is_ended, flow.is_broken) {
            (true, _) => Pulled::End {
                trailers: mem::take(&mut flow.trailers),
            },
            (false, true) => Pulled::Broken,
            (false, false) => Pulled::Some,
        };
        drop(flow);
        self.channel.moved.notify_all();
        pulled
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.channel.break_off();
    }
}

/// The I/O thread's end of a [`BodyReader`](crate::BodyReader).
#[derive(Debug)]
pub(crate) struct Feed {
    channel: Arc<Channel>,
}

/// The result of [`Feed::push`].
pub(crate) enum Pushed {
    HasRoom,
    /// The piece was taken; there is no room for the next one.
    Full,
    /// The reader was dropped.
    Unwanted,
}

impl Feed {
    pub(crate) fn new(channel: Arc<Channel>) -> Self {
        Self { channel }
    }

    /// Takes a piece of the body.
    pub(crate) fn push(&self, bytes: &[u8]) -> Pushed {
        let mut flow = self.channel.lock();
        if flow.is_broken {
            return Pushed::Unwanted;
        }
        flow.bytes.extend_from_slice(bytes);
        flow.is_notified = flow.bytes.len() >= CHANNEL_SIZE_MAX;
        let pushed = match flow.is_notified {
            true => Pushed::Full,
            false => Pushed::HasRoom,
        };
        drop(flow);
        self.channel.moved.notify_all();
        pushed
    }

    /// Aborts the body because it came too slowly.
    pub(crate) fn give_up(self, slow: SlowBody) {
        self.channel.lock().slow = Some(slow);
    }

    /// Ends the body, which is complete.
    pub(crate) fn end(self) {
        self.channel.lock().is_ended = true;
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.channel.break_off();
    }
}

/// Why the body of a [live](crate::Route::live) route was given up: the error within the
/// [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut) that its reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowBody {
    /// No byte came for this long,
    /// [`Options::stream_idle_timeout`](crate::Options::stream_idle_timeout).
    Idle(Duration),
    /// It came with fewer bytes per second than this,
    /// [`Options::stream_rate_min`](crate::Options::stream_rate_min).
    Rate(u64),
}

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle(timeout) => {
                write!(
                    f,
                    "no data of the body was received for {} ms",
                    timeout.as_millis()
                )
            }
            Self::Rate(rate_min) => {
                write!(
                    f,
                    "the body was received with fewer than {rate_min} bytes per second"
                )
            }
        }
    }
}

impl std::error::Error for SlowBody {}
