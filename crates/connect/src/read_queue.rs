//! The thread of a source, and the queue of what it has read.

use std::io;
use std::mem;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use lookaside_stream::{MessageRead, MessageSource, Messages};

use crate::{Error, Result};

/// How many payload bytes are passed on at once: as a block of bytes, they stay in a core's
/// second-level cache.
pub(crate) const READ_SIZE: usize = 128 << 10;

/// How many messages are passed on at once, if they are small.
pub(crate) const READ_COUNT: usize = 4096;

/// How many reads wait for the run. One more is being filled, so that neither side waits for the
/// other after each.
const READ_COUNT_MAX: usize = 2;

/// A source whose own thread reads from a broker, as the dialogue with the broker goes on while the
/// run does not read.
pub(crate) struct QueuedSource {
    reads: Option<Receiver<io::Result<Messages>>>,
    /// Returns the memory of reads.
    spares: Sender<Messages>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The end of the thread.
pub(crate) struct ReadQueue {
    /// Reads, or the error that ends the source.
    pub(crate) reads: Sender<io::Result<Messages>>,
    /// Memory of reads that were processed.
    pub(crate) spares: Receiver<Messages>,
    /// Disconnected when the source is being closed.
    pub(crate) stopped: Receiver<()>,
}

impl QueuedSource {
    /// Starts the thread of the connector `name`. Its function reads until the queue is stopped or
    /// it has sent an error, then stores the positions; its result is that of `close`.
    pub(crate) fn start(
        name: &str,
        thread_name: &str,
        run: impl FnOnce(ReadQueue) -> io::Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (sender, reads) = bounded(READ_COUNT_MAX);
        let (spares, spare_reads) = bounded(READ_COUNT_MAX + 1);
        let (stop, stopped) = bounded(0);
        let queue = ReadQueue {
            reads: sender,
            spares: spare_reads,
            stopped,
        };
        let thread = std::thread::Builder::new()
            .name(thread_name.into())
            .spawn(move || run(queue))
            .map_err(|error| Error::no_thread(name, &error))?;
        Ok(Self {
            reads: Some(reads),
            spares,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl MessageSource for QueuedSource {
    fn read(&mut self, messages: &mut Messages, timeout: Duration) -> io::Result<MessageRead> {
        let reads = self.reads.as_ref().expect("a closed source is not read");
        let read = match reads.recv_timeout(timeout) {
            Ok(read) => read?,
            Err(RecvTimeoutError::Timeout) => return Ok(MessageRead::Idle),
            // The thread has ended: after an error, which was returned, or by a panic.
            Err(RecvTimeoutError::Disconnected) => {
                self.close()?;
                return Ok(MessageRead::End);
            }
        };
        let _ = self.spares.try_send(mem::replace(messages, read));
        messages.remove_revoked();
        Ok(match messages.is_empty() {
            true => MessageRead::Idle,
            false => MessageRead::Messages,
        })
    }

    fn close(&mut self) -> io::Result<()> {
        // What was read and not processed is read again by the next run.
        self.reads = None;
        self.stop = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(stored)) => stored,
            Some(Err(_)) => Err(io::Error::other("the thread of the source panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for QueuedSource {
    fn drop(&mut self) {
        // An error was returned by an explicit call of `close`, or is not needed.
        let _ = self.close();
    }
}

#[cfg(any(feature = "redis", feature = "nats"))]
impl ReadQueue {
    /// Whether the source is being closed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.try_recv() != Err(crossbeam_channel::TryRecvError::Empty)
    }

    /// Passes messages on if the run takes them within the time, and replaces them by empty ones.
    /// Returns whether it did.
    pub(crate) fn pass_on(&self, messages: &mut Messages, timeout: Duration) -> bool {
        use crossbeam_channel::SendTimeoutError;

        match self.reads.send_timeout(Ok(mem::take(messages)), timeout) {
            Ok(()) => {
                *messages = self.spares.try_recv().unwrap_or_default();
                messages.clear();
                true
            }
            Err(SendTimeoutError::Timeout(back)) => {
                *messages = back.expect("messages were sent");
                false
            }
            // The source is being closed.
            Err(SendTimeoutError::Disconnected(_)) => false,
        }
    }
}
