//! The crate from outside.

mod config;
mod folder;
mod non_blocking;
mod reload;
