//! The program `lookaside`.
//!
//! A module uses those below it in this table, never those above.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`cli`] | the commands |
//! | [`webhook`] | the HTTP source of `lookaside enrich` |
//! | [`serve`] | the service that `lookaside serve` starts |
//! | [`project`] | a project folder: its configuration, its tables, its models |
//! | [`models`] | the models of a project: reading, binding, reviewing and running them |
//! | [`config`] | `[enrich]`, `[lookups.NAME]` and `[server]` of `knowdb.toml` |
//! | [`progress`] | progress bars on a terminal |
//! | [`failure`] | errors of commands and exit statuses |
//! | [`log`], [`keys`], [`columns`], [`numbers`], [`suggestion`], [`units`] | independent helpers |
// Not `forbid`: the macro that runs a function before `main` (see `cli::output`) allows unsafe code
// in its expansion. This crate itself contains none.
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
mod units;
mod webhook;

use std::process::ExitCode;

/// Events are allocated on one thread and freed on another; mimalloc returns such memory without a
/// lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run().into()
}
