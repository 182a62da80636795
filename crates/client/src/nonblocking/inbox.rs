//! A bounded queue from any number of callers to the one task that owns a socket.
//!
//! Whether the queue is closed and whether an item is put into it are decided in one step under one
//! lock. A channel that grants a permit first and takes the item later has a gap between the two: a
//! receiver that closes and drains in that gap does not see the item. It then stays in a channel
//! that is no longer read for as long as one sender lives, and its waiting caller holds one.
//!
//! ```text
//!   try_send, send, push ──► items ──► poll_take      all items at once
//!                                 └──► close          all remaining items; later ones are returned
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::sync::Lock;

/// The callers' end. The queue is abandoned when it is dropped.
pub(super) struct Sender<T, L: Lock<InboxState<T>> = Mutex<InboxState<T>>>(Arc<Shared<T, L>>);

/// The task's end. The queue is closed when it is dropped.
pub(super) struct Receiver<T, L: Lock<InboxState<T>> = Mutex<InboxState<T>>>(Arc<Shared<T, L>>);

struct Shared<T, L> {
    state: L,
    items: PhantomData<fn(T) -> T>,
}

pub(super) struct InboxState<T> {
    items: VecDeque<T>,
    /// The capacity, not counting items that are [pushed](Sender::push).
    count_max: usize,
    /// The receiver is gone: no more items are accepted.
    is_closed: bool,
    /// The senders are gone: no more items arrive.
    is_abandoned: bool,
    /// Set while the receiver waits for items.
    receiver: Option<Waker>,
    /// The senders that wait for room, by their numbers.
    waiting: BTreeMap<u64, Waker>,
    /// How many senders have waited so far.
    waited_count: u64,
}

/// Why an item was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected<T> {
    /// There is no room at the moment.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// A queue for up to `count_max` items.
pub(super) fn inbox<T, L: Lock<InboxState<T>>>(count_max: usize) -> (Sender<T, L>, Receiver<T, L>) {
    let shared = Arc::new(Shared {
        state: L::new(InboxState {
            items: VecDeque::new(),
            count_max,
            is_closed: false,
            is_abandoned: false,
            receiver: None,
            waiting: BTreeMap::new(),
            waited_count: 0,
        }),
        items: PhantomData,
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> InboxState<T> {
    fn is_full(&self) -> bool {
        self.items.len() >= self.count_max
    }

    /// Adds an item, and returns the waker to call after the lock is released.
    fn put(&mut self, item: T) -> Option<Waker> {
        assert!(!self.is_closed, "a closed queue takes nothing");
        self.items.push_back(item);
        self.receiver.take()
    }

    /// Registers the task of `cx` to be woken on a change. Usually it is already registered.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let waits = |waker: &Waker| waker.will_wake(cx.waker());
        if !self.receiver.as_ref().is_some_and(waits) {
            self.receiver = Some(cx.waker().clone());
        }
    }
}

impl<T, L: Lock<InboxState<T>>> Sender<T, L> {
    /// Sends an item if there is room.
    pub(super) fn try_send(&self, item: T) -> Result<(), Rejected<T>> {
        let receiver = self.0.state.with(|state| {
            if state.is_closed {
                return Err(Rejected::Closed(item));
            }
            if state.is_full() {
                return Err(Rejected::Full(item));
            }
            Ok(state.put(item))
        })?;
        wake(receiver);
        Ok(())
    }

    /// Sends an item as soon as there is room. It is returned if the receiver is gone.
    pub(super) fn send(&self, item: T) -> Sending<'_, T, L> {
        Sending {
            sender: self,
            item: Some(item),
            number: None,
        }
    }

    /// Sends an item, whether there is room or not.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let receiver = self.0.state.with(|state| {
            if state.is_closed {
                return Err(item);
            }
            Ok(state.put(item))
        })?;
        wake(receiver);
        Ok(())
    }

    /// Whether the receiver is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.0.state.with(|state| state.is_closed)
    }
}

impl<T, L: Lock<InboxState<T>>> Drop for Sender<T, L> {
    fn drop(&mut self) {
        let receiver = self.0.state.with(|state| {
            state.is_abandoned = true;
            state.receiver.take()
        });
        wake(receiver);
    }
}

/// See [`Sender::send`].
pub(super) struct Sending<'a, T, L: Lock<InboxState<T>>> {
    sender: &'a Sender<T, L>,
    item: Option<T>,
    /// The number under which this waits for room.
    number: Option<u64>,
}

/// The item is moved out and never pinned.
impl<T, L: Lock<InboxState<T>>> Unpin for Sending<'_, T, L> {}

impl<T, L: Lock<InboxState<T>>> Future for Sending<'_, T, L> {
    type Output = Result<(), T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let receiver = this.sender.0.state.with(|state| {
            if state.is_closed {
                let item = this.item.take().expect("it is not polled again");
                return Poll::Ready(Err(item));
            }
            if state.is_full() {
                let number = *this.number.get_or_insert_with(|| {
                    state.waited_count += 1;
                    state.waited_count
                });
                state.waiting.insert(number, cx.waker().clone());
                return Poll::Pending;
            }
            let item = this.item.take().expect("it is not polled again");
            Poll::Ready(Ok(state.put(item)))
        });
        receiver.map_ok(wake)
    }
}

impl<T, L: Lock<InboxState<T>>> Drop for Sending<'_, T, L> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let waker = self
            .sender
            .0
            .state
            .with(|state| state.waiting.remove(&number));
        // Dropped after the lock is released: a waker's last handle may drop the task that it
        // wakes.
        drop(waker);
    }
}

impl<T, L: Lock<InboxState<T>>> Receiver<T, L> {
    /// Takes all available items, or registers to be woken when there are some. False at the end:
    /// the senders are gone, and everything was taken.
    ///
    /// # Panics
    ///
    /// When `items` is not empty.
    pub(super) fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        items: &mut VecDeque<T>,
    ) -> Poll<bool> {
        assert!(items.is_empty(), "what was taken before was looked at");
        let waiting = self.0.state.with(|state| {
            if !state.items.is_empty() {
                // Both keep their capacity.
                std::mem::swap(&mut state.items, items);
                return Poll::Ready(Some(std::mem::take(&mut state.waiting)));
            }
            if state.is_abandoned {
                return Poll::Ready(None);
            }
            state.wait(cx);
            Poll::Pending
        });
        waiting.map(|waiting| {
            let Some(waiting) = waiting else { return false };
            // All of them are woken, since a sender that is dropped instead of sending wakes no
            // other.
            waiting.into_values().for_each(Waker::wake);
            true
        })
    }

    /// Whether the senders are gone, regardless of items; otherwise registers the task of `cx` to
    /// be woken when they are.
    pub(super) fn poll_abandoned(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.state.with(|state| {
            if state.is_abandoned {
                return Poll::Ready(());
            }
            state.wait(cx);
            Poll::Pending
        })
    }

    /// Closes the queue, and returns its items. Later items are returned to their senders.
    pub(super) fn close(&mut self) -> VecDeque<T> {
        let (items, waiting, receiver) = self.0.state.with(|state| {
            state.is_closed = true;
            let items = std::mem::take(&mut state.items);
            (
                items,
                std::mem::take(&mut state.waiting),
                state.receiver.take(),
            )
        });
        drop(receiver);
        waiting.into_values().for_each(Waker::wake);
        items
    }
}

impl<T, L: Lock<InboxState<T>>> Drop for Receiver<T, L> {
    fn drop(&mut self) {
        // Items are dropped here, after the lock is released, which wakes the tasks that wait for
        // them.
        drop(self.close());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
