//! Runs a command in front of us: signals reach it, and its end is ours to tell.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Once};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use crate::failure::{Exit, Failure};

/// What shells say when a command was found and cannot be run, and when it was not found.
const EXIT_NOT_RUN: Exit = Exit::Passed(126);
const EXIT_NOT_FOUND: Exit = Exit::Passed(127);

/// Keeps signals from ending this process, so that what it holds can be cleaned up, and runs
/// commands to which they go.
pub(super) struct Foreground {
    signals: SignalsInfo<WithOrigin>,
}

/// What is listened to beside the end of the command.
const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Whether no command runs in front of us, so that signals end this process. A handler that was
/// installed stays, so it does what the system would.
static IS_ALONE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

impl Foreground {
    /// From here on, signals are for the command.
    pub(super) fn take() -> Result<Self, Failure> {
        let failure = |error| Failure::new("cannot listen for signals").because(&error);
        static HANDLERS: Once = Once::new();
        let mut installed = Ok(());
        // Before ours, as they run in this order: once ours has told of a signal, another thread may
        // have been done with the command before the handler comes to the next.
        HANDLERS.call_once(|| {
            installed = SIGNALS.iter().try_for_each(|signal| {
                register_conditional_default(*signal, IS_ALONE.clone()).map(drop)
            });
        });
        installed.map_err(failure)?;
        let signals = SignalsInfo::new(SIGNALS.iter().chain([&SIGCHLD])).map_err(failure)?;
        IS_ALONE.store(false, Relaxed);
        Ok(Self { signals })
    }

    /// Runs a command to its end.
    pub(super) fn run(&mut self, command: &mut Command) -> Result<ExitStatus, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failure = |exit, error: &io::Error| {
            Failure::new(format!("cannot run `{program}`"))
                .because(error)
                .with_exit(exit)
        };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failure(EXIT_NOT_FOUND, &error));
            }
            Err(error) => return Err(failure(EXIT_NOT_RUN, &error)),
        };
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(failure(Exit::Failed, &error)),
            }
            // The command's own end is a signal too, so this never waits for nothing.
            for origin in self.signals.wait() {
                pass_on(&child, &origin);
            }
        }
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        IS_ALONE.store(true, Relaxed);
    }
}

/// Sends the command what was sent to us alone. What the terminal sends (Ctrl-C) has reached it
/// already, and programs take a second one for impatience.
fn pass_on(child: &Child, origin: &Origin) {
    if origin.cause == Cause::Kernel {
        return;
    }
    let signal = match origin.signal {
        SIGINT => Signal::INT,
        SIGTERM => Signal::TERM,
        SIGHUP => Signal::HUP,
        SIGQUIT => Signal::QUIT,
        _ => return,
    };
    // It was not waited for yet, so the number is still its own; it may have ended all the same.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// How we end after the command did, as shells count: its code, or 128 and the number of the signal
/// that killed it.
pub(super) fn exit_after(status: ExitStatus) -> Exit {
    let number = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    Exit::Passed(u8::try_from(number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_as_shells_do() {
        // The halves of a wait status: the code above, the signal below.
        for (raw, number) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (2, 130)] {
            assert_eq!(exit_after(ExitStatus::from_raw(raw)).number(), number);
        }
    }
}
