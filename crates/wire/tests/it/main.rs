//! Tests of the public API: dialogues with a scripted server, and recorded ones with real servers.
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
mod replication;
mod requests;
mod server;
mod transcripts;
