//! What other threads tell an I/O thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::Response;
use crate::remote::Source;
use crate::request::Peer;

/// What a thread is told.
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
    /// A [`BodyWriter`](crate::BodyWriter) has something.
    Written(u64),
    /// A [`BodyReader`](crate::BodyReader) has room again.
    Resume(u64),
    /// The server drains.
    Stop,
}

/// A queue with a descriptor that becomes ready. A batch of messages costs one wake: only who
/// finds the queue empty writes to the descriptor.
#[derive(Debug)]
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    event: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            messages: Mutex::new(Vec::new()),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub(crate) fn send(&self, message: Message) {
        let was_empty = {
            let mut messages = self.lock();
            messages.push(message);
            messages.len() == 1
        };
        if was_empty {
            // It fails only when the counter is at its end, and then the thread is awake.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Moves all messages into an empty list, which becomes the queue.
    pub(crate) fn receive(&self, messages: &mut Vec<Message>) {
        assert!(messages.is_empty(), "what was received is worked off first");
        // Reset before the queue is emptied: whoever finds it empty afterwards writes again.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        std::mem::swap(&mut *self.lock(), messages);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        // Nothing can panic while it is held but an allocation.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) mailbox: std::sync::Arc<Mailbox>,
    pub(crate) token: u64,
}

impl Waker {
    /// Wakes it.
    pub fn wake(&self) {
        self.mailbox.send(Message::Wake(self.token));
    }
}
