//! `lookaside pg doctor`: reports what was found on this machine, with hints.

use lookaside_embedded::{Grade, doctor};

use crate::cli::output::write_stdout;
use crate::failure::{CommandResult, Exit};

pub(super) fn run() -> CommandResult {
    let report = doctor();
    write_stdout(|out| {
        for finding in &report.findings {
            let sign = match finding.grade {
                Grade::Good => "ok",
                Grade::Notice => "note",
                Grade::Bad => "bad",
            };
            writeln!(out, "{sign:<4}  {}: {}", finding.what, finding.state)?;
            if let Some(advice) = &finding.advice {
                writeln!(out, "      {advice}")?;
            }
        }
        Ok(())
    })?;
    Ok(match report.grade() {
        Grade::Good | Grade::Notice => Exit::Done,
        Grade::Bad => Exit::Failed,
    })
}
