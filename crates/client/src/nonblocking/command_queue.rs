//! Selects the next request: of all callers, or of the one that holds the lock.
//!
//! Cancellations have a separate queue. The next request may wait for the one that they cancel, so
//! they must not wait for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::claim::Claim;
use super::inbox::{Receiver, Sender, inbox};
use crate::poll::Polled;
use crate::{Answers, Request, Result};

/// The channel for answers.
pub(super) type Caller = oneshot::Sender<Result<Answers>>;

/// A command to the owner of the socket.
pub(super) enum Command {
    /// Boxed, because it is moved several times between the caller and the driver.
    Submit(Box<Submission>),
    /// Admits only requests through the channel that is sent back.
    Lock(LockRequest),
    /// Detaches the connection from its task, as soon as all earlier requests are answered. Only
    /// the holder of the lock sends this.
    Detach(Detached),
}

/// The channel for a connection that is detached from its task.
pub(super) type Detached = oneshot::Sender<Box<dyn Polled>>;

/// A request for the lock.
pub(super) struct LockRequest {
    pub(super) granted: oneshot::Sender<Sender<Command>>,
    /// How long the connection may take to be free again once the lock is dropped: to answer its
    /// requests, and to end a transaction. After that it fails. `None` waits without a limit.
    pub(super) release_timeout: Option<Duration>,
}

/// A request of a handle.
pub(super) struct Submission {
    pub(super) request: Request,
    /// `None` if the caller does not wait.
    pub(super) answers: Option<Caller>,
    pub(super) order: Order,
    /// `None` if it is submitted in any case.
    pub(super) claim: Option<Claim>,
}

/// Whether a request waits for those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It does not wait.
    Any,
    /// It is sent when all earlier requests are answered, and later ones when it is. A statement
    /// that begins or ends a transaction must not overtake a query whose statement is still being
    /// prepared.
    Alone,
}

/// The requests that have not been submitted yet.
pub(super) struct CommandQueue {
    shared: Queue,
    cancels: Queue<Claim>,
    holder: Option<LockHolder>,
    /// Whether there is a lock holder, for callers: their requests wait for its end.
    is_locked: Arc<AtomicBool>,
    /// The last request must be answered before anything else is submitted.
    is_alone: bool,
    /// The next request waits until all earlier ones are answered.
    is_held: bool,
}

/// The next action.
pub(super) enum QueueAction {
    /// Submit this.
    Submit(Box<Submission>),
    /// The lock was dropped, and all its requests are answered. The session must be restored, and
    /// then [`CommandQueue::release`]d.
    Release,
    /// Detach the connection.
    Detach(Detached),
    /// Wait.
    Nothing,
}

impl CommandQueue {
    pub(super) fn new(
        shared: Receiver<Command>,
        cancels: Receiver<Claim>,
        is_locked: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shared: Queue::new(shared),
            cancels: Queue::new(cancels),
            holder: None,
            is_locked,
            is_alone: false,
            is_held: false,
        }
    }

    /// The next request to cancel, if it was submitted and is not answered.
    pub(super) fn next_cancel(&mut self, cx: &mut Context<'_>) -> Option<Claim> {
        self.cancels.pop(cx)
    }

    /// The next request. `is_idle` is whether all submitted requests are answered.
    pub(super) fn next(&mut self, cx: &mut Context<'_>, is_idle: bool) -> QueueAction {
        self.is_held = false;
        if self.is_alone && !is_idle {
            return self.hold(cx);
        }
        self.is_alone = false;
        loop {
            let command = match &mut self.holder {
                Some(LockHolder { line, .. }) => match line.pop(cx) {
                    None if line.is_closed && is_idle => return QueueAction::Release,
                    None if line.is_closed => return self.hold(cx),
                    command => command,
                },
                None => self.shared.pop(cx),
            };
            match command {
                None => return QueueAction::Nothing,
                Some(Command::Submit(ask)) if ask.order == Order::Any => {
                    return QueueAction::Submit(ask);
                }
                Some(Command::Submit(ask)) if is_idle => {
                    self.is_alone = true;
                    return QueueAction::Submit(ask);
                }
                Some(Command::Lock(grant)) if is_idle => self.lock(grant),
                Some(Command::Detach(detached)) if is_idle => return QueueAction::Detach(detached),
                Some(command) => {
                    match &mut self.holder {
                        Some(holder) => holder.line.taken.push_front(command),
                        None => self.shared.taken.push_front(command),
                    }
                    return self.hold(cx);
                }
            }
        }
    }

    fn lock(&mut self, grant: LockRequest) {
        assert!(self.holder.is_none(), "a holder does not lock again");
        // Read by `Client::is_locked`. Set before the lock is granted: a request that is made after
        // the lock was dropped still sees it, until the connection is released.
        self.is_locked.store(true, Ordering::Release);
        // There is one caller at a time, which bounds the queue by the answers it waits for.
        let (sender, receiver) = inbox(usize::MAX);
        if grant.granted.send(sender).is_ok() {
            self.holder = Some(LockHolder {
                line: Queue::new(receiver),
                release_timeout: grant.release_timeout,
                release_until: None,
            });
        } else {
            self.release();
        }
    }

    fn hold(&mut self, cx: &mut Context<'_>) -> QueueAction {
        self.is_held = true;
        if let Some(holder) = &mut self.holder {
            holder.watch(cx);
        }
        QueueAction::Nothing
    }

    /// When the connection fails unless it is [`release`](Self::release)d before.
    pub(super) fn release_until(&self) -> Option<Instant> {
        self.holder.as_ref()?.release_until
    }

    /// Whether a request waits until all earlier ones are answered.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Shares the connection again.
    pub(super) fn release(&mut self) {
        self.holder = None;
        self.is_locked.store(false, Ordering::Release);
    }

    /// Whether no handle is left.
    pub(super) fn is_closed(&self) -> bool {
        self.holder.is_none() && self.shared.is_closed && self.shared.taken.is_empty()
    }

    /// Closes the queue, and returns its commands.
    pub(super) fn close(&mut self) -> impl Iterator<Item = Command> {
        let holder = self.holder.take();
        let holder = holder
            .into_iter()
            .flat_map(|mut holder| holder.line.close());
        self.shared.close().chain(holder)
    }
}

/// A caller that holds the lock of the connection.
struct LockHolder {
    line: Queue,
    release_timeout: Option<Duration>,
    /// Set once the holder is gone while requests are in flight.
    release_until: Option<Instant>,
}

impl LockHolder {
    /// Bounds the time of requests that a dropped lock leaves in flight.
    fn watch(&mut self, cx: &mut Context<'_>) {
        if let (Some(timeout), None) = (self.release_timeout, self.release_until)
            && self.line.receiver.poll_abandoned(cx).is_ready()
        {
            self.release_until = Some(Instant::now() + timeout);
        }
    }
}

/// A queue and what was taken from it.
struct Queue<T = Command> {
    receiver: Receiver<T>,
    taken: VecDeque<T>,
    /// All senders are gone.
    is_closed: bool,
}

impl<T> Queue<T> {
    fn new(receiver: Receiver<T>) -> Self {
        Self {
            receiver,
            taken: VecDeque::new(),
            is_closed: false,
        }
    }

    fn pop(&mut self, cx: &mut Context<'_>) -> Option<T> {
        if self.taken.is_empty() && !self.is_closed {
            let taken = self.receiver.poll_take(cx, &mut self.taken);
            self.is_closed = taken == Poll::Ready(false);
        }
        self.taken.pop_front()
    }

    fn close(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.taken)
            .into_iter()
            .chain(self.receiver.close())
    }
}
