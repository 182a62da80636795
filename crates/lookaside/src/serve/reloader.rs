//! The handle of the reloader thread, and the results of reloads.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::failure::Failure;

/// The result of a successful reload.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    pub(crate) generation: u64,
    pub(crate) elapsed: Duration,
    /// Warnings for the operator, one line each.
    pub(crate) warnings: Vec<String>,
}

/// Why a reload failed.
#[derive(Clone, Debug)]
pub(crate) struct NotReloaded {
    pub(crate) reason: String,
    /// Whether the tables were reloaded, and only the lookups are unchanged.
    pub(crate) has_new_tables: bool,
}

/// The message of a reload that replaced the tables only.
pub(crate) const ONLY_TABLES: &str = "the tables are new, the lookups stay as they were";

impl From<Failure> for NotReloaded {
    fn from(failure: Failure) -> Self {
        Self {
            reason: failure.line(),
            has_new_tables: false,
        }
    }
}

type Tell = Box<dyn FnOnce(Result<Reloaded, NotReloaded>) + Send>;

/// A command to the thread.
pub(super) enum Order {
    Reload(Tell),
    Stop,
}

/// The sending side of the thread's channel.
#[derive(Clone)]
pub(crate) struct Reloader(Sender<Order>);

impl Reloader {
    /// Creates a channel to a thread that is started later.
    pub(crate) fn new() -> (Self, Orders) {
        let (sender, receiver) = unbounded();
        (Self(sender), Orders(receiver))
    }

    /// Reloads everything, and passes the result to `tell`.
    pub(crate) fn reload(&self, tell: impl FnOnce(Result<Reloaded, NotReloaded>) + Send + 'static) {
        // If the thread has ended, the order is dropped together with its callback.
        let _ = self.0.send(Order::Reload(Box::new(tell)));
    }

    /// Tells the thread to end.
    pub(super) fn stop(&self) {
        let _ = self.0.send(Order::Stop);
    }
}

/// The receiving side of the thread's channel.
pub(crate) struct Orders(Receiver<Order>);

impl Orders {
    /// The next order, if it comes within that time.
    pub(super) fn within(&self, timeout: Duration) -> Result<Order, RecvTimeoutError> {
        self.0.recv_timeout(timeout)
    }
}
