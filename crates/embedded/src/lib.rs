//! A PostgreSQL that starts inside a test or an app.
#![forbid(unsafe_code)]

mod binaries;
mod cache;
mod digest;
mod doctor;
mod error;
mod identity;
mod version;

pub use binaries::{Binaries, Progress, Source};
pub use doctor::{Finding, Grade, Report, doctor};
pub use error::{Error, ErrorKind, Result};
pub use version::{Version, VersionRequirement};
