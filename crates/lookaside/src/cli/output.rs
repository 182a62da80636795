//! Writing results to standard output, where a reader that leaves early is no error.

use std::io::{self, ErrorKind};

use crate::cli::failure::{Exit, Failure, Outcome};

/// Writes what `write` makes to standard output. When the reader has gone (`| head -1`), the rest is
/// nobody's loss and the command is done.
pub(crate) fn write_stdout(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| io::Write::flush(&mut out)) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new("cannot write to standard output").because(&error))
        }
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
