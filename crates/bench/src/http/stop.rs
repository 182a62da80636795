//! The signals that end a run early.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A flag that the first SIGINT or SIGTERM sets, so that the measurement so far is reported. The
/// second ends the process.
pub(super) struct Stop {
    flag: Arc<AtomicBool>,
    /// The last signal; 0 before any.
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Listens until the process ends.
    pub(super) fn listen() -> io::Result<Self> {
        let stop = Self {
            flag: Arc::default(),
            signal: Arc::default(),
        };
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in order of registration, so this one sees the flag unset at the first
            // signal.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.flag))?;
            flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&stop.flag))?;
        }
        Ok(stop)
    }

    pub(super) fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The exit code after a signal, if there was one, as shells count it.
    pub(super) fn exit_code(&self) -> Option<ExitCode> {
        // Relaxed: it synchronizes nothing else.
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok().map(ExitCode::from),
        }
    }
}
