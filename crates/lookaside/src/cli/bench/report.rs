//! How a benchmark's figures are shown: a table for people, a line of JSON for programs.

use std::io::{self, Write};

use super::Result;
use super::measure::{Measured, Spread};

/// Prints one measured case.
pub(super) fn print(measured: &Measured, json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, measured)?;
        return Ok(writeln!(out)?);
    }
    let figure = |spread: Spread| {
        format!(
            "{:.1} ns ({:.1} – {:.1})",
            spread.median, spread.min, spread.max
        )
    };
    writeln!(out, "{} {}", measured.bench, measured.case)?;
    writeln!(
        out,
        "  CPU   {} an operation, {} operations",
        figure(measured.cpu_ns_per_op),
        measured.ops
    )?;
    let rate = 1e9 / measured.wall_ns_per_op.median;
    writeln!(
        out,
        "  wall  {}, {:.3} million/s",
        figure(measured.wall_ns_per_op),
        rate / 1e6
    )?;
    for (name, value) in &measured.notes {
        writeln!(out, "  {name}: {value}")?;
    }
    Ok(writeln!(out, "  hash  {}", measured.hash)?)
}
