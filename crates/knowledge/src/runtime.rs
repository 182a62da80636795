//! The thread that runs the connections to other databases.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Error;

/// A runtime of one thread, which only transfers bytes: callers wait on their own thread or task.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    /// Dropping it ends the thread.
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
                // The error means that the sender was dropped, which is the signal to stop.
                let _ = runtime.block_on(stopped);
                // Pending host name lookups are not awaited.
                runtime.shutdown_background();
            })
            .map_err(Error::provider_thread)?;
        Ok(Arc::new(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// Polls a future on the caller's thread, in the context of this runtime. Connections and
    /// timers that it starts run on the runtime's thread; so a query needs no task, and its answer
    /// goes directly from the connection to the caller.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _there = self.handle.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Spawns a future on the runtime, without waiting for it.
    pub(crate) fn start_task(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // There is no result; a panic was reported by its own task.
            let _ = thread.join();
        }
    }
}
