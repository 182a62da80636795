//! What a real server makes of our values and queries, and we of its answers.
#![allow(
    clippy::print_stderr,
    reason = "seeds and what a test had to leave out are said"
)]

mod differential;
mod documented;
mod driver;
mod generate;
mod live;
mod mysql;
mod net;
mod params;
mod raw;
mod session;

use std::io::{self, Write as _};

/// Says what is left out and why, past the harness, which shows nothing of a test that passes.
fn skip(why: &str) {
    let _ = writeln!(io::stderr(), "SKIP {why}");
}
