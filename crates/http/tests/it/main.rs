//! A server in the same process, and clients that behave and misbehave.

mod attacks;
mod awkward;
mod client;
mod encoding;
mod fuzz;
mod later;
mod life;
mod memory;
mod mistakes;
mod refusals;
mod requests;
mod serial;
mod service;
mod static_files;
mod streams;
mod tls;

/// Reports a skipped test. In CI that is a failure.
fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI must have {what}");
    use std::io::Write as _;
    // Standard error is not captured, so it is visible.
    let _ = writeln!(std::io::stderr(), "SKIP {what} is not here");
}
