//! Signals of a long run: SIGINT and SIGTERM end it in good order, SIGHUP reloads tables.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};

use lookaside_stream::StopFlag;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::cli::failure::{Exit, Failure};

/// Listens on a thread of its own until it is dropped.
pub(crate) struct SignalListener {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    ended_by: Arc<AtomicU8>,
}

impl SignalListener {
    /// Starts to listen: the first SIGINT or SIGTERM raises `stop`, the second ends the process at
    /// once, each SIGHUP calls `reload`.
    pub(crate) fn start(
        stop: StopFlag,
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
                    // Release pairs with the acquire in `ended_by`; it is stored before the flag
                    // is raised, so a run that ended because of the flag finds it.
                    ended_by.store(exit.number(), Ordering::Release);
                    stop.raise();
                    asked = true;
                }
            }
        });
        Ok(Self {
            handle,
            thread: Some(thread.map_err(no_signals)?),
            ended_by,
        })
    }

    /// The signal that asked the run to end, as an exit, if one did.
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

fn exit_after(signal: i32) -> Exit {
    if signal == SIGTERM {
        Exit::Terminated
    } else {
        Exit::Interrupted
    }
}
