//! How a benchmark's figures are shown: a table for people, a line of JSON for programs.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};

use crate::measure::{Measured, Spread};

/// Prints one measured case to standard output; a closed pipe is not a failure.
///
/// # Errors
///
/// When standard output cannot be written to.
pub fn print(measured: &Measured, json: bool) -> io::Result<()> {
    let mut text = if json {
        serde_json::to_string(measured)?
    } else {
        table(measured)
    };
    text.push('\n');
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn table(measured: &Measured) -> String {
    let mut text = format!("{} {}\n", measured.bench, measured.case);
    let mut line = |name: &str, value: String| {
        writeln!(text, "  {name:<5} {value}").expect("a string takes any text");
    };
    let cpu = spread(measured.cpu_ns_per_op);
    line(
        "CPU",
        format!("{cpu} an operation, {} operations", measured.ops),
    );
    let rate = 1e9 / measured.wall_ns_per_op.median;
    line(
        "wall",
        format!("{}, {rate:.0}/s", spread(measured.wall_ns_per_op)),
    );
    for (name, value) in &measured.notes {
        line(name, value.clone());
    }
    line("hash", measured.hash.clone());
    text.truncate(text.trim_end().len());
    text
}

/// The median, and the smallest and the largest round, in a readable unit.
fn spread(spread: Spread) -> String {
    let (unit, size) = match spread.median {
        ..1e4 => ("ns", 1.0),
        ..1e7 => ("us", 1e3),
        _ => ("ms", 1e6),
    };
    format!(
        "{:.1} {unit} ({:.1} – {:.1})",
        spread.median / size,
        spread.min / size,
        spread.max / size
    )
}
