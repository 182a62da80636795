//! A flag that stops a run, and wakes threads that sleep in a read.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a run after its current batches; clones are handles to the same flag.
///
/// A read that waits for input sleeps in `poll`, where a plain flag would not be seen. So the flag
/// includes a pipe: raising it writes one byte that is never read, and from then on every `poll`
/// that includes [`Self::wake_fd`] returns at once.
///
/// ```
/// let stop = lookaside_stream::StopFlag::new()?;
/// assert!(!stop.is_raised());
/// stop.raise();
/// assert!(stop.clone().is_raised());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct StopFlag(Arc<Inner>);

struct Inner {
    raised: AtomicBool,
    wake_reader: PipeReader,
    wake_writer: PipeWriter,
}

impl StopFlag {
    /// A flag that is not raised.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let (wake_reader, wake_writer) = io::pipe()?;
        Ok(Self(Arc::new(Inner {
            raised: AtomicBool::new(false),
            wake_reader,
            wake_writer,
        })))
    }

    /// Raises the flag, for good; raising it again does nothing.
    pub fn raise(&self) {
        // Release pairs with the acquire in `is_raised`: a thread that sees the flag sees
        // everything before it.
        if !self.0.raised.swap(true, Ordering::Release) {
            // One byte fits in an empty pipe whose other end this flag keeps open, so the write
            // cannot block; after an error, a sleeping read would only wake with its next input.
            let _ = (&self.0.wake_writer).write(&[1]);
        }
    }

    /// Whether the flag was raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// A descriptor that is readable once the flag is raised; never read from it.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake_reader.as_fd()
    }
}

impl fmt::Debug for StopFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopFlag").field(&self.is_raised()).finish()
    }
}
