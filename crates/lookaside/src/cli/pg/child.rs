//! Runs a command in the foreground: signals are forwarded to it, and its exit status becomes ours.

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

/// The exit statuses of shells for a command that cannot be executed, and for one that was not
/// found.
const EXIT_NOT_RUN: Exit = Exit::Passed(126);
const EXIT_NOT_FOUND: Exit = Exit::Passed(127);

/// Keeps signals from ending this process, so that it can clean up, and runs commands that the
/// signals are forwarded to.
pub(super) struct Foreground {
    signals: SignalsInfo<WithOrigin>,
}

/// The signals that are handled in addition to `SIGCHLD`.
const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Whether no command runs in the foreground, so that signals end this process. Handlers stay
/// installed, so they emulate the default action.
static IS_ALONE: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(true)));

impl Foreground {
    /// Reserves signals for the command from now on.
    pub(super) fn take() -> Result<Self, Failure> {
        let failure = |error| Failure::new("cannot listen for signals").because(&error);
        static HANDLERS: Once = Once::new();
        let mut installed = Ok(());
        // Installed before ours, since handlers run in the order of registration: once ours has
        // reported a signal, another thread may finish with the command before the next handler
        // runs.
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
            // The end of the command is a signal, too, so this always wakes up.
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

/// Forwards a signal that was sent to this process only. A signal of the terminal (Ctrl-C) has
/// reached the command already, and many programs treat a second one as a forced exit.
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
    // The child has not been reaped, so its pid is still valid; it may have ended nevertheless.
    let _ = kill_process(Pid::from_child(child), signal);
}

/// The exit status for that of the command, as shells count: its code, or 128 plus the number of
/// the signal that killed it.
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
        // A wait status has the code in the upper byte and the signal in the lower one.
        for (raw, number) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (2, 130)] {
            assert_eq!(exit_after(ExitStatus::from_raw(raw)).number(), number);
        }
    }
}
