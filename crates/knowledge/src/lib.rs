//! Reference data behind SQL lookups: KnowDB folders become sealed in-memory stores, statements
//! become native query plans, answers are cached by generation.
#![forbid(unsafe_code)]

mod bind;
mod error;
mod functions;
mod store;

pub use error::{Error, ErrorKind};

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;
