//! A ring that threads share: items stay in their slots while stage after stage works on them.
//!
//! A [`Pipeline`] has one ring and one stage or more, each with a thread or more. [`Producer`]s put items
//! in; a stage takes a batch of what the stage before has finished, changes it in place and passes it
//! on by moving a counter; the last stage moves items out. A stage with one thread owns its state without
//! a lock, and sees items in the order in which they entered.
//!
//! - Nothing is allocated after the start, and the ring is the bound: a full one makes
//!   [`Producer::push`] wait and [`Producer::try_push`] give the item back.
//! - Threads without work sleep, by default; see [`Wait`]. A thread that is awake is never woken.
//! - A stage that panics ends the pipeline. Whoever waits is woken, producers get their items back, and
//!   [`Pipeline::join`] names the stage. Items left in the ring are dropped once.
//!
//! What an item means is none of this crate's business. It is the only one of ours with `unsafe` code:
//! that two threads never own a slot at once is a matter of counters which the compiler cannot check. The
//! rule is at the top of `ring.rs`, and models under a checker that tries every order of events test it.

#![expect(
    unsafe_code,
    reason = "slots are owned by counters, which the compiler cannot follow"
)]

mod batch;
mod builder;
mod counters;
mod error;
mod options;
mod parker;
mod pipeline;
mod producer;
mod ring;
mod snapshot;
mod sync;
mod wait;
mod worker;

#[cfg(test)]
mod models;

pub use crate::batch::{Batch, IterMut, LastBatch};
pub use crate::builder::{Builder, Ready};
pub use crate::error::{Error, ErrorKind, Reason, Refused, Result};
pub use crate::options::StageOptions;
pub use crate::pipeline::Pipeline;
pub use crate::producer::Producer;
pub use crate::snapshot::{Snapshot, StageSnapshot};
pub use crate::wait::Wait;
pub use crate::worker::{LastWorker, Step, Worker};
