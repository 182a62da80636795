//! Writes results to standard output, where a reader that closes early is not an error, and checks
//! whether standard input and output were open at the start.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{CommandResult, Exit, Failure};

/// Whether standard output was closed when the program began.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard input was closed when the program began.
static IS_STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

ctor::declarative::ctor! {
    /// Checks standard input and output before Rust's runtime opens `/dev/null` in place of closed
    /// ones: from then on, output would be lost without an error, and the input would be empty.
    #[ctor(unsafe)]
    fn look_at_stdio() {
        // Relaxed: there is only one thread yet.
        IS_STDIN_CLOSED.store(is_closed(io::stdin().as_fd()), Ordering::Relaxed);
        IS_STDOUT_CLOSED.store(is_closed(io::stdout().as_fd()), Ordering::Relaxed);
    }
}

fn is_closed(fd: BorrowedFd<'_>) -> bool {
    rustix::io::fcntl_getfd(fd) == Err(rustix::io::Errno::BADF)
}

/// Fails if standard input was closed.
pub(crate) fn check_stdin() -> Result<(), Failure> {
    if IS_STDIN_CLOSED.load(Ordering::Relaxed) {
        let failure = Failure::new("standard input is closed");
        return Err(failure.with_help("to read nothing, redirect it: </dev/null"));
    }
    Ok(())
}

/// Fails if standard output was closed.
pub(crate) fn check_stdout() -> Result<(), Failure> {
    if IS_STDOUT_CLOSED.load(Ordering::Relaxed) {
        let failure = Failure::new("standard output is closed");
        return Err(failure.with_help("to write nothing, redirect it: >/dev/null"));
    }
    Ok(())
}

/// Writes the output of `write` to standard output. If the reader has closed the pipe (`| head
/// -1`), the rest is discarded and the command succeeds.
pub(crate) fn write_stdout(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    check_stdout()?;
    let cannot =
        |error: io::Error| Err(Failure::new("cannot write to standard output").because(&error));
    let stdout = io::stdout().lock();
    // Bypasses the handle of the standard library, which silently discards output if the descriptor
    // is not writable.
    let file = match stdout.as_fd().try_clone_to_owned() {
        Ok(fd) => File::from(fd),
        Err(error) => return cannot(error),
    };
    let mut out = io::BufWriter::new(file);
    match write(&mut out).and_then(|()| io::Write::flush(&mut out)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => cannot(error),
        _ => Ok(()),
    }
}

/// [`write_stdout`] as the last thing that a command does.
pub(crate) fn finish_stdout(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> CommandResult {
    write_stdout(write).map(|()| Exit::Done)
}

/// Escapes control characters, so that untrusted text stays on one line and cannot control the
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}
