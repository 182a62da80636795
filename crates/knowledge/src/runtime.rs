//! The thread on which the connections to other databases live.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Error;

/// A runtime of one thread, which does nothing but move bytes: whoever asks decodes nothing here
/// twice and waits on a thread or a task of its own.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(crate) fn start() -> Result<Arc<Self>> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::provider_thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("lookaside-providers".to_owned())
            .spawn(move || {
                // The error is the sender's end, which is what is waited for.
                let _ = runtime.block_on(stopped);
                // A host name that is being looked up is not waited for.
                runtime.shutdown_background();
            })
            .map_err(Error::provider_thread)?;
        Ok(Arc::new(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// Runs a future wherever its caller is. What it starts, connections and clocks, lives there,
    /// as long as this does; so a question costs no task, and its answer comes straight from the
    /// connection to whoever waits for it.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _there = self.handle.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Starts a future there that nobody waits for.
    pub(crate) fn start_task(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say; a panic there was reported by its own task.
            let _ = thread.join();
        }
    }
}
