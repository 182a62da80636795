//! The thread of a sink that writes, and the queue between them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};
use lookaside_stream::StopFlag;

use crate::write_queue::WriteState;
use crate::{Error, Result};

/// The thread of a sink, and the queue of what it is to write.
pub(crate) struct WriteThread<T> {
    pub(crate) shared: Arc<WriteState>,
    /// The length of the queue is limited by `size_max`.
    queue: Option<Sender<T>>,
    size_max: usize,
    thread: Option<JoinHandle<()>>,
    give_up: Option<StopFlag>,
}

impl<T: Send + 'static> WriteThread<T> {
    /// Starts the thread of the connector `name`. At most `size_max` bytes are under way.
    pub(crate) fn start(
        name: &str,
        thread_name: &str,
        size_max: usize,
        write: impl FnOnce(&Receiver<T>, Arc<WriteState>) + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(WriteState::new(name));
        let (sender, receiver) = unbounded();
        let thread = std::thread::Builder::new()
            .name(thread_name.into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || write(&receiver, shared)
            })
            .map_err(|error| Error::no_thread(name, &error))?;
        Ok(Self {
            shared,
            queue: Some(sender),
            size_max,
            thread: Some(thread),
            give_up: None,
        })
    }

    /// Passes what has a size on, once there is room.
    ///
    /// # Errors
    /// As [`WriteState::begin`].
    pub(crate) fn write(&self, item: T, size: usize) -> io::Result<()> {
        self.shared
            .begin(size, self.size_max, self.give_up.as_ref())?;
        self.pass(item);
        Ok(())
    }

    /// Waits until there is room, no longer than `timeout`; returns whether that is so.
    ///
    /// # Errors
    /// As [`WriteState::begin`].
    pub(crate) fn wait_room(&self, timeout: Duration) -> io::Result<bool> {
        (self.shared).wait_room(self.size_max, timeout, self.give_up.as_ref())
    }

    /// Passes what has a size on, whether there is room or not.
    #[cfg(feature = "postgres")]
    pub(crate) fn write_now(&self, item: T, size: usize) {
        self.shared.add(size);
        self.pass(item);
    }

    /// Passes what has no size on.
    pub(crate) fn pass(&self, item: T) {
        let queue = self.queue.as_ref().expect("there is a thread");
        // After a failure, the next write reports it.
        let _ = queue.send(item);
    }

    /// Waits until nothing is under way, no longer than `timeout`; returns whether that is so.
    ///
    /// # Errors
    /// As [`WriteState::begin`].
    pub(crate) fn flush(&self, timeout: Duration) -> io::Result<bool> {
        self.shared.flush(timeout, self.give_up.as_ref())
    }

    /// Sets the flag that ends waits.
    pub(crate) fn attach(&mut self, give_up: &StopFlag) {
        self.give_up = Some(give_up.clone());
    }
}

impl<T> Drop for WriteThread<T> {
    fn drop(&mut self) {
        self.shared.close();
        self.queue = None;
        // A run that gives up does not wait for an answer that may never come; the thread ends when
        // that is clear.
        if let Some(thread) = self.thread.take()
            && !self.give_up.as_ref().is_some_and(StopFlag::is_raised)
        {
            let _ = thread.join();
        }
    }
}
