//! The state that the I/O threads and the run share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lookaside_http::Waker;
use lookaside_stream::StopFlag;

use super::buffer::Buffer;
use super::options::WebhookOptions;
use super::queue::RequestQueue;

/// What all I/O threads and the run share.
pub(super) struct Shared {
    pub(super) options: WebhookOptions,
    /// Whether events are JSON.
    pub(super) is_json: bool,
    /// The path, as the topic of messages.
    pub(super) topic: Arc<str>,
    pub(super) buffer: Arc<Buffer>,
    pub(super) queue: RequestQueue,
    /// Raised when the run is to end.
    stop: StopFlag,
    /// Set when nothing is delivered any more.
    is_ended: AtomicBool,
    /// Wakes the I/O threads.
    wakers: Mutex<Vec<Waker>>,
    request_count: AtomicU32,
}

impl Shared {
    pub(super) fn new(options: WebhookOptions, is_json: bool, stop: StopFlag) -> Self {
        Self {
            is_json,
            topic: options.path.as_str().into(),
            buffer: Buffer::new(options.buffer_max),
            queue: RequestQueue::default(),
            stop,
            is_ended: AtomicBool::new(false),
            wakers: Mutex::default(),
            request_count: AtomicU32::new(0),
            options,
        }
    }

    pub(super) fn add_waker(&self, waker: Waker) {
        self.wakers().push(waker);
    }

    /// Whether requests are refused because the run is ending.
    pub(super) fn is_ending(&self) -> bool {
        self.stop.is_raised() || self.is_ended()
    }

    /// Whether nothing is delivered any more.
    pub(super) fn is_ended(&self) -> bool {
        // Acquire pairs with the release in `end`: deliveries before it have been reported.
        self.is_ended.load(Ordering::Acquire)
    }

    /// Drops the requests that the run has not read, and has all requests answered that still wait.
    /// May be called from any thread, and several times.
    pub(super) fn end(&self) {
        self.queue.clear();
        self.is_ended.store(true, Ordering::Release);
        self.wakers().iter().for_each(Waker::wake);
    }

    /// Takes no further requests. May be called from any thread.
    pub(super) fn close(&self) {
        self.queue.close();
        self.wakers().iter().for_each(Waker::wake);
    }

    /// The number of a partition, which begins at 0 again after 2^31 requests.
    pub(super) fn next_number(&self) -> i32 {
        // Relaxed: it synchronizes nothing else.
        let number = self.request_count.fetch_add(1, Ordering::Relaxed);
        (number & i32::MAX.cast_unsigned()).cast_signed()
    }

    /// A panic leaves the list consistent.
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
