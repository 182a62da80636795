//! Signals of a long run: SIGINT and SIGTERM end it cleanly, SIGHUP reloads tables.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lookaside_stream::StopFlag;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use tracing::warn;

use crate::failure::{Exit, Failure};

/// How long before the end of the drain timeout waiting operations are cancelled, so that the run
/// can end cleanly even with hundreds of queries on two busy cores; a quarter of the timeout if
/// that is less.
const CANCEL_BEFORE_MAX: Duration = Duration::from_secs(2);

/// How long after the timeout a run that still hangs is ended.
const HANG: Duration = Duration::from_secs(1);

/// Bounds the end of a run after the first signal.
pub(crate) struct Drain {
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// Cancels the operations that it waits for.
    pub(crate) cancel: Box<dyn FnOnce() + Send>,
}

/// Handles signals on its own thread until it is dropped.
pub(crate) struct SignalListener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    ended_by: Arc<AtomicU8>,
}

impl SignalListener {
    /// Starts handling signals: the first SIGINT or SIGTERM raises `stop`, the second one ends the
    /// process at once. The process is also ended if the run does not end within the timeout of
    /// `drain`. Each SIGHUP calls `reload`.
    pub(crate) fn start(
        stop: StopFlag,
        mut drain: Option<Drain>,
        reload: impl Fn() + Send + 'static,
    ) -> Result<Self, Failure> {
        let no_signals = |error| Failure::new("cannot listen for signals").because(&error);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(no_signals)?;
        let handle = signals.handle();
        let ended_by = Arc::new(AtomicU8::new(Exit::Done.number()));
        let thread = thread::Builder::new().name("signals".into()).spawn({
            let ended_by = ended_by.clone();
            move || {
                let mut asked = false;
                for signal in &mut signals {
                    if signal == SIGHUP {
                        reload();
                        continue;
                    }
                    let exit = exit_after(signal);
                    if asked {
                        process::exit(exit.number().into());
                    }
                    // Release pairs with the acquire in `ended_by`; it is stored before the flag is
                    // raised, so a run that ended because of the flag sees it.
                    ended_by.store(exit.number(), Ordering::Release);
                    stop.raise();
                    asked = true;
                    if let Some(drain) = drain.take() {
                        end_in_time(drain, exit);
                    }
                }
            }
        });
        Ok(Self {
            handle,
            thread: Some(thread.map_err(no_signals)?),
            ended_by,
        })
    }

    /// The exit status for the signal that ended the run, if one did.
    pub(crate) fn ended_by(&self) -> Option<Exit> {
        let number = self.ended_by.load(Ordering::Acquire);
        [Exit::Interrupted, Exit::Terminated]
            .into_iter()
            .find(|exit| exit.number() == number)
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A panic on that thread was already reported there, and nothing depends on it here.
            let _ = thread.join();
        }
    }
}

/// Cancels waiting operations shortly before the timeout, and ends the process if that does not
/// help: it may hang in a write whose reader does not read.
fn end_in_time(drain: Drain, exit: Exit) {
    let Drain { timeout, cancel } = drain;
    let wait = move || {
        let before = CANCEL_BEFORE_MAX.min(timeout / 4);
        thread::sleep(timeout - before);
        cancel();
        thread::sleep(before + HANG);
        warn!(
            ?timeout,
            "the run did not end within drain_timeout_ms and is aborted"
        );
        process::exit(exit.number().into());
    };
    // If the thread cannot be started, a second signal ends the process. The thread ends with the
    // process.
    let _ = thread::Builder::new().name("drain".into()).spawn(wait);
}

fn exit_after(signal: i32) -> Exit {
    if signal == SIGTERM {
        Exit::Terminated
    } else {
        Exit::Interrupted
    }
}
