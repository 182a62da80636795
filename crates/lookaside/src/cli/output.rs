//! Writing results to standard output, where a reader that leaves early is not an error, and whether there
//! is one, and a standard input.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Exit, Failure, Outcome};

/// Whether standard output was closed when the program began.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// The same for standard input.
static IS_STDIN_CLOSED: AtomicBool = AtomicBool::new(false);

ctor::declarative::ctor! {
    /// Looks at standard input and output before the runtime does, which opens `/dev/null` in the place
    /// of a closed one: from then on what is written is lost without an error, and the input is empty.
    #[ctor(unsafe)]
    fn look_at_stdio() {
        // Relaxed: there is one thread.
        IS_STDIN_CLOSED.store(is_closed(io::stdin().as_fd()), Ordering::Relaxed);
        IS_STDOUT_CLOSED.store(is_closed(io::stdout().as_fd()), Ordering::Relaxed);
    }
}

fn is_closed(fd: BorrowedFd<'_>) -> bool {
    rustix::io::fcntl_getfd(fd) == Err(rustix::io::Errno::BADF)
}

/// Fails if there is no standard input to read from.
pub(crate) fn check_stdin() -> Result<(), Failure> {
    if IS_STDIN_CLOSED.load(Ordering::Relaxed) {
        let failure = Failure::new("standard input is closed");
        return Err(failure.with_help("to read nothing on purpose, redirect it: </dev/null"));
    }
    Ok(())
}

/// Fails if there is no standard output to write to.
pub(crate) fn check_stdout() -> Result<(), Failure> {
    if IS_STDOUT_CLOSED.load(Ordering::Relaxed) {
        let failure = Failure::new("standard output is closed");
        return Err(failure.with_help("to write nothing on purpose, redirect it: >/dev/null"));
    }
    Ok(())
}

/// Writes what `write` makes to standard output. When the reader has gone (`| head -1`), the rest is
/// nobody's loss and the command is done.
pub(crate) fn write_stdout(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    check_stdout()?;
    let cannot =
        |error: io::Error| Err(Failure::new("cannot write to standard output").because(&error));
    let stdout = io::stdout().lock();
    // Past the standard library's own handle, to which a descriptor that cannot be written is one
    // that takes everything.
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
pub(crate) fn finish_stdout(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Outcome {
    write_stdout(write).map(|()| Exit::Done)
}

/// Text from outside as one line that cannot drive the terminal: control characters are escaped.
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
