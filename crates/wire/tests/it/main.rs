//! What the crate promises, seen from outside: dialogues with a server that is a few lines of test,
//! and with real ones that were recorded.
#![allow(clippy::print_stderr, reason = "seeds of random tests are printed")]

mod allocation;
mod batches;
mod copy;
mod ends;
mod fuzz;
mod login;
mod messages;
mod mysql;
mod queries;
mod requests;
mod server;
mod transcripts;
