//! A ring buffer shared by threads: items stay in their slots while one stage after the other works
//! on them.
//!
//! A [`Pipeline`] has one ring and at least one stage, and each stage at least one thread.
//! [`Producer`]s push items; a stage takes a batch of the items that the previous stage has
//! finished, changes them in place and passes them on by advancing a counter; the last stage moves
//! items out. A stage with one thread owns its state without a lock, and sees items in the order in
//! which they entered.
//!
//! - Nothing is allocated after the start, and the ring is bounded: while it is full,
//!   [`Producer::push`] waits and [`Producer::try_push`] returns the item.
//! - Threads without work sleep by default; see [`Wait`]. A thread that is not asleep is never
//!   unparked.
//! - A stage that panics ends the pipeline. All waiting threads are woken, producers get their
//!   items back, and [`Pipeline::join`] names the stage. Items left in the ring are dropped once.
//!
//! The crate does not depend on what an item is. It is the only crate of Lookaside with `unsafe`
//! code: counters ensure that two threads never own a slot at once, which the compiler cannot
//! check. The rule is at the top of `ring.rs`, and models under a checker that tries every order of
//! events test it.

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
