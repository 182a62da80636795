//! The way to the thread that reloads, and what a reload comes to.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::failure::Failure;

/// What a reload did.
#[derive(Clone, Debug)]
pub(crate) struct Reloaded {
    pub(crate) generation: u64,
    pub(crate) elapsed: Duration,
    /// What someone should look at, a line each.
    pub(crate) warnings: Vec<String>,
}

/// Why a reload did not do what it should.
#[derive(Clone, Debug)]
pub(crate) struct NotReloaded {
    pub(crate) reason: String,
    /// Whether the tables are new, and only the lookups are as they were.
    pub(crate) has_new_tables: bool,
}

/// What a reload says that changed the tables alone.
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

/// What the thread is asked for.
pub(super) enum Order {
    Reload(Tell),
    Stop,
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Reloader(Sender<Order>);

impl Reloader {
    /// A way to a thread that is started later, with what it will listen to.
    pub(crate) fn new() -> (Self, Orders) {
        let (sender, receiver) = unbounded();
        (Self(sender), Orders(receiver))
    }

    /// Loads everything again, and says what came of it.
    pub(crate) fn reload(&self, tell: impl FnOnce(Result<Reloaded, NotReloaded>) + Send + 'static) {
        // A thread that has ended drops the order, and with it whoever waits for it.
        let _ = self.0.send(Order::Reload(Box::new(tell)));
    }

    /// Asks the thread to end.
    pub(super) fn stop(&self) {
        let _ = self.0.send(Order::Stop);
    }
}

/// What the thread listens to.
pub(crate) struct Orders(Receiver<Order>);

impl Orders {
    /// The next order, if it comes within that time.
    pub(super) fn within(&self, timeout: Duration) -> Result<Order, RecvTimeoutError> {
        self.0.recv_timeout(timeout)
    }
}
