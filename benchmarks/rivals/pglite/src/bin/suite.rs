//! `rival-suite rtt|speed|prepared-updates --url URL --engine NAME [--place TEXT] [--count N] [--rounds N]`
//!
//! Runs a suite on any server that trusts its Unix socket, in an empty database.

use anyhow::{Context, Result};

use rival_pglite::arguments::Arguments;
use rival_pglite::measure::{Report, Server};

fn main() -> Result<()> {
    let arguments = Arguments::read(&["--url", "--engine", "--place", "--count", "--rounds"])?;
    let url = arguments.value("--url").context("--url is missing")?;
    let report = Report {
        engine: arguments
            .value("--engine")
            .context("--engine is missing")?
            .into(),
        place: arguments.value("--place").unwrap_or_default().into(),
    };
    rival_pglite::run_suite(&arguments, url, Server::Outside, &report)
}
