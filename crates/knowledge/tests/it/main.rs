//! The crate from outside.

mod config;
mod folder;
mod non_blocking;
mod provider;
mod reload;
