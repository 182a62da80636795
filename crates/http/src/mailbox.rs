//! Messages from other threads to an I/O thread.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::Response;
use crate::channel::Source;
use crate::peer::Peer;
use crate::serial::SerialJob;

/// A message to an I/O thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection that another thread has accepted.
    Connection(OwnedFd, Peer, usize),
    /// A [`Waker`] was used.
    Wake(u64),
    /// A [`Deferred`](crate::Deferred) is answered.
    Respond(u64, Response),
    /// A [`Deferred`](crate::Deferred) is answered by a body that follows.
    Stream(u64, Response, Source),
    /// A [`BodyWriter`](crate::BodyWriter) has written something.
    Written(u64),
    /// A [`BodyReader`](crate::BodyReader) has room again.
    Resume(u64),
    /// The server drains.
    Stop,
}

#[derive(Debug, Default)]
struct Letters {
    messages: Vec<Message>,
    /// From the serial stage.
    jobs: Vec<SerialJob>,
    /// The thread has ended, and messages are dropped, so that threads that wait for an answer are
    /// notified.
    is_closed: bool,
}

/// A queue with a descriptor that becomes ready. A batch of messages costs one wake: only a sender
/// that finds the queue empty writes to the descriptor.
#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: Mutex<Letters>,
    event: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            letters: Mutex::default(),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn send(&self, message: Message) {
        self.put(|letters| letters.messages.push(message));
    }

    /// Sends all jobs of a list.
    pub(crate) fn send_jobs(&self, jobs: &mut Vec<SerialJob>) {
        self.put(|letters| letters.jobs.append(jobs));
        // They are still in the list if the mailbox is closed.
        jobs.clear();
    }

    fn put(&self, put: impl FnOnce(&mut Letters)) {
        let was_empty = {
            let mut letters = self.lock();
            if letters.is_closed {
                return;
            }
            let was_empty = letters.messages.is_empty() && letters.jobs.is_empty();
            put(&mut letters);
            was_empty
        };
        if was_empty {
            // It fails only if the counter is at its maximum, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Swaps the queue with the given empty lists.
    pub(crate) fn receive(&self, messages: &mut Vec<Message>, jobs: &mut Vec<SerialJob>) {
        assert!(
            messages.is_empty() && jobs.is_empty(),
            "what came is worked off first"
        );
        // Reset before the queue is emptied: a sender that finds it empty afterwards writes again.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        let mut letters = self.lock();
        mem::swap(&mut letters.messages, messages);
        mem::swap(&mut letters.jobs, jobs);
    }

    /// Drops all messages, and those to come.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut letters = self.lock();
            letters.is_closed = true;
            (
                mem::take(&mut letters.messages),
                mem::take(&mut letters.jobs),
            )
        };
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        // Only an allocation can panic while the lock is held.
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Wakes a service from another thread: [`Service::woken`](crate::Service::woken) is called on the
/// thread of the [`Io`](crate::Io) that made it.
#[derive(Clone)]
pub struct Waker {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) token: u64,
}

impl Waker {
    /// Wakes the thread.
    pub fn wake(&self) {
        self.mailbox.send(Message::Wake(self.token));
    }
}
