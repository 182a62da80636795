//! What an embedded PostgreSQL costs: the suites that every engine of this comparison runs.
//!
//! The suites speak to a URL and know nothing of what serves it, so the same bytes go to
//! pglite-oxide (`rival-pglite`), to a server of PostgreSQL's own programs (`rival-bare`) and to ours
//! (`rival-suite URL`). Each measure is one line of JSON.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod client;
pub mod measure;
pub mod rtt;
pub mod speed;
pub mod updates;

use anyhow::{Result, bail};

use crate::arguments::Arguments;
use crate::measure::{Report, Server};

/// The allocator that our own program uses, so that it is no difference between the engines.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the suite that the arguments name on an empty database at `url`. `serve` prints the URL for
/// other programs and waits until there is no more input.
pub fn run_suite(arguments: &Arguments, url: &str, server: Server, report: &Report) -> Result<()> {
    match arguments.case.as_str() {
        "rtt" => rtt::run(url, server, arguments.count("--count", 10_000)?, report),
        "speed" => speed::run(url, server, arguments.count("--rounds", 5)?, report),
        "prepared-updates" => updates::run(url, server, arguments.count("--rounds", 5)?, report),
        "serve" => {
            println!("{url}");
            std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
            Ok(())
        }
        other => bail!("case {other} is none of those in this program's first lines"),
    }
}
