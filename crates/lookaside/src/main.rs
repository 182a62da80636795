//! The program `lookaside`.
//!
//! A module uses those below it in this table and none above.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`cli`] | the commands |
//! | [`serve`] | the service that `lookaside serve` starts |
//! | [`project`] | a folder: its configuration, its tables, its models |
//! | [`models`] | the models of a folder: read, bound, reviewed, run over batches |
//! | [`config`] | `[enrich]`, `[lookups.NAME]` and `[server]` of `knowdb.toml` |
//! | [`progress`] | bars on a terminal |
//! | [`failure`] | how a command ends, and why |
//! | [`log`], [`keys`], [`columns`], [`numbers`], [`suggestion`] | what stands alone |
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
