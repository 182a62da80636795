//! The engine that checks whether the answers of caches are as fresh as their contracts promise.
//!
//! Writers change registers, readers read them through every layer under every contract, and all of
//! it is recorded in one clock. Afterwards [`check`](check::check) compares each read with the
//! writes of its key.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`history`] | operations with their times, in 40 bytes a read |
//! | [`check`] | the rules of the contracts, violations, staleness |
//! | [`matrix`] | counts by contract, layer and fault, and the demands on them |
//! | [`export`] | histories as EDN for Knossos and Elle |
//! | [`excerpt`] | the operations around a violation, as lines for people |
//! | [`fault`] | faults as data, and a schedule from a seed |
//! | [`mod@run`] | threads that write and read through traits, and record |
//!
//! The crate uses no server and no other crate of ours: what is written and read is behind the traits
//! [`WriteConnection`](run::WriteConnection) and [`Reader`](run::Reader).
#![forbid(unsafe_code)]

pub mod check;
mod error;
pub mod excerpt;
pub mod export;
pub mod fault;
pub mod history;
pub mod matrix;
pub mod run;

pub use error::{Cause, Error, ErrorKind, Result};
