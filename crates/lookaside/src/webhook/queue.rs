//! The requests that wait for the run.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lookaside_stream::Partition;

use super::events::Events;

/// A request whose body is complete.
pub(super) struct Received {
    pub(super) partition: Arc<Partition>,
    pub(super) events: Events,
    pub(super) metadata: Metadata,
}

/// What models can read of a request.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// When its head arrived, in milliseconds since 1970.
    pub(super) arrived_ms: i64,
    pub(super) key: Option<Box<[u8]>>,
    /// The positions in `headers` of the options, and the values.
    pub(super) headers: Vec<(usize, Box<[u8]>)>,
}

impl Metadata {
    /// The size of its key and its headers in bytes.
    pub(super) fn size(&self) -> usize {
        let values = self.headers.iter().map(|(_, value)| value);
        self.key.iter().chain(values).map(|value| value.len()).sum()
    }
}

/// A queue from the I/O threads to the run. Its size is limited by the
/// [`Buffer`](super::buffer::Buffer).
#[derive(Default)]
pub(super) struct RequestQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<Received>,
    /// Whether no further requests are taken.
    is_closed: bool,
    /// Whether the server has ended by itself.
    has_failed: bool,
}

/// The result of waiting for a request.
pub(super) enum Taken {
    Request(Received),
    /// There was none within the time.
    Nothing,
    /// There will be no more.
    End,
}

/// A queue that takes a request.
pub(super) struct OpenQueue<'q> {
    state: MutexGuard<'q, QueueState>,
    changed: &'q Condvar,
}

impl OpenQueue<'_> {
    pub(super) fn push(mut self, request: Received) {
        self.state.requests.push_back(request);
        self.changed.notify_one();
    }
}

impl RequestQueue {
    /// Locks the queue for a request; `None` if it takes no more.
    pub(super) fn open(&self) -> Option<OpenQueue<'_>> {
        let state = self.lock();
        let changed = &self.changed;
        (!state.is_closed).then_some(OpenQueue { state, changed })
    }

    /// Takes no further requests; those that are in it can be read.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Takes no further requests, and drops those that are in it.
    pub(super) fn clear(&self) {
        let dropped = {
            let mut state = self.lock();
            state.is_closed = true;
            std::mem::take(&mut state.requests)
        };
        self.changed.notify_all();
        drop(dropped);
    }

    /// Makes reads fail, because the server has ended by itself.
    pub(super) fn fail(&self) {
        self.lock().has_failed = true;
        self.changed.notify_all();
    }

    /// The next request; waits for it no longer than `timeout`.
    ///
    /// # Errors
    /// When the server has failed.
    pub(super) fn take(&self, timeout: Duration) -> io::Result<Taken> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(request) = state.requests.pop_front() {
                return Ok(Taken::Request(request));
            }
            if state.has_failed {
                return Err(io::Error::other("the HTTP server ended unexpectedly"));
            }
            if state.is_closed {
                return Ok(Taken::End);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Taken::Nothing);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nothing that holds this lock leaves the state inconsistent when it panics.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::BodyKind;
    use super::*;

    fn push(queue: &RequestQueue) -> bool {
        let Some(queue) = queue.open() else {
            return false;
        };
        queue.push(Received {
            partition: Partition::new("/events", 0),
            events: Events::new(b"{}".to_vec(), BodyKind::JsonLines).unwrap(),
            metadata: Metadata::default(),
        });
        true
    }

    #[test]
    fn what_is_in_a_queue_is_read_before_its_end() {
        let minute = Duration::from_secs(60);
        for ends in [
            |queue: &RequestQueue| queue.close(),
            |queue: &RequestQueue| queue.fail(),
        ] {
            let queue = RequestQueue::default();
            assert!(matches!(queue.take(Duration::ZERO), Ok(Taken::Nothing)));
            assert!(push(&queue));
            ends(&queue);
            assert!(matches!(queue.take(minute), Ok(Taken::Request(_))));
            assert!(!matches!(queue.take(minute), Ok(Taken::Nothing)));
        }
        let queue = RequestQueue::default();
        push(&queue);
        queue.close();
        assert!(!push(&queue));
        queue.clear();
        assert!(matches!(queue.take(minute), Ok(Taken::End)));
    }

    #[test]
    fn a_read_fails_when_the_server_has_ended() {
        let queue = RequestQueue::default();
        std::thread::scope(|scope| {
            let read = scope.spawn(|| queue.take(Duration::from_secs(60)).map(|_| ()));
            queue.fail();
            let error = read.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("HTTP server"), "{error}");
        });
    }
}
