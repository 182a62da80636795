//! Workloads and load generation for benchmarks and tests, and measurements of their cost.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`workload`] | keys, tables and log lines, the same on every machine for one seed |
//! | [`measure`] | rounds of fixed length, CPU time, hashes of answers |
//! | [`report`] | a measured case as a table or a line of JSON |
//! | [`processes`] | CPU time, memory and context switches of processes |
//! | [`relay`] | a TCP link with a delay |
//! | [`http`] | a load generator for HTTP/1.1 servers |
//!
//! The crate is for programs: options that several programs share ([`measure::Rounds`],
//! [`workload::KeyArguments`]) are [`clap::Args`].
#![forbid(unsafe_code)]

mod error;
pub mod http;
pub mod measure;
pub mod processes;
pub mod relay;
pub mod report;
pub mod workload;

pub use error::{Error, ErrorKind};

/// A result with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
