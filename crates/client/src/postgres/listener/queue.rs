//! The queue of received events, up to a limit.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::ListenerEvent;
use crate::postgres::Notification;

/// The queue between the task of a connection, which never waits for it, and a listener.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    count_max: usize,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<ListenerEvent>,
    /// The number of notifications after these that did not fit.
    missed_count: u64,
    waker: Option<Waker>,
}

impl Queue {
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            inner: Mutex::default(),
            count_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No panic under the lock leaves the state inconsistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, notification: Notification) {
        let mut inner = self.lock();
        if inner.events.len() < self.count_max {
            inner.flush();
            inner
                .events
                .push_back(ListenerEvent::Notification(notification));
        } else {
            inner.missed_count += 1;
        }
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// All requested channels are listened to, since before the queued events.
    pub(super) fn establish(&self) {
        self.lock().events.push_front(ListenerEvent::Established);
    }

    /// The added channel is listened to, since before the events to come.
    pub(super) fn extend(&self) {
        let mut inner = self.lock();
        inner.flush();
        if !matches!(inner.events.back(), Some(ListenerEvent::Established)) {
            inner.events.push_back(ListenerEvent::Established);
        }
    }

    /// The first event; if there is none, registers the task to be woken.
    pub(super) fn pop(&self, cx: &Context<'_>) -> Option<ListenerEvent> {
        let mut inner = self.lock();
        if inner.events.is_empty() {
            inner.flush();
        }
        let event = inner.events.pop_front();
        if event.is_none() {
            inner.waker = Some(cx.waker().clone());
        }
        event
    }
}

impl Inner {
    /// Adds an event for missed notifications, in order.
    fn flush(&mut self) {
        if self.missed_count > 0 {
            let missed = ListenerEvent::Missed(std::mem::take(&mut self.missed_count));
            self.events.push_back(missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lookaside_value::Text;

    fn shown(queue: &Queue) -> String {
        let cx = Context::from_waker(Waker::noop());
        let events = std::iter::from_fn(|| queue.pop(&cx));
        let events = events.map(|event| match event {
            ListenerEvent::Established => "established".to_owned(),
            ListenerEvent::Lost(error) => error.to_string(),
            ListenerEvent::Notification(notification) => notification.payload.to_string(),
            ListenerEvent::Missed(count) => format!("-{count}"),
        });
        events.collect::<Vec<_>>().join(" ")
    }

    fn push(queue: &Queue, payload: &str) {
        queue.push(Notification {
            channel: Text::from("c"),
            payload: Text::from(payload),
            process_id: 7,
        });
    }

    #[test]
    fn what_is_missed_is_said_in_its_place() {
        let queue = Queue::new(2);
        assert_eq!(shown(&queue), "");
        for payload in ["a", "b", "c", "d"] {
            push(&queue, payload);
        }
        queue.establish();
        assert_eq!(shown(&queue), "established a b -2");
        for payload in ["a", "b", "c"] {
            push(&queue, payload);
        }
        let cx = Context::from_waker(Waker::noop());
        queue.pop(&cx).unwrap();
        push(&queue, "d");
        push(&queue, "e");
        queue.extend();
        queue.extend();
        assert_eq!(shown(&queue), "b -1 d -1 established");
    }
}
