//! The crate from outside.

mod folder;
mod non_blocking;
mod reload;
