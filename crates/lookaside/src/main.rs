//! The program `lookaside`.
#![forbid(unsafe_code)]

mod cli;
mod serve;

use std::process::ExitCode;

/// Events are allocated on one thread and freed on another; mimalloc gives such memory back without
/// a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run().into()
}
