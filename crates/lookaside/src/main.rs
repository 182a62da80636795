//! The program `lookaside`.
// Not `forbid`: the macro that runs a function before `main` allows it for what it expands to, see
// `cli::output`. There is no unsafe code of ours here.
#![deny(unsafe_code)]

mod cli;
mod columns;
mod config;
mod failure;
mod keys;
mod log;
mod models;
mod numbers;
mod progress;
mod project;
mod serve;
mod suggestion;

use std::process::ExitCode;

/// Events are allocated on one thread and freed on another; mimalloc gives such memory back without
/// a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run().into()
}
