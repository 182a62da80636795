//! The engine of `lookaside verify freshness`: it checks that caches keep what they promise.
//!
//! Writers change registers, readers read them through every layer under every contract, and all of
//! it is recorded in one clock.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`history`] | operations with their times, in 40 bytes a read |
//! | [`fault`] | faults as data, and a schedule from a seed |
//!
//! The crate uses no server and no other crate of ours.
#![forbid(unsafe_code)]

mod error;
pub mod fault;
pub mod history;

pub use error::{Cause, Error, ErrorKind, Result};
