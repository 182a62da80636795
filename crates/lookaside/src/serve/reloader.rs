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
pub(crate) const ONLY_TABLES: &str = "the new tables are in use, with the previous lookups";

impl From<Failure> for NotReloaded {
    fn from(failure: Failure) -> Self {
        Self {
            reason: failure.line(),
            has_new_tables: false,
        }
    }
}

type ReloadCallback = Box<dyn FnOnce(Result<Reloaded, NotReloaded>) + Send>;

/// A command to the thread.
pub(super) enum ReloaderCommand {
    Reload(ReloadCallback),
    Stop,
}

/// The sending side of the thread's channel.
#[derive(Clone)]
pub(crate) struct Reloader(Sender<ReloaderCommand>);

impl Reloader {
    /// Creates a channel to a thread that is started later.
    pub(crate) fn new() -> (Self, ReloaderCommands) {
        let (sender, receiver) = unbounded();
        (Self(sender), ReloaderCommands(receiver))
    }

    /// Reloads everything, and passes the result to `callback`.
    pub(crate) fn reload(
        &self,
        callback: impl FnOnce(Result<Reloaded, NotReloaded>) + Send + 'static,
    ) {
        // If the thread has ended, the command is dropped together with its callback.
        let _ = self.0.send(ReloaderCommand::Reload(Box::new(callback)));
    }

    /// Tells the thread to end.
    pub(super) fn stop(&self) {
        let _ = self.0.send(ReloaderCommand::Stop);
    }
}

/// The receiving side of the thread's channel.
pub(crate) struct ReloaderCommands(Receiver<ReloaderCommand>);

impl ReloaderCommands {
    /// The next command, if it comes within that time.
    pub(super) fn within(&self, timeout: Duration) -> Result<ReloaderCommand, RecvTimeoutError> {
        self.0.recv_timeout(timeout)
    }
}
